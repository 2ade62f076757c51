// Why PyTorch got no GPU memory, by the figures of its message (torch_message.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

enum class TorchCause {
  wrong_size,       // no machine has what it asked for
  too_large,        // one allocation is larger than the GPU
  unknown,          // the message does not tell who held the memory
  cut_off,          // it tells what others held, and not what the program did
  own_share,        // what the program allowed itself is used up, and the GPU has more
  limit_of_mac,     // what PyTorch allows itself on a Mac is used up
  spilled,          // more is allocated than there is: the driver moved some to the host
  other_processes,  //
  rest_of_system,   // of a Jetson, which shares the memory
  fragmentation,    //
  own_tensors,
  refused_though_free,  // far more was free than it asked for
  not_its_own,          // what is free is not told, and what the program held is far from all
};

struct TorchFigures {
  std::optional<Bytes> requested, total, free, allocated, others, named, allowed, process, pools;
  std::optional<Bytes> of_metal;  // on a Mac: what is the process's and not PyTorch's
  Bytes idle;                     // reserved and not allocated
  std::string library;            // "HIP", "XPU", "MPS"; empty: CUDA
  bool is_wrong_size = false;

  explicit TorchFigures(const LogMessage& message);
  std::optional<Bytes> own() const { return allocated ? allocated : process; }
  // All that the program kept from others: what lies idle, too.
  Bytes held() const { return process.value_or(allocated.value_or(Bytes{}) + idle); }
  // Whether no more than nine tenths would be full with what it held and asked for: the rest is the driver's.
  bool leaves_much() const;
  // What a message that is cut off leaves to the program, and to what is of no process.
  Bytes own_at_most() const;
  // What is neither free nor the program's; where its context is not told, that is taken for the rest's.
  Bytes of_the_rest() const { return *total - *free - held(); }
  // Of what PyTorch allows itself on a Mac.
  Bytes left_on_mac() const;
};

// What PyTorch asks the driver for: 2 MiB for requests up to 1 MiB, 20 MiB below 10 MiB, then whole 2 MiB.
Bytes block_for(Bytes requested);

// Whether Intel's driver gives none so large in one piece, unless it is told otherwise.
bool asks_for_large_piece(const TorchFigures& figures);

TorchCause torch_cause(const TorchFigures& figures);
std::string words_of(TorchCause cause, const TorchFigures& figures, const LogMessage& message);

}  // namespace headroom::doctor
