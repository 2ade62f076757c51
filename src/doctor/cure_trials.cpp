#include "doctor/cure_trials.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace headroom::doctor {
namespace {

bool changes_something(const CureSettings& cure, const ModelResult& model, const BenchResult& run) {
  if (cure.leave_out_also) return true;
  RuntimeSettings changed = model.settings;
  if (!set_settings(changed, cure.settings)) return false;
  const std::int64_t frames = run.options ? run.options->max_frames_in_memory.value_or(0) : 0;
  return !(changed == model.settings) || cure.max_frames_in_memory.value_or(frames) != frames;
}

bool is_peak(const TriedFigure& figure) { return figure.name.ends_with("_peak_bytes"); }
bool is_gpu_figure(const TriedFigure& figure) { return figure.name.starts_with("gpu_"); }

std::string percent(double ratio) { return fmt::format("{:+.1f} %", 100 * (ratio - 1)); }

// "run peak 200.0 MiB → 150.0 MiB (-25.0 %)".
std::string words_of(const TriedFigure& figure) {
  if (!is_peak(figure))
    return fmt::format("latency {} → {} ({}{})", format_duration({std::llround(figure.before)}),
                       format_duration({std::llround(figure.after)}), percent(figure.after / figure.before),
                       !std::isfinite(figure.high) ? ", not separable from noise in so few runs"
                       : !figure.is_judged         ? ", few frames"
                       : figure.differs            ? ""
                                                   : ", within the noise between runs");
  std::string title = figure.name.substr(0, figure.name.size() - std::string_view("_bytes").size());
  std::ranges::replace(title, '_', ' ');
  return fmt::format("{} {} → {} ({})", title, format_bytes({std::llround(figure.before)}),
                     format_bytes({std::llround(figure.after)}), percent(figure.after / figure.before));
}

// The larger of load peak and run peak; the GPU's if the model runs on one.
std::optional<double> largest_peak(const TriedCure& tried, double TriedFigure::*side) {
  const bool on_gpu = std::ranges::any_of(tried.figures, is_gpu_figure);
  std::optional<double> most;
  for (const TriedFigure& figure : tried.figures)
    if (is_peak(figure) && is_gpu_figure(figure) == on_gpu) most = std::max(most.value_or(0), figure.*side);
  return most;
}

// The number of successful runs, unless all of both sides succeeded. A run may fail by chance.
std::string outcome_words(const comparison::ModelComparison& model) {
  const comparison::SideOutcome &before = model.outcome_before, &after = model.outcome_after;
  if (before.failed == 0 && after.failed == 0) return {};
  std::string words = fmt::format("{} of {} runs succeeded, {} of {} before", after.runs - after.failed,
                                  after.runs, before.runs - before.failed, before.runs);
  if (model.fell() || model.recovered()) words += ", which may be chance";
  if (after.failed > 0 && !after.error.empty()) words += fmt::format(" (a run failed: {})", after.error);
  return words;
}

// Without figures: one side never succeeded.
void judge_by_outcome(const comparison::ModelComparison& model, TriedCure& tried) {
  if (model.outcome_after.never_came_through()) {
    tried.verdict = CureVerdict::failed;
    tried.sentence = "it failed in every run: " + model.outcome_after.error;
  } else if (model.outcome_after.failed == 0) {
    tried.verdict = CureVerdict::helps;
    tried.sentence = "every run succeeds; before, every run failed";
  } else {
    tried.verdict = CureVerdict::no_difference;
    tried.sentence = outcome_words(model);
  }
}

struct Weighed {
  bool smaller = false, larger = false, slower = false;
  bool is_mixed = false;  // one peak shrinks and another grows
};

// Copies the figures of the comparison to `tried`, and compares each with its own noise.
Weighed weigh(const comparison::ModelComparison& model, TriedCure& tried) {
  Weighed weighed;
  for (const std::string metric : {"run_peak", "load_peak", "gpu_run_peak", "gpu_load_peak", "latency"}) {
    const comparison::MetricChange* change = model.find(metric);
    if (change == nullptr) continue;
    const TriedFigure figure{metric + (metric == "latency" ? "_ns" : "_bytes"),
                             change->before,
                             change->after,
                             change->low,
                             change->high,
                             change->differs,
                             change->is_judged};
    tried.figures.push_back(figure);
    if (is_peak(figure)) {
      if (figure.differs && figure.is_judged)
        (figure.after < figure.before ? weighed.smaller : weighed.larger) = true;
    } else {
      // Its interval counts even with too few frames for a verdict: three times as slow is no gain.
      weighed.slower = figure.differs && figure.after > figure.before;
      tried.latency_change = figure.after / figure.before - 1;
    }
  }
  const auto before = largest_peak(tried, &TriedFigure::before),
             after = largest_peak(tried, &TriedFigure::after);
  if (before && after) tried.saved = Bytes{std::llround(*before - *after)};
  // If one peak shrinks and another grows, the largest decides, with a change of 2 % or more.
  weighed.is_mixed = weighed.smaller && weighed.larger;
  if (weighed.is_mixed) {
    const double saved = static_cast<double>(tried.saved.value_or(Bytes{}).count);
    weighed.smaller = saved >= 0.02 * before.value_or(0);
    weighed.larger = saved <= -0.02 * before.value_or(0);
  }
  return weighed;
}

CureVerdict verdict_of(const Weighed& weighed) {
  if (weighed.larger) return CureVerdict::worse;
  if (weighed.smaller) return weighed.slower ? CureVerdict::costs_speed : CureVerdict::helps;
  return weighed.slower ? CureVerdict::worse : CureVerdict::no_difference;
}

std::string_view first_words(const TriedCure& tried, const Weighed& weighed) {
  if (weighed.is_mixed && weighed.smaller) return "the largest peak shrinks, another grows";
  if (weighed.is_mixed && !weighed.larger) return "one peak shrinks, another grows";
  if (tried.verdict == CureVerdict::helps) return "it helps";
  if (tried.verdict == CureVerdict::costs_speed) return "it saves memory but is slower";
  if (tried.verdict == CureVerdict::no_difference) return "no difference beyond the noise between runs";
  return weighed.larger ? "it needs more memory" : "it is slower and saves no memory";
}

// Compares the successful runs. Failed runs are often those with most memory, so the side with more failures
// looks better: figures for a cure that failed more often, or against one that failed less often, prove
// nothing.
void judge_by_figures(const comparison::ModelComparison& model, TriedCure& tried) {
  const Weighed weighed = weigh(model, tried);
  tried.verdict = verdict_of(weighed);
  std::string_view first = first_words(tried, weighed);
  if ((model.fell() && helped(tried)) || (model.recovered() && tried.verdict == CureVerdict::worse)) {
    tried.verdict = CureVerdict::no_difference;
    first = "unclear";
  }
  std::vector<std::string> words;
  for (const TriedFigure& figure : tried.figures) words.push_back(words_of(figure));
  const std::string outcome = outcome_words(model);
  tried.sentence =
      fmt::format("{}: {}{}{}", first, fmt::join(words, ", "), outcome.empty() ? "" : "; ", outcome);
}

// "NAME=PATH,backend=…", with the model's own settings and those of the cure.
std::string model_argument(const ModelResult& model, const std::string& changes) {
  static const BenchOptions kUsual;
  RuntimeSettings settings = model.settings;
  set_settings(settings, changes);
  std::string spec = fmt::format("{}={}", model.name, model.path);
  const auto behind = [&](std::string_view key, std::string_view word) {
    if (!word.empty()) spec += fmt::format(",{}={}", key, word);
  };
  behind("backend", model.backend);
  if (settings.device != "cpu") behind("device", settings.device);
  if (settings.precision != Precision::automatic) behind("precision", name_of(settings.precision));
  if (model.confidence && *model.confidence != kUsual.confidence)
    behind("conf", fmt::format("{}", *model.confidence));
  if (model.iou && *model.iou != kUsual.iou) behind("iou", fmt::format("{}", *model.iou));
  const std::string words = changed_settings({}, settings);
  return words.empty() ? spec : spec + "," + words;
}

// The values of --model.
std::vector<std::string> model_arguments(const BenchResult& run, const ModelResult& model,
                                         const CureSettings& cure) {
  if (cure.also.empty()) return {model_argument(model, cure.settings)};
  std::vector<std::string> all;
  for (const ModelResult& each : run.models) {
    const bool is_also = std::ranges::find(cure.also, each.name) != cure.also.end();
    if (is_also && cure.leave_out_also) continue;
    all.push_back(model_argument(each, is_also || each.name == cure.model ? cure.settings : ""));
  }
  return all;
}

std::string as_command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "headroom");
  return shell_command(arguments);
}

