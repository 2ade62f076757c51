#include "comparison/run_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string_view>

#include "base/text.h"
#include "monitoring/robust_statistics.h"

namespace headroom::comparison {
namespace {

constexpr double kSameClock = 0.02;     // a governor's steps are larger
constexpr double kSameLoad = 15;        // percent of all cores
constexpr double kSameTemperature = 8;  // degrees

// One fact as each run of a side tells it; what a run does not tell is not among them.
struct Fact {
  std::string_view what;
  std::vector<std::string> told;
  std::size_t runs = 0;
};

struct Common {
  std::string value;
  std::size_t runs = 0;
};

// What most runs tell; of several that are as frequent what was told first.
Common most_common(const std::vector<std::string>& told) {
  Common common;
  for (const std::string& value : told) {
    const auto runs = static_cast<std::size_t>(std::count(told.begin(), told.end(), value));
    if (runs > common.runs) common = {value, runs};
  }
  return common;
}

std::string words_for(const Common& common, const Fact& fact) {
  if (common.runs == fact.told.size()) return common.value;
  return fmt::format("{} in {} of {} runs", common.value, common.runs, fact.told.size());
}

constexpr std::string_view kSettings = "settings";

// Of "threads=1 arena=on" what "threads=2 arena=on" has not.
std::string words_apart(const std::string& settings, const std::string& others) {
  const auto known = split(others, ' ');
  std::string apart;
  for (const std::string_view word : split(settings, ' '))
    if (std::find(known.begin(), known.end(), word) == known.end())
      apart += fmt::format("{}{}", apart.empty() ? "" : " ", word);
  return apart.empty() ? "none of these" : apart;
}

std::vector<FactChange> changes_of(const std::vector<Fact>& before, const std::vector<Fact>& after) {
  std::vector<FactChange> changes;
  for (std::size_t i = 0; i < before.size(); ++i) {
    // Where one side does not say, nothing is known.
    if (before[i].told.empty() || after[i].told.empty()) continue;
    Common a = most_common(before[i].told), b = most_common(after[i].told);
    if (a.value == b.value) continue;
    if (before[i].what == kSettings) {
      const std::string of_a = words_apart(a.value, b.value);
      b.value = words_apart(b.value, a.value);
      a.value = of_a;
    }
    changes.push_back({std::string(before[i].what), words_for(a, before[i]), words_for(b, after[i])});
  }
  return changes;
}

std::vector<std::string> mixtures_of(const std::vector<Fact>& facts) {
  std::vector<std::string> mixed;
  for (const Fact& fact : facts) {
    const Common common = most_common(fact.told);
    if (common.runs == fact.told.size()) continue;
    const auto other = std::find_if(fact.told.begin(), fact.told.end(),
                                    [&](const std::string& value) { return value != common.value; });
    mixed.push_back(fmt::format("{} is {} in {} of {} runs, but {} in another", fact.what, common.value,
                                common.runs, fact.told.size(), *other));
  }
  return mixed;
}

template <typename Run>
class FactsOf {
 public:
  explicit FactsOf(std::vector<const Run*> runs) : runs_(std::move(runs)) {}

  void add(std::string_view what, const std::function<std::optional<std::string>(const Run&)>& value) {
    Fact fact{what, {}, runs_.size()};
    for (const Run* run : runs_)
      if (auto told = value(*run)) fact.told.push_back(std::move(*told));
    facts_.push_back(std::move(fact));
  }
  // Empty is not told.
  void add_known(std::string_view what, const std::function<std::string(const Run&)>& value) {
    add(what, [&](const Run& run) -> std::optional<std::string> {
      std::string told = value(run);
      if (told.empty()) return std::nullopt;
      return told;
    });
  }
  std::vector<Fact> take() { return std::move(facts_); }

