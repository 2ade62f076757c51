// What `headroom trace` asks of the tracer, as it comes in the environment.
#pragma once

#include <cstdint>

#include "ledger/account.h"

namespace headroom::tracer {

// What a probe found of the limits before the program was started.
enum class ProvedLimit : std::uint8_t { not_tried, hard, soft };

enum class StackMode : std::uint8_t { off, frame_pointers, unwind };

struct Options {
  bool ledger = false;                         // no recording: account of GPU memory, and its limits, alone
  bool host = true;                            // the host's memory, too: of the library, not of the text
  bool full = false;                           // record every allocation, not only large ones and samples
  StackMode stacks = StackMode::unwind;        // how call stacks are taken
  bool layers = true;                          // scopes of NVTX and ONNX Runtime
  bool ring = false;                           // reuse the oldest segment instead of stopping at the limit
  std::uint64_t segments = ~std::uint64_t{0};  // the most segments the file may have
  std::uint64_t events = 0;                    // stop after so many; 0: no bound
  std::uint64_t large_bytes = 4096;      // default mode: allocations of this size and above are recorded each
  std::uint64_t sample_period = 262144;  // default mode: one sample in so many bytes of smaller ones
  ledger::Limits device_limits;          // "device=8589934592" for all, "device0=…" for one
  ProvedLimit proved = ProvedLimit::not_tried;  // "proved=hard"
  char account[256] = {};  // the file of the account that other processes share; empty: none
  char outer_accounts[ledger::kMaxAccounts - 1][256] = {};  // "within=": those that it lies within
  unsigned outer_account_count = 0;
};

// "full=1,stacks=fp,ring=64": keys that are not known, and values that make no sense, leave the default.
Options parse_options(const char* text);

}  // namespace headroom::tracer