// `flags`: --parallel and the like.
std::vector<std::string> arguments_of(const BenchResult& run, std::vector<std::string> models,
                                      const std::vector<std::string>& flags,
                                      const std::optional<std::int64_t>& frames) {
  const BenchOptions& asked = *run.options;
  static const BenchOptions kUsual;
  std::vector<std::string> arguments{"bench"};
  const auto add = [&](std::string flag, std::string value) {
    arguments.push_back(std::move(flag));
    arguments.push_back(std::move(value));
  };
  const auto add_unusual = [&](std::string flag, std::int64_t value, std::int64_t usual) {
    if (value != usual) add(std::move(flag), std::to_string(value));
  };
  if (run.source) add("--source", run.source->spec.describe());
  for (std::string& spec : models) add("--model", std::move(spec));
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  if (!asked.task.empty()) add("--task", asked.task);
  if (asked.aslr) arguments.emplace_back("--aslr");
  add_unusual("--imgsz", asked.image_size, kUsual.image_size);
  add_unusual("--max-frames", asked.max_frames, kUsual.max_frames);
  add_unusual("--warmup", asked.warmup_frames, kUsual.warmup_frames);
  if (frames) add("--max-frames-in-mem", std::to_string(*frames));
  add_unusual("--limit-videos", asked.limit_videos, 0);
  add_unusual("--limit-objects", asked.limit_objects, 0);
  if (asked.memory_limit) add("--mem-limit", exact_size(*asked.memory_limit));
  if (!asked.gpu_memory_limit.empty()) add("--gpu-mem-limit", asked.gpu_memory_limit);
  if (asked.limit_mechanism != kUsual.limit_mechanism && (asked.memory_limit || asked.pool))
    add("--limit-mechanism", asked.limit_mechanism);
  if (asked.timeout.count != kUsual.timeout.count) add("--timeout", fmt::format("{}ns", asked.timeout.count));
  return arguments;
}

}  // namespace

