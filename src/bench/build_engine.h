// `headroom build-engine`: a TensorRT engine of an ONNX model, built in a child under the limit.
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
  tensorrt::EngineOrder order;     // creator and time are filled in
  std::optional<Bytes> limit;      // of the child's memory of the machine
  std::string mechanism = "auto";  // as --limit-mechanism of bench
  ledger::Limits gpu_limits;
  Nanoseconds timeout{600'000'000'000};  // without a sign of life
};

struct BuiltEngine {
  tensorrt::EngineOutcome outcome;
  tensorrt::EngineRecord record;
  Nanoseconds time;
  bool interrupted = false;  // nothing else is filled then
};

// Errors: the model cannot be read, there is no plug-in, TensorRT or GPU (input); the builder's own (failed).
// `progress` is told what is at work.
Result<BuiltEngine> build_engine(const BuildEngineOptions& options,
                                 const std::function<void(const std::string&)>& progress);

// The child (hidden verb _build_engine); returns the exit code.
int run_build_engine_process();

}  // namespace headroom::bench
