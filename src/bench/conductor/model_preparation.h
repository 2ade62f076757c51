// The setup phase of one model. Chooses the backend, warms the model up in a child under the limit, and
// computes the fingerprint of its files. With --tune, it also searches the best settings.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "bench/interrupt.h"
#include "bench/prepared_data.h"
#include "trace/device_account.h"
#include "types/bench_options.h"

namespace headroom::bench {

struct PreparationContext {
  const BenchOptions& options;
  Bytes frames_held;  // memory of decoded frames within the limit in the measured run; a trial has none
  Interrupt& interrupt;
  const trace::DeviceAccount* device_account;  // nullptr: no model runs on a GPU
  std::function<void(const std::string& step)> log_step;
  // called with the state of the model after each trial of --tune
  std::function<void(const PreparedModel& model)> report;
};

// The error of a model that takes frames in a run without a source.
inline constexpr const char* kNeedsSource = "this model takes frames: add --source";

// Returns an error only if the whole setup must end. A model that fails is a result, not an error.
Result<PreparedModel> prepare_model(const ModelSpec& spec, const PreparationContext& context);

}  // namespace headroom::bench
