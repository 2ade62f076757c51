// The setup phase of one model: the backend that takes it, a warm-up in a child under the limit, the
// fingerprint of its files, and with --tune the settings that fit.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "bench/interrupt.h"
#include "bench/prepared_data.h"
#include "model/bench_options.h"
#include "trace/device_account.h"

namespace headroom::bench {

struct PreparationContext {
  const BenchOptions& options;
  Bytes frames_held;  // what decoded frames will take of the limit in the run itself; a trial has none
  Interrupt& interrupt;
  const trace::DeviceAccount* device_account;  // nullptr: no model runs on a GPU
  std::function<void(const std::string& step)> say;
  std::function<void(const PreparedModel& model)> report;  // what is known of it, after each trial of --tune
};

// Errors only when the whole setup must end; a model that fails is named in the result.
Result<PreparedModel> prepare_model(const ModelSpec& spec, const PreparationContext& context);

}  // namespace headroom::bench