std::vector<CureSettings> cures_to_try(const std::vector<Finding>& findings, const BenchResult& run) {
  std::vector<CureSettings> cures;
  for (const Finding& finding : findings)
    for (const Cure& cure : finding.cures) {
      if (!cure.settings || std::ranges::find(cures, *cure.settings) != cures.end()) continue;
      const auto model = std::ranges::find(run.models, cure.settings->model, &ModelResult::name);
      if (model != run.models.end() && changes_something(*cure.settings, *model, run))
        cures.push_back(*cure.settings);
    }
  return cures;
}

void keep_trial(std::vector<Finding>& findings, const TriedCure& tried) {
  for (Finding& finding : findings)
    for (Cure& cure : finding.cures)
      if (cure.settings && *cure.settings == tried.settings) cure.tried = tried;
}

std::optional<CureSettings> best_together(const std::vector<TriedCure>& tried, const RuntimeSettings& run) {
  std::vector<const TriedCure*> useful;
  for (const TriedCure& one : tried)
    if (helped(one)) useful.push_back(&one);
  if (useful.size() < 2) return std::nullopt;
  std::ranges::stable_sort(useful, std::greater{},
                           [](const TriedCure* one) { return one->saved.value_or(Bytes{}); });
  CureSettings together{useful.front()->settings.model, ""};
  RuntimeSettings changed = run;
  // The best cure comes last, so its values count.
  for (auto one = useful.rbegin(); one != useful.rend(); ++one) {
    const CureSettings& cure = (*one)->settings;
    set_settings(changed, cure.settings);
    if (cure.max_frames_in_memory) together.max_frames_in_memory = cure.max_frames_in_memory;
  }
  if (!changed.arena) changed.arena_extend = run.arena_extend;
  together.settings = changed_settings(run, changed);
  for (const TriedCure* one : useful) {
    RuntimeSettings alone = run;
    set_settings(alone, one->settings.settings);
    if (alone == changed && one->settings.max_frames_in_memory == together.max_frames_in_memory)
      return std::nullopt;
  }
  return together;
}

