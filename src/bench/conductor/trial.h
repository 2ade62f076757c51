// Runs one model in one child under the limit, on blank frames. This proves that it loads and runs, or times
// one combination of settings. A model that crashes, hangs or runs out of memory harms no other process.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/conductor/measuring_child.h"
#include "bench/interrupt.h"
#include "bench/protocol.h"
#include "types/bench_options.h"
#include "types/bench_result.h"
#include "types/tensor.h"

namespace headroom::bench {

struct TrialOutcome {
  ModelResult result;
  bool takes_frames = false;
  std::vector<std::string> class_names;
  std::optional<Precision> precision;
  std::vector<TensorSpec> outputs;
};

// Returns an error only if the trial could not start or was interrupted. The outcome reports a failing model.
// `reserved` is subtracted from the limit, for memory that only the measured run needs.
Result<TrialOutcome> run_trial(const WorkerModel& model, WorkerKind kind, const BenchOptions& options,
                               Interrupt& interrupt, const trace::DeviceAccount* device_account,
                               Bytes reserved = {});

}  // namespace headroom::bench
