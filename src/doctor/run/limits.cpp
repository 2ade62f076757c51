// Findings about memory limits: a model or all models did not fit, or the limit did not hold.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"
#include "doctor/cure_trials.h"
#include "doctor/run/run_findings.h"
#include "report/words.h"

namespace headroom::doctor {
namespace {

Finding all_at_once(const BenchResult& run, std::string title, std::string cause, const std::string& error) {
  Finding finding{.id = "models-do-not-fit-together",
                  .severity = Severity::severe,
                  .title = std::move(title),
                  .cause = std::move(cause)};
  if (!error.empty()) finding.evidence = {{.text = error}};
  if (run.limit) finding.figures = {{"limit_bytes", run.limit->bytes.count}};
  return finding;
}

void add_cures_of_all(Finding& finding, const BenchResult& run) {
  if (run.limit && run.options && !run.pool)
    finding.cures.push_back(
        {"use a model pool: one process that loads and evicts models to stay inside the limit",
         command_at_once(run, {"--pool", exact_size(run.limit->bytes)})});
  finding.cures.push_back(
      {"plan which models run together, and with which settings", "headroom plan BUDGET.toml"});
}

bool came_through_alone(const BenchResult& run, const std::string& name) {
  return std::ranges::any_of(run.models, [&](const ModelResult& model) {
    return model.name == name && model.status == ModelStatus::ok;
  });
}

// --parallel.
std::optional<Finding> side_by_side(const BenchResult& run) {
  const ParallelResult& parallel = *run.parallel;
  std::vector<std::string> names, errors;
  bool all_lived = true;
  for (const ModelResult& model : parallel.together) {
    all_lived = all_lived && model.status == ModelStatus::ok;
    if (model.status != ModelStatus::oom || !came_through_alone(run, model.name)) continue;
    names.push_back(model.name);
    errors.push_back(model.name + ": " + model.error);
  }
  const bool went_over = all_lived && parallel.within_limit == false;
  if (names.empty() && !went_over) return std::nullopt;
  Finding finding =
      went_over ? all_at_once(run, "All models together used more memory than the limit",
                              "Each model fits alone. The limit did not stop all of them together, but a "
                              "machine of that size would.",
                              "")
                : all_at_once(run,
                              fmt::format("{} ran out of memory when all models ran together, but not alone",
                                          fmt::join(names, ", ")),
                              "Each model fits alone, but all of them together do not.",
                              fmt::format("{}", fmt::join(errors, "; ")));
  if (parallel.joint_peak) finding.figures.push_back({"joint_peak_bytes", parallel.joint_peak->count});
  const auto& sum = parallel.sum_of_peaks;
  if (sum) finding.figures.push_back({"sum_of_peaks_bytes", sum->count});
  add_cures_of_all(finding, run);
  if (sum && run.options) {
    BenchResult larger = run;
    larger.options->memory_limit = *sum;
    finding.cures.push_back(
        {fmt::format("raise the limit to the sum of their individual peaks, {}", format_bytes(*sum)),
         command_at_once(larger, {"--parallel"})});
  }
  return finding;
}

// --pipeline and --pool: a result with a status, an error and the memory of its one process.
std::optional<Finding> in_one_process(const BenchResult& run, const char* what, const auto& process) {
  const bool ran_out = process.status == ModelStatus::oom;
  if (!ran_out && process.memory.within_limit.value_or(true)) return std::nullopt;
  Finding finding = all_at_once(
      run, fmt::format("The {} {}", what, ran_out ? "ran out of memory" : "used more memory than the limit"),
      "All models ran in one process.", process.error);
  if (process.memory.run_peak) finding.figures.push_back({"run_peak_bytes", process.memory.run_peak->count});
  add_cures_of_all(finding, run);
  return finding;
}

std::vector<std::string> flags_of(const BenchOptions& options) {
  std::vector<std::string> flags;
  if (options.parallel) flags.emplace_back("--parallel");
  if (options.pipeline) flags.emplace_back("--pipeline");
  if (options.pool) flags.insert(flags.end(), {"--pool", exact_size(*options.pool)});
  return flags;
}

}  // namespace

std::optional<Finding> model_out_of_memory(const ModelResult& model, const BenchResult& run) {
  if (model.status != ModelStatus::oom) return std::nullopt;
  const bool while_loading = model.died_in && *model.died_in < Phase::model_loaded;
  std::optional<Bytes> limit;
  if (run.limit && is_on_cpu(model)) limit = run.limit->bytes;
  Finding finding{
      .id = "model-out-of-memory",
      .severity = Severity::severe,
      .title = fmt::format("{} ran out of memory{}{}", model.name,
                           model.died_in ? fmt::format(" {}", report::activity_after(*model.died_in)) : "",
                           limit ? fmt::format(", under a limit of {}", format_bytes(*limit)) : ""),
      .cause =
          while_loading
              ? "Loading needs more memory than running: it holds the runtime, the file, the weights and "
                "their re-packed copies at once."
              : "The memory that a run needs besides the weights did not fit.",
      .confidence = Confidence::likely,
      .evidence = {{.text = model.error}}};
  const auto add_figure = [&finding](const char* name, const std::optional<Bytes>& bytes) {
    if (bytes) finding.figures.push_back({name, bytes->count});
  };
  add_figure("limit_bytes", limit);
  if (limit) add_figure("limit_peak_bytes", limit_peak(model.memory, run.limit));
  add_figure("runtime_bytes", model.memory.runtime);
  add_figure("load_peak_bytes", model.memory.load_peak);  // until it failed
  add_figure("run_peak_bytes", model.memory.run_peak);
  add_figure("file_bytes", model.file_size);
  if (while_loading && can_map(model))
    finding.cures.push_back(with_settings(
        model, "map the weights from a file that is prepared once, without the limit or on a larger machine",
        "mapped=on,prepack=off", model.file_size));
  finding.cures.push_back({"search for settings that fit", "headroom bench --tune"});
  add_leaner_settings(finding, model);
  finding.cures.push_back(smaller_input());
  finding.cures.push_back({"measure how much memory it needs without a limit", "headroom bench"});
  finding.cures.push_back({"see which layers hold the memory", "headroom bench --layers"});
  return finding;
}

// Failures without a lack of memory. The finding run-incomplete covers runs that did not finish.
std::optional<Finding> model_failed(const ModelResult& model, const BenchResult& run) {
  const bool has_failed = model.status == ModelStatus::failed || model.status == ModelStatus::crashed ||
                          model.status == ModelStatus::timeout;
  if (!has_failed || !run.complete) return std::nullopt;
  return Finding{
      .id = "model-failed",
      .severity = Severity::severe,
      .title = fmt::format("{} {}{}", model.name,
                           model.status == ModelStatus::timeout ? "timed out" : name_of(model.status),
                           model.died_in ? fmt::format(" {}", report::activity_after(*model.died_in)) : ""),
      .cause = "Its error does not say that memory ran out. Figures of its memory end with the failure.",
      .evidence = {{.text = model.error}},
      .cures = {{"run it alone, and read its error", "headroom bench"},
                {"check whether the kernel's OOM killer did it", "journalctl -k | headroom doctor -"}}};
}

std::optional<Finding> limit_exceeded(const ModelResult& model, const BenchResult&) {
  if (model.memory.within_limit.value_or(true) || model.status == ModelStatus::oom) return std::nullopt;
  Finding finding{
      .id = "limit-exceeded",
      .severity = Severity::severe,
      .title = fmt::format("{} used more memory than the limit", model.name),
      .cause = "The limit did not stop it. On a machine of that size, the kernel would have killed it.",
      .figures = {{"violations", model.memory.violations}},
      .cures = {{"search for settings that fit", "headroom bench --tune"}}};
  add_leaner_settings(finding, model);
  finding.cures.push_back(smaller_input());
  return finding;
}

std::vector<Finding> models_do_not_fit_together(const BenchResult& run) {
  std::vector<Finding> findings;
  const auto add = [&](std::optional<Finding> found) {
    if (found) findings.push_back(std::move(*found));
  };
  if (run.parallel) add(side_by_side(run));
  if (run.pipeline) add(in_one_process(run, "pipeline", *run.pipeline));
  if (run.pool) add(in_one_process(run, "pool", *run.pool));
  return findings;
}

std::vector<Finding> soft_limit(const BenchResult& run) {
  if (!run.limit || run.limit->type == LimitType::hard) return {};
  const Limit& limit = *run.limit;
  Finding finding{.id = "soft-limit",
                  .severity = Severity::warning,
                  .title = fmt::format("The limit of {} is {}: {}", format_bytes(limit.bytes),
                                       type_with_reason(limit), name_of(limit.mechanism)),
                  .cause =
                      "The probe found a route past the limit, or nothing enforces the limit. A run that "
                      "fits is weaker proof."};
  for (const LimitRoute& route : limit.routes)
    if (route.outcome == "escaped")
      finding.evidence.push_back({.text = fmt::format("{} escaped {}", route.name, route.detail)});
  if (has_unproved_cuda(limit))
    finding.evidence.push_back({.text = fmt::format("cuda not_tried: {}", kCudaNotProved)});
  // The same run again. A report that did not keep its settings gives the flags alone.
  const std::string size = exact_size(limit.bytes);
  std::string command = fmt::format("headroom bench --mem-limit {} --limit-mechanism cgroup", size);
  if (run.options && !run.models.empty()) {
    BenchResult enforced = run;
    enforced.options->limit_mechanism = "cgroup";
    command = command_at_once(enforced, flags_of(*run.options));
  }
  if (limit.mechanism != LimitMechanism::cgroup_v1 && limit.mechanism != LimitMechanism::cgroup_v2)
    finding.cures.push_back({"let a control group enforce the limit (needs root)", "sudo " + command});
  if (has_unproved_cuda(limit))
    finding.cures.push_back({"limit CUDA memory too: Headroom refuses allocations beyond --gpu-mem-limit",
                             command + " --gpu-mem-limit " + size});
  return {std::move(finding)};
}

}  // namespace headroom::doctor
