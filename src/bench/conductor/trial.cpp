#include "bench/conductor/trial.h"

#include "bench/conductor/supervise.h"
#include "limits/memory_limit.h"

namespace headroom::bench {

Result<TrialOutcome> run_trial(const WorkerModel& model, WorkerKind kind, const BenchOptions& options,
                               Interrupt& interrupt, const trace::DeviceAccount* device_account,
                               Bytes reserved) {
  std::string note;
  std::optional<Bytes> bytes = options.memory_limit;
  if (bytes && *bytes > reserved) bytes = *bytes - reserved;
  auto limit = limits::make_memory_limit(model.name, bytes, options.limit_mechanism, note);
  if (!limit) return forward_error(limit);
  WorkerPlan plan;
  plan.label = model.name;
  plan.limit = limit->get();
  plan.device_account = device_account;
  plan.timeout = options.timeout;
  plan.job.kind = kind;
  plan.job.models = {model};
  plan.job.image_size = options.image_size;
  plan.job.confidence = options.confidence;
  plan.job.iou = options.iou;
  // Two blank frames show that a model runs. A timed trial warms up as the measured run does.
  plan.job.warmup_frames = kind == WorkerKind::setup ? 2 : options.warmup_frames;
  auto run = WorkerRun::start(plan);
  if (!run) return forward_error(run);
  if (!supervise({run->get()}, interrupt, options.metrics_interval, nullptr))
    return failure("the trial of model " + model.name + " was stopped", "interrupted");
  TrialOutcome outcome;
  outcome.result = (*run)->result();
  if (const auto& models = (*run)->account().models; !models.empty()) {
    outcome.takes_frames = models.front().takes_frames;
    outcome.class_names = models.front().class_names;
    outcome.precision = models.front().precision;
    outcome.outputs = models.front().outputs;
  }
  return outcome;
}

}  // namespace headroom::bench
