// `headroom bench`: runs models over frames, each in a fresh process under the limit, and writes the reports.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "inference/tensorrt/engine_builder.h"
#include "inference/tensorrt/engine_file.h"
#include "ledger/account.h"
#include "types/bench_options.h"

namespace headroom::bench {

// Runs the whole bench and writes the run folder. Returns the exit code: 0; 1 when a model failed or, with
// --strict, the limit was exceeded; 130 after Ctrl-C. An error means that nothing could be measured.
// `command`: the command line, for the report. `warnings`: warnings about changed options, for the report.
Result<int> run_bench(const BenchOptions& options, const std::string& command,
                      const std::vector<std::string>& warnings);

// `headroom run`: runs a command under a limit that was probed first.
struct RunLimitedOptions {
  std::vector<std::string> command;
  std::optional<Bytes> limit;      // host memory of all processes of the command together
  std::string mechanism = "auto";  // as --limit-mechanism of bench
  ledger::Limits gpu_limits;       // GPU memory of all processes together
  std::string share;               // name of the GPU memory account shared with other commands
  bool allow_no_gpu = false;       // runs the command without a GPU limit if there is no driver
};

// Returns the command's exit code, or 128 + the signal that ended it. At the end, one line on standard error
// reports the memory used, the limit and how far the limit was proved. After an error, no command was
// started.
Result<int> run_limited(const RunLimitedOptions& options);

// `headroom build-engine`: builds a TensorRT engine from an ONNX model, in a child process under the limit.
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

}  // namespace headroom::bench
