// The nodes of autograd's graph as layers of the backward pass. A node remembers the number that its operator
// had in the forward pass; so it is told which module's gradients it computes.
#pragma once

#include <cstdint>

namespace headroom::memory_tracer {

// Calls nest.
void watch_backward();
void unwatch_backward();

struct ForwardPlace {
  std::uint64_t thread;  // PyTorch's number of it
  std::uint64_t sequence;
};
// Where the calling thread is in the numbering of forward operators; false where they get none (inference).
bool forward_place(ForwardPlace& place);

}  // namespace headroom::memory_tracer
