// `headroom build-engine`: builds a TensorRT engine from an ONNX model, in a child process under the limit.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "inference/tensorrt/engine_builder.h"
#include "inference/tensorrt/engine_record.h"
#include "ledger/account.h"

namespace headroom::bench {

struct BuildEngineOptions {
  tensorrt::EngineRequest request;  // without creator and time, which the child sets
  std::optional<Bytes> limit;       // host memory of the child
  std::string mechanism = "auto";   // as --limit-mechanism of bench
  ledger::Limits gpu_limits;
  Nanoseconds timeout{600'000'000'000};  // longest time without an event from the child
};

struct BuiltEngine {
  tensorrt::EngineOutcome outcome;
  tensorrt::EngineRecord record;
  Nanoseconds time;
  bool interrupted = false;  // if true, no other field is set
};

// Errors: input (cannot read the model, or found no plug-in, TensorRT or GPU), or failed (the builder's
// error). Calls `progress` with each step of the build.
Result<BuiltEngine> build_engine(const BuildEngineOptions& options,
                                 const std::function<void(const std::string&)>& progress);

// The child (hidden verb _build_engine); returns the exit code.
int run_build_engine_process();

}  // namespace headroom::bench
