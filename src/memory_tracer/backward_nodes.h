// Autograd nodes as layers of the backward pass. A node stores the sequence number of its forward operator,
// which identifies the module whose gradients it computes.
#pragma once

#include <cstdint>

namespace headroom::memory_tracer {

// Calls nest.
void watch_backward();
void unwatch_backward();

struct ForwardPlace {
  std::uint64_t thread;  // PyTorch's thread number
  std::uint64_t sequence;
};
// The calling thread's position in the numbering of forward operators. Returns false if they are not numbered
// (inference).
bool forward_place(ForwardPlace& place);

}  // namespace headroom::memory_tracer
