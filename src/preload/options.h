// The tracer's options, which `headroom trace` passes in an environment variable.
#pragma once

#include <cstdint>

#include "ledger/account.h"

namespace headroom::preload {

// The result of the probe that tested the limits before the program started.
enum class ProvedLimit : std::uint8_t { not_tried, hard, soft };

enum class StackMode : std::uint8_t { off, frame_pointers, unwind };

struct Options {
  bool ledger = false;                   // no recording: only the account of GPU memory and its limits
  bool host = true;                      // record host memory; set from kHasHostHooks, not parsed
  bool full = false;                     // record every allocation, not only large ones and samples
  StackMode stacks = StackMode::unwind;  // how call stacks are taken
  bool layers = true;                    // record scopes of NVTX, ONNX Runtime and PyTorch
  // overwrite the oldest segment instead of stopping at `segments`
  bool ring = false;
  std::uint64_t segments = ~std::uint64_t{0};  // maximum number of segments in the file
  std::uint64_t events = 0;                    // stop after this number of events; 0: no limit
  std::uint64_t large_bytes = 4096;            // default mode: record each allocation of at least this size
  std::uint64_t sample_period = 262144;  // default mode: sample smaller allocations once per this many bytes
  ledger::Limits device_limits;          // "device=8589934592" for all, "device0=…" for one
  ProvedLimit proved = ProvedLimit::not_tried;  // "proved=hard"
  char account[256] = {};                       // file of the account that other processes share; empty: none
  char outer_accounts[ledger::kMaxAccounts - 1][256] = {};  // "within=": the accounts that enclose it
  unsigned outer_account_count = 0;
};

// "full=1,stacks=fp,ring=64": unknown keys and invalid values keep the default.
Options parse_options(const char* text);

}  // namespace headroom::preload