TriedCure judge(CureSettings settings, std::string command, const comparison::ModelComparison& model) {
  TriedCure tried;
  tried.settings = std::move(settings);
  tried.command = std::move(command);
  (model.has_no_figures() ? judge_by_outcome : judge_by_figures)(model, tried);
  return tried;
}

ModelResult joint_result(const BenchResult& run) {
  ModelResult joint;
  joint.name = "together";
  joint.status = ModelStatus::ok;
  if (run.pipeline) {
    const PipelineResult& pipeline = *run.pipeline;
    joint.status = pipeline.status;
    joint.error = pipeline.error;
    joint.memory.run_peak = pipeline.memory.run_peak ? pipeline.memory.run_peak : pipeline.peak;
    joint.memory.load_peak = pipeline.memory.load_peak;
    return joint;
  }
  if (!run.parallel || run.parallel->together.empty()) {
    joint.status = ModelStatus::failed;
    joint.error = "the models were not in memory at the same time";
    return joint;
  }
  const auto take_failure = [&](const ModelResult& model) {
    if (model.status == ModelStatus::ok) return;
    joint.status = model.status;
    joint.error = model.error;
  };
  // A model that could not be prepared did not run with the others, whose memory is then smaller.
  const std::vector<ModelResult>& together = run.parallel->together;
  for (const ModelResult& model : run.models)
    if (std::ranges::find(together, model.name, &ModelResult::name) == together.end()) take_failure(model);
  for (const ModelResult& model : together) take_failure(model);
  // The models' own peaks may be of different moments: the first process that maps the weights has all of
  // them until the next one maps them. The sum of these peaks was 136 MiB in two runs of three, and 184 in
  // the third.
  joint.memory.run_peak =
      run.parallel->joint_share_peak ? run.parallel->joint_share_peak : run.parallel->joint_peak;
  return joint;
}

std::optional<double> joint_latency(const BenchResult& run) {
  if (run.pipeline)
    return run.pipeline->frame ? std::optional(static_cast<double>(run.pipeline->frame->p50.count))
                               : std::nullopt;
  if (!run.parallel || run.parallel->together.empty()) return std::nullopt;
  double sum = 0;
  for (const ModelResult& model : run.parallel->together) {
    if (!model.inference) return std::nullopt;
    sum += static_cast<double>(model.inference->p50.count);
  }
  return sum;
}

std::vector<std::string> bench_arguments(const BenchResult& run, const ModelResult& model,
                                         const CureSettings& cure) {
  std::vector<std::string> flags;
  if (!cure.also.empty() && run.pipeline) flags = {"--pipeline"};
  if (!cure.also.empty() && !run.pipeline)
    flags = {"--parallel", "--metrics-interval", "50ms"};  // shares of pages are sampled
  return arguments_of(
      run, model_arguments(run, model, cure), flags,
      cure.max_frames_in_memory ? cure.max_frames_in_memory : run.options->max_frames_in_memory);
}

std::string command_at_once(const BenchResult& run, const std::vector<std::string>& flags) {
  std::vector<std::string> models;
  for (const ModelResult& model : run.models) models.push_back(model_argument(model, ""));
  return as_command(arguments_of(run, std::move(models), flags, run.options->max_frames_in_memory));
}

std::vector<std::string> preparing_arguments(const BenchResult& run, const ModelResult& model,
                                             const CureSettings& cure) {
  RuntimeSettings settings;
  set_settings(settings, cure.settings);
  if (!settings.mapped || !run.options->memory_limit) return {};
  BenchResult without = run;
  without.options->memory_limit.reset();
  std::vector<std::string> arguments = bench_arguments(without, model, cure);
  arguments.emplace_back("--skip-inference");
  return arguments;
}

std::string bench_command(const BenchResult& run, const ModelResult& model, const CureSettings& cure) {
  std::string command = as_command(bench_arguments(run, model, cure));
  std::vector<std::string> preparing = preparing_arguments(run, model, cure);
  if (preparing.empty()) return command;
  constexpr const char* kFolder = " --prepared-dir prepared";
  return as_command(std::move(preparing)) + kFolder + " && " + command + kFolder;
}

}  // namespace headroom::doctor
