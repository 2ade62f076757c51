#include "bench/conductor/extra_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "bench/conductor/helper_process.h"
#include "bench/conductor/layer_phase.h"
#include "bench/conductor/pool_phase.h"
#include "report/run/outcome.h"

namespace headroom::bench {
namespace {

// The extra runs of one bench.
class Extras {
 public:
  Extras(const ExtraRuns& runs, const BenchContext& context, BenchResult& result)
      : runs_(runs), context_(context), result_(result) {}

  ExtraOutcome measure() {
    if (context_.options.parallel) measure_parallel();
    if (context_.options.pipeline && !outcome_.interrupted) measure_the_pipeline();
    if (context_.options.pool && !outcome_.interrupted) measure_the_pool();
    if (context_.options.layers && !outcome_.interrupted) measure_layers();
    return outcome_;
  }

 private:
  // The report is saved before each extra run starts. If the conductor is killed, the report shows that the
  // run was requested but not reached.
  void measure_parallel() {
    runs_.step("running all models at once");
    result_.parallel.emplace();
    for (const PreparedModel& model : context_.prepared.models) {
      if (model.status != ModelStatus::ok) continue;
      ModelResult& stub = result_.parallel->together.emplace_back();
      stub.name = model.name;
      stub.error = report::kNotReached;
    }
    runs_.save();
    auto together = measure_together(context_, result_.models);
    if (!together) {
      result_.parallel.reset();
      return note_failure(together.error());
    }
    for (ModelResult& model : together->together) mark_if_cut_short(model.status, model.error);
    result_.frames_held_peak = std::max(result_.frames_held_peak, together->frames_held);
    result_.parallel = std::move(*together);
    for (const ModelResult& model : result_.parallel->together)
      for (const std::string& warning : model.warnings)
        warn(fmt::format("all at once, {}: {}", model.name, warning));
    warn_of_deaths(result_.parallel->together);
    if (result_.parallel->within_limit == false && result_.limit)
      log::error("all at once: the models exceeded the limit of {}", format_bytes(result_.limit->bytes));
    finish_step("all models ran at once");
  }

  // If a model ends early, fewer models share the device from then on.
  void warn_of_deaths(const std::vector<ModelResult>& together) {
    std::string dead;
    for (const ModelResult& model : together)
      if (model.status != ModelStatus::ok) dead += (dead.empty() ? "" : ", ") + model.name;
    if (dead.empty() || was_stopped()) return;
    warn(
        fmt::format("all at once, {} ended early: from then on fewer models shared the device, so the "
                    "others' figures do not show all models together",
                    dead));
  }

  void measure_the_pipeline() {
    runs_.step("running the full pipeline in one process");
    result_.pipeline.emplace().error = report::kNotReached;
    runs_.save();
    std::vector<std::string> warnings;
    auto pipeline = measure_pipeline(context_, warnings);
    if (!pipeline) {
      result_.pipeline.reset();
      return note_failure(pipeline.error());
    }
    mark_if_cut_short(pipeline->status, pipeline->error);
    result_.frames_held_peak = std::max(result_.frames_held_peak, pipeline->frames_held);
    result_.pipeline = std::move(*pipeline);
    for (const std::string& warning : warnings) warn("pipeline: " + warning);
    if (result_.pipeline->memory.within_limit == false && result_.limit)
      log::error("pipeline: exceeded the limit of {}", format_bytes(result_.limit->bytes));
    finish_step("the pipeline ran");
  }

  void measure_the_pool() {
    runs_.step(fmt::format("running all models in a pool of {}", format_bytes(*context_.options.pool)));
    result_.pool.emplace().error = report::kNotReached;
    result_.pool->budget = *context_.options.pool;
    runs_.save();
    std::vector<std::string> warnings;
    auto pool = measure_pool(context_, result_.models, warnings);
    if (!pool) {
      result_.pool.reset();
      return note_failure(pool.error());
    }
    mark_if_cut_short(pool->status, pool->error);
    result_.frames_held_peak = std::max(result_.frames_held_peak, pool->frames_held);
    result_.pool = std::move(*pool);
    for (const std::string& warning : warnings) warn("pool: " + warning);
    if (result_.pool->memory.within_limit == false && result_.limit)
      log::error("pool: exceeded the limit of {}", format_bytes(result_.limit->bytes));
    finish_step("the pool ran");
  }

  // Runs each measured model again under the tracer, to show what its memory consists of.
  void measure_layers() {
    for (const PreparedModel& model : context_.prepared.models) {
      const auto is_same = [&](const ModelResult& measured) {
        return measured.name == model.name && measured.status == ModelStatus::ok;
      };
      const auto measured = std::find_if(result_.models.begin(), result_.models.end(), is_same);
      if (measured == result_.models.end()) continue;
      runs_.step(fmt::format("tracing the layers of {}", model.name));
      auto layers = trace_layers(context_, model, runs_.run_folder);
      if (layers) {
        measured->layers = std::move(*layers);
        runs_.save();
        continue;
      }
      note_failure(layers.error());
      if (outcome_.interrupted) return;
    }
  }

  void mark_if_cut_short(ModelStatus status, std::string& error) const {
    if (was_stopped() && status != ModelStatus::ok) error = report::kCutShort;
  }

  bool was_stopped() const { return context_.interrupt.signal_number() != 0; }

  void finish_step(const char* while_what) {
    outcome_.interrupted = was_stopped();
    if (auto throttling = context_.metrics.take_throttling(while_what)) warn(std::move(*throttling));
    runs_.save();
  }

  void note_failure(const Error& error) {
    outcome_.interrupted = was_interrupted(error) || was_stopped();
    outcome_.failed = true;
    warn(error.sentence());
    log::error("{}", error.sentence());
    runs_.save();
  }

  void warn(std::string warning) { result_.warnings.push_back(std::move(warning)); }

  const ExtraRuns& runs_;
  const BenchContext& context_;
  BenchResult& result_;
  ExtraOutcome outcome_;
};

}  // namespace

ExtraOutcome measure_extras(const ExtraRuns& runs, const BenchContext& context, BenchResult& result) {
  return Extras(runs, context, result).measure();
}

}  // namespace headroom::bench