 private:
  std::vector<const Run*> runs_;
  std::vector<Fact> facts_;
};

std::string threshold_words(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : std::string("none");
}

// A model that failed left no fingerprint. What its file is called is known all the same (the folder is that
// of a checkout), and its size to the byte: one may be quantised otherwise and be as large but for one.
void add_file_facts(FactsOf<ComparedModel>& facts) {
  facts.add_known("model file", [](const ComparedModel& model) {
    return std::filesystem::path(model.result->path).filename().string();
  });
  facts.add("size of the model file", [](const ComparedModel& model) -> std::optional<std::string> {
    const auto& size = model.result->file_size;
    if (!size) return std::nullopt;
    return size->count < 1024 ? format_bytes(*size) : fmt::format("{} B", size->count);
  });
}

std::vector<Fact> facts_of(const std::vector<const ComparedModel*>& models, bool by_fingerprint) {
  FactsOf<ComparedModel> facts(models);
  if (by_fingerprint)
    facts.add_known("model file", [](const ComparedModel& model) { return model.fingerprint; });
  else
    add_file_facts(facts);
  facts.add_known("runtime", [](const ComparedModel& model) { return model.result->backend; });
  facts.add_known("version of the runtime",
                  [](const ComparedModel& model) { return model.result->backend_version; });
  facts.add(kSettings, [](const ComparedModel& model) { return model.result->settings.describe(); });
  facts.add("device", [](const ComparedModel& model) { return model.result->settings.device; });
  facts.add("address layout", [](const ComparedModel& model) -> std::optional<std::string> {
    const auto& fixed = model.result->memory.fixed_addresses;
    if (!fixed) return std::nullopt;
    return *fixed ? "fixed" : "random";
  });
  facts.add("telemetry of the runtime", [](const ComparedModel& model) -> std::optional<std::string> {
    const auto& telemetry = model.result->runtime_telemetry;
    if (!telemetry) return std::nullopt;
    return *telemetry ? "on" : "off";
  });
  facts.add_known("input", [](const ComparedModel& model) { return model.result->input; });
  facts.add_known("task", [](const ComparedModel& model) { return model.result->task; });
  // What a run got to know only after it had loaded its model, or counted to its end, is of one that fell
  // what the failure left of it, and no cause of it.
  const auto of_those_that_came_through = [&](std::string_view what, auto value) {
    facts.add(what, [value](const ComparedModel& model) -> std::optional<std::string> {
      if (model.result->status != ModelStatus::ok) return std::nullopt;
      return value(model);
    });
  };
  of_those_that_came_through(
      "confidence", [](const ComparedModel& model) { return threshold_words(model.result->confidence); });
  of_those_that_came_through("IoU",
                             [](const ComparedModel& model) { return threshold_words(model.result->iou); });
  // By --max-frames-in-mem, or by a limit, of which they may take an eighth.
  of_those_that_came_through("frames held in memory",
                             [](const ComparedModel& model) -> std::optional<std::string> {
                               const auto& frames = model.result->memory.frames;
                               if (!frames) return std::nullopt;
                               return format_bytes(*frames);
                             });
  of_those_that_came_through(
      "measured frames", [](const ComparedModel& model) { return fmt::format("{}", model.result->frames); });
  return facts.take();
}

bool all_have_fingerprints(const std::vector<const ComparedModel*>& models) {
  return std::none_of(models.begin(), models.end(),
                      [](const ComparedModel* model) { return model->fingerprint.empty(); });
}

// The fingerprint is of paths, too: of two checkouts it differs, though their pictures are the same.
bool are_of_one_path(const Side& before, const Side& after) {
  std::optional<std::string> path;
  for (const Side* side : {&before, &after})
    for (const ComparedRun& run : *side) {
      if (!run.result->source) continue;
      const std::string& its_own = run.result->source->spec.path;
      if (path && *path != its_own) return false;
      path = its_own;
    }
  return true;
}

std::string source_of(const BenchResult& result, bool by_fingerprint) {
  if (!result.source) return "none";
  const std::filesystem::path path = result.source->spec.path;
  const std::string frames = fmt::format("{} frames of ", result.source->total_frames);
  if (path.empty()) return frames + "a camera";
  if (by_fingerprint)
    return fmt::format("{}{}, fingerprint {}", frames, path.string(), result.source->fingerprint);
  return frames + (path.has_filename() ? path : path.parent_path()).filename().string();
}

std::string limit_of(const std::optional<Limit>& limit) {
  return limit ? fmt::format("{} ({})", format_bytes(limit->bytes), name_of(limit->mechanism)) : "none";
}

// What of a pool or of other models at the same time was asked for, and how much was measured. Of what a
// report of an earlier version does not tell nothing is said.
void add_options(FactsOf<BenchResult>& facts) {
  const auto of_options = [&](std::string_view what, auto value) {
    facts.add(what, [value](const BenchResult& run) -> std::optional<std::string> {
      if (!run.options) return std::nullopt;
      return value(*run.options);
    });
  };
  const auto toggle = [&](std::string_view what, bool BenchOptions::*option) {
    of_options(what, [option](const BenchOptions& options) { return options.*option ? "on" : "off"; });
  };
  toggle("--parallel", &BenchOptions::parallel);
  toggle("--pipeline", &BenchOptions::pipeline);
  of_options("--pool", [](const BenchOptions& options) {
    return options.pool ? format_bytes(*options.pool) : std::string("off");
  });
  of_options("--pool-threads",
             [](const BenchOptions& options) { return fmt::format("{}", options.pool_threads.value_or(1)); });
  toggle("--tune", &BenchOptions::tune);
  toggle("--layers", &BenchOptions::layers);
  toggle("--skip-inference", &BenchOptions::skip_inference);
  of_options("--in-step", [](const BenchOptions& options) { return options.in_step.empty() ? "off" : "on"; });
  of_options("--imgsz", [](const BenchOptions& options) { return fmt::format("{}", options.image_size); });
  of_options("--warmup",
             [](const BenchOptions& options) { return fmt::format("{}", options.warmup_frames); });
}

std::vector<Fact> facts_of(const Side& side, bool by_fingerprint) {
  std::vector<const BenchResult*> results;
  for (const ComparedRun& run : side) results.push_back(run.result);
  FactsOf<BenchResult> facts(results);
  facts.add("source", [=](const BenchResult& run) { return source_of(run, by_fingerprint); });
  facts.add("memory limit", [](const BenchResult& run) { return limit_of(run.limit); });
  facts.add("limit of GPU memory", [](const BenchResult& run) { return limit_of(run.gpu_limit); });
  add_options(facts);
  facts.add_known("board", [](const BenchResult& run) { return run.host.board; });
  facts.add_known("processor", [](const BenchResult& run) { return run.host.cpu_model; });
  facts.add_known("machine", [](const BenchResult& run) { return run.host.hostname; });
  facts.add("cores", [](const BenchResult& run) -> std::optional<std::string> {
    if (run.host.cpus <= 0) return std::nullopt;
    return fmt::format("{}", run.host.cpus);
  });
  facts.add_known("power mode", [](const BenchResult& run) { return run.host.power_mode; });
  facts.add_known("CPU governor", [](const BenchResult& run) { return run.host.cpu_governor; });
  facts.add_known("GPU driver", [](const BenchResult& run) { return run.host.gpu_driver; });
  facts.add_known("kernel", [](const BenchResult& run) { return run.host.kernel; });
  facts.add_known("operating system", [](const BenchResult& run) { return run.host.os; });
  facts.add_known("Headroom", [](const BenchResult& run) { return run.host.headroom_version; });
  return facts.take();
}

// The median over the runs of what each has as its mean, by the metric's name.
std::map<std::string, double, std::less<>> machine_state(const Side& side) {
  std::map<std::string, std::vector<double>, std::less<>> values;
  for (const ComparedRun& run : side)
    for (const MetricSummary& metric : run.result->system) values[metric.name].push_back(metric.mean);
  std::map<std::string, double, std::less<>> medians;
  for (auto& [name, means] : values) medians[name] = monitoring::median(means);
  return medians;
}

std::string throttling_words(double share) {
  return share > 0 ? fmt::format("{:.0f} % of the samples", 100 * share) : "none";
}

void add_machine_state(std::vector<FactChange>& changes, const Side& before, const Side& after) {
  const auto of_b = machine_state(after);
  for (const auto& [name, a] : machine_state(before)) {
    const auto found = of_b.find(name);
    if (found == of_b.end()) continue;
    const double b = found->second, moved = std::abs(b - a);
    if (name.starts_with("clock_hz.") && a > 0 && moved / a > kSameClock)
      changes.push_back({"clock " + name.substr(9), fmt::format("{:.0f} MHz", a / 1e6),
                         fmt::format("{:.0f} MHz", b / 1e6)});
    if (name == "throttled" && (a > 0) != (b > 0))
      changes.push_back({"throttling", throttling_words(a), throttling_words(b)});
    if (name == "cpu_percent" && moved > kSameLoad)
      changes.push_back({"load of all cores", fmt::format("{:.0f} %", a), fmt::format("{:.0f} %", b)});
    if (name.starts_with("temperature_celsius.") && moved > kSameTemperature)
      changes.push_back(
          {"temperature " + name.substr(20), fmt::format("{:.0f} °C", a), fmt::format("{:.0f} °C", b)});
  }
}

}  // namespace

std::vector<FactChange> model_facts(const std::vector<const ComparedModel*>& before,
                                    const std::vector<const ComparedModel*>& after) {
  const bool by_fingerprint = all_have_fingerprints(before) && all_have_fingerprints(after);
  return changes_of(facts_of(before, by_fingerprint), facts_of(after, by_fingerprint));
}

std::vector<FactChange> run_facts(const Side& before, const Side& after) {
  const bool by_fingerprint = are_of_one_path(before, after);
  std::vector<FactChange> changes =
      changes_of(facts_of(before, by_fingerprint), facts_of(after, by_fingerprint));
  add_machine_state(changes, before, after);
  return changes;
}

std::vector<std::string> mixed_model_facts(const std::vector<const ComparedModel*>& models) {
  return mixtures_of(facts_of(models, all_have_fingerprints(models)));
}

std::vector<std::string> mixed_run_facts(const Side& side) {
  return mixtures_of(facts_of(side, are_of_one_path(side, side)));
}

}  // namespace headroom::comparison
