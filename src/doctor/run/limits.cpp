// Findings about memory limits: a model or all models did not fit, or the limit did not hold.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "doctor/cure_commands.h"
#include "doctor/cure_trials.h"
#include "doctor/run/run_findings.h"
#include "report/words.h"

namespace headroom::doctor {
namespace {

Finding all_at_once(const BenchResult& run, std::string title, std::string cause, const std::string& error) {
  Finding finding = finding_of("models-do-not-fit-together", Severity::severe, Confidence::certain,
                               std::move(title), std::move(cause));
  if (!error.empty()) finding.evidence = {{.text = error}};
  if (run.limit) finding.figures = figures("limit_bytes", run.limit->bytes);
  if (run.limit && run.options && !run.pool)
    finding.cures.push_back(
        {"use a model pool: one process that loads and evicts models to stay inside the limit",
         command_at_once(run, {"--pool", exact_size(run.limit->bytes)})});
  finding.cures.push_back(
      {"plan which models run together, and with which settings", "headroom plan BUDGET.toml"});
  return finding;
}

// --parallel.
std::optional<Finding> side_by_side(const BenchResult& run) {
  if (!run.parallel) return std::nullopt;
  const ParallelResult& parallel = *run.parallel;
  std::vector<std::string> names, errors;
  bool all_lived = true;
  for (const ModelResult& model : parallel.together) {
    all_lived = all_lived && model.status == ModelStatus::ok;
    const auto alone = std::ranges::find(run.models, model.name, &ModelResult::name);
    if (model.status != ModelStatus::oom || alone == run.models.end() || alone->status != ModelStatus::ok)
      continue;
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
  const auto& sum = parallel.sum_of_peaks;
  add_figures(finding, "joint_peak_bytes", parallel.joint_peak, "sum_of_peaks_bytes", sum);
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
  const bool ran_out = process && process->status == ModelStatus::oom;
  if (!process || (!ran_out && process->memory.within_limit.value_or(true))) return std::nullopt;
  Finding finding = all_at_once(
      run, fmt::format("The {} {}", what, ran_out ? "ran out of memory" : "used more memory than the limit"),
      "All models ran in one process.", process->error);
  add_figures(finding, "run_peak_bytes", process->memory.run_peak);
  return finding;
}

std::vector<std::string> flags_of(const BenchOptions& options) {
  std::vector<std::string> flags;
  if (options.parallel) flags.emplace_back("--parallel");
  if (options.pipeline) flags.emplace_back("--pipeline");
  if (options.pool) flags.insert(flags.end(), {"--pool", exact_size(*options.pool)});
  return flags;
}

// Settings that need less memory, the cheapest in time first. Then a smaller input, which --try does not run:
// it detects less.
void add_leaner_settings(Finding& finding, const ModelResult& model) {
  const auto add = [&](const char* what, const char* settings, std::optional<Bytes> saves = std::nullopt) {
    add_settings(finding, model, what, settings, saves);
  };
  if (!is_on_cpu(model)) {
    add("choose convolutions that need little workspace", "workspace=small");
    add("choose convolutions by heuristics: the search needs workspace too", "convolutions=heuristic");
    if (is_onnxruntime(model))
      add("let the arena grow by the requested size, not to the next power of two",
          "extend=same_as_requested");
  } else if (model.backend != "libtorch") {  // it has none of these settings
    add("disable the memory pattern, which plans blocks ahead", "pattern=off");
    // Mapped weights are pages of a file, which the kernel can reclaim.
    if (can_map(model)) add("map the weights from a prepared file", "mapped=on", model.file_size);
    if (is_onnxruntime(model)) {
      add("disable the arena", "arena=off");
      add("keep no re-packed copies of the weights (slower runs)", "prepack=off");
    }
  }
  finding.cures.push_back({"use a smaller input: --imgsz 320 (models with a fixed input size ignore it)"});
}

}  // namespace

std::optional<Finding> model_out_of_memory(const ModelResult& model, const BenchResult& run) {
  if (model.status != ModelStatus::oom) return std::nullopt;
  const bool while_loading = model.died_in && *model.died_in < Phase::model_loaded;
  const ModelMemory& memory = model.memory;  // its peaks are those until it failed
  std::optional<Bytes> limit;
  if (run.limit && is_on_cpu(model)) limit = run.limit->bytes;
  Finding finding = finding_of(
      "model-out-of-memory", Severity::severe, Confidence::likely,
      fmt::format("{} ran out of memory{}{}", model.name,
                  model.died_in ? fmt::format(" {}", report::activity_after(*model.died_in)) : "",
                  limit ? fmt::format(", under a limit of {}", format_bytes(*limit)) : ""),
      while_loading ? "Loading needs more memory than running: it holds the runtime, the file, the weights "
                      "and their re-packed copies at once."
                    : "The memory that a run needs besides the weights did not fit.",
      figures("limit_bytes", limit, "limit_peak_bytes", limit ? limit_peak(memory, run.limit) : std::nullopt,
              "runtime_bytes", memory.runtime, "load_peak_bytes", memory.load_peak, "run_peak_bytes",
              memory.run_peak, "file_bytes", model.file_size),
      {}, {{.text = model.error}});
  if (while_loading && can_map(model))
    finding.cures.push_back(with_settings(
        model, "map the weights from a file that is prepared once, without the limit or on a larger machine",
        "mapped=on,prepack=off", model.file_size));
  finding.cures.push_back({"search for settings that fit", "headroom bench --tune"});
  add_leaner_settings(finding, model);
  finding.cures.push_back({"measure how much memory it needs without a limit", "headroom bench"});
  finding.cures.push_back({"see which layers hold the memory", "headroom bench --layers"});
  return finding;
}

namespace {

// Failures without a lack of memory. The finding run-incomplete covers runs that did not finish. `all`: one
// model, or the process of --pipeline or --pool.
std::optional<Finding> failed_without_oom(std::string_view name, const auto& all, const BenchResult& run) {
  const bool has_failed = all.status == ModelStatus::failed || all.status == ModelStatus::crashed ||
                          all.status == ModelStatus::timeout;
  if (!has_failed || !run.complete) return std::nullopt;
  return finding_of(
      "model-failed", Severity::severe, Confidence::certain,
      fmt::format("{} {}{}", name, all.status == ModelStatus::timeout ? "timed out" : name_of(all.status),
                  all.died_in ? fmt::format(" {}", report::activity_after(*all.died_in)) : ""),
      "Its error does not say that memory ran out. Figures of its memory end with the failure.", {},
      {{"run it alone, and read its error", "headroom bench"},
       {"check whether the kernel's OOM killer did it", "journalctl -k | headroom doctor -"}},
      {{.text = all.error}});
}

}  // namespace

std::optional<Finding> model_failed(const ModelResult& model, const BenchResult& run) {
  return failed_without_oom(model.name, model, run);
}

// --parallel, --pipeline and --pool: of models that ran alone without a failure.
std::vector<Finding> models_failed_together(const BenchResult& run) {
  std::vector<Finding> findings;
  const auto add = [&](std::string_view name, const auto& all) {
    if (auto finding = failed_without_oom(name, all, run)) findings.push_back(std::move(*finding));
  };
  const auto ran_alone = [&](const ModelResult& model) {
    const auto alone = std::ranges::find(run.models, model.name, &ModelResult::name);
    return alone != run.models.end() && alone->status == ModelStatus::ok;
  };
  if (std::ranges::none_of(run.models, ran_alone)) return findings;
  if (run.parallel)
    for (const ModelResult& model : run.parallel->together)
      if (ran_alone(model)) add(model.name + ", together with the others,", model);
  if (run.pipeline) add("The pipeline", *run.pipeline);
  if (run.pool) add("The pool", *run.pool);
  return findings;
}

std::optional<Finding> limit_exceeded(const ModelResult& model, const BenchResult&) {
  if (model.memory.within_limit.value_or(true) || model.status == ModelStatus::oom) return std::nullopt;
  Finding finding =
      finding_of("limit-exceeded", Severity::severe, Confidence::certain,
                 fmt::format("{} used more memory than the limit", model.name),
                 "The limit did not stop it. On a machine of that size, the kernel would have killed it.",
                 figures("violations", model.memory.violations),
                 {{"search for settings that fit", "headroom bench --tune"}});
  add_leaner_settings(finding, model);
  return finding;
}

std::vector<Finding> models_do_not_fit_together(const BenchResult& run) {
  std::vector<Finding> findings;
  for (auto& found : {side_by_side(run), in_one_process(run, "pipeline", run.pipeline),
                      in_one_process(run, "pool", run.pool)})
    if (found) findings.push_back(*found);
  return findings;
}

std::vector<Finding> soft_limit(const BenchResult& run) {
  if (!run.limit || run.limit->type == LimitType::hard) return {};
  const Limit& limit = *run.limit;
  Finding finding = finding_of("soft-limit", Severity::warning, Confidence::certain,
                               fmt::format("The limit of {} is {}: {}", format_bytes(limit.bytes),
                                           type_with_reason(limit), name_of(limit.mechanism)),
                               "The probe found a route past the limit, or nothing enforces the limit. A run "
                               "that fits is weaker proof.");
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
