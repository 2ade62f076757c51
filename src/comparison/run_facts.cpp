#include "comparison/run_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>

#include "base/text.h"
#include "monitoring/series_growth.h"

namespace headroom::comparison {
namespace {

constexpr double kSameClock = 0.02;     // a governor's steps are larger
constexpr double kSameLoad = 15;        // percent of all cores
constexpr double kSameTemperature = 8;  // degrees

// One fact, with the value in each run of a side that has it.
struct Fact {
  std::string_view what;
  std::vector<std::string> told;
};

struct Common {
  std::string value;
  std::size_t runs = 0;
};

// The most frequent value; the first of equally frequent ones.
Common most_common(const std::vector<std::string>& told) {
  Common common;
  for (const std::string& value : told) {
    const auto runs = static_cast<std::size_t>(std::ranges::count(told, value));
    if (runs > common.runs) common = {value, runs};
  }
  return common;
}

std::string words_for(const Common& common, const Fact& fact) {
  if (common.runs == fact.told.size()) return common.value;
  return fmt::format("{} in {} of {} runs", common.value, common.runs, fact.told.size());
}

constexpr std::string_view kSettings = "settings";

// The settings that the other side lacks.
std::string words_apart(const std::string& settings, const std::string& others) {
  const auto known = split(others, ' ');
  std::string apart;
  for (const std::string_view word : split(settings, ' '))
    if (std::ranges::find(known, word) == known.end())
      apart += fmt::format("{}{}", apart.empty() ? "" : " ", word);
  return apart.empty() ? "none of these" : apart;
}

std::vector<FactChange> changes_of(const std::vector<Fact>& before, const std::vector<Fact>& after) {
  std::vector<FactChange> changes;
  for (std::size_t i = 0; i < before.size(); ++i) {
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
    const auto other =
        std::ranges::find_if(fact.told, [&](const std::string& value) { return value != common.value; });
    mixed.push_back(fmt::format("{} is {} in {} of {} runs, but {} in another", fact.what, common.value,
                                common.runs, fact.told.size(), *other));
  }
  return mixed;
}

// A fact by its value in a run, which is empty if unknown.
template <class Run>
struct FactOf {
  std::string_view what;
  std::string (*value)(const Run& run);
};

template <class Run, std::size_t kCount>
void add_facts(std::vector<Fact>& facts, const FactOf<Run> (&table)[kCount],
               const std::vector<const Run*>& runs) {
  for (const auto& [what, value] : table) {
    Fact& fact = facts.emplace_back(Fact{what, {}});
    for (const Run* run : runs)
      if (std::string known = value(*run); !known.empty()) fact.told.push_back(std::move(known));
  }
}

std::string on_off(bool on) { return on ? "on" : "off"; }

std::string threshold_words(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : std::string("none");
}

// A failed model has no fingerprint. The name of its file (the folder differs between checkouts) and its
// exact size are known.
constexpr FactOf<ComparedModel> kByFingerprint[] = {
    {"model file", [](const ComparedModel& model) { return model.fingerprint; }}};
constexpr FactOf<ModelResult> kByFile[] = {
    {"model file",
     [](const ModelResult& model) { return std::filesystem::path(model.path).filename().string(); }},
    {"size of the model file", [](const ModelResult& model) {
       if (!model.file_size) return std::string();
       const Bytes size = *model.file_size;
       return size.count < 1024 ? format_bytes(size) : fmt::format("{} B", size.count);
     }}};

constexpr FactOf<ModelResult> kOfModels[] = {
    {"runtime", [](const ModelResult& model) { return model.backend; }},
    {"version of the runtime", [](const ModelResult& model) { return model.backend_version; }},
    {kSettings, [](const ModelResult& model) { return model.settings.describe(); }},
    {"device", [](const ModelResult& model) { return model.settings.device; }},
    {"address layout",
     [](const ModelResult& model) {
       const auto& fixed = model.memory.fixed_addresses;
       return std::string(!fixed ? "" : *fixed ? "fixed" : "random");
     }},
    {"telemetry of the runtime",
     [](const ModelResult& model) {
       return model.runtime_telemetry ? on_off(*model.runtime_telemetry) : std::string();
     }},
    {"input", [](const ModelResult& model) { return model.input; }},
    {"task", [](const ModelResult& model) { return model.task; }}};

// Known only after loading, or at the end. For a failed run, its absence is no cause.
constexpr FactOf<ModelResult> kOfSuccessfulModels[] = {
    {"confidence", [](const ModelResult& model) { return threshold_words(model.confidence); }},
    {"IoU", [](const ModelResult& model) { return threshold_words(model.iou); }},
    // By --max-frames-in-mem or by an eighth of the limit.
    {"frames held in memory",
     [](const ModelResult& model) {
       return model.memory.frames ? format_bytes(*model.memory.frames) : std::string();
     }},
    {"measured frames", [](const ModelResult& model) { return fmt::format("{}", model.frames); }}};

std::vector<Fact> facts_of(const std::vector<const ComparedModel*>& models, bool by_fingerprint) {
  std::vector<const ModelResult*> results, successful;
  for (const ComparedModel* model : models) {
    results.push_back(model->result);
    if (model->result->status == ModelStatus::ok) successful.push_back(model->result);
  }
  std::vector<Fact> facts;
  if (by_fingerprint)
    add_facts(facts, kByFingerprint, models);
  else
    add_facts(facts, kByFile, results);
  add_facts(facts, kOfModels, results);
  add_facts(facts, kOfSuccessfulModels, successful);
  return facts;
}

bool all_have_fingerprints(const std::vector<const ComparedModel*>& models) {
  return std::ranges::none_of(models, [](const ComparedModel* model) { return model->fingerprint.empty(); });
}

// A fingerprint includes paths, so it differs between two checkouts of the same pictures.
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

// Options that change what was measured.
constexpr FactOf<BenchOptions> kOptions[] = {
    {"--parallel", [](const BenchOptions& options) { return on_off(options.parallel); }},
    {"--pipeline", [](const BenchOptions& options) { return on_off(options.pipeline); }},
    {"--pool",
     [](const BenchOptions& options) { return options.pool ? format_bytes(*options.pool) : on_off(false); }},
    {"--pool-threads",
     [](const BenchOptions& options) { return fmt::format("{}", options.pool_threads.value_or(1)); }},
    {"--tune", [](const BenchOptions& options) { return on_off(options.tune); }},
    {"--layers", [](const BenchOptions& options) { return on_off(options.layers); }},
    {"--skip-inference", [](const BenchOptions& options) { return on_off(options.skip_inference); }},
    {"--in-step", [](const BenchOptions& options) { return on_off(!options.in_step.empty()); }},
    {"--imgsz", [](const BenchOptions& options) { return fmt::format("{}", options.image_size); }},
    {"--warmup", [](const BenchOptions& options) { return fmt::format("{}", options.warmup_frames); }}};

constexpr FactOf<BenchResult> kLimits[] = {
    {"memory limit", [](const BenchResult& run) { return limit_of(run.limit); }},
    {"limit of GPU memory", [](const BenchResult& run) { return limit_of(run.gpu_limit); }}};

constexpr FactOf<BenchResult> kOfMachines[] = {
    {"board", [](const BenchResult& run) { return run.host.board; }},
    {"processor", [](const BenchResult& run) { return run.host.cpu_model; }},
    {"machine", [](const BenchResult& run) { return run.host.hostname; }},
    {"cores",
     [](const BenchResult& run) {
       return run.host.cpus > 0 ? fmt::format("{}", run.host.cpus) : std::string();
     }},
    {"power mode", [](const BenchResult& run) { return run.host.power_mode; }},
    {"CPU governor", [](const BenchResult& run) { return run.host.cpu_governor; }},
    {"GPU driver", [](const BenchResult& run) { return run.host.gpu_driver; }},
    {"kernel", [](const BenchResult& run) { return run.host.kernel; }},
    {"operating system", [](const BenchResult& run) { return run.host.os; }},
    {"Headroom", [](const BenchResult& run) { return run.host.headroom_version; }}};

std::vector<Fact> facts_of(const Side& side, bool by_fingerprint) {
  std::vector<const BenchResult*> results;
  std::vector<const BenchOptions*> options;  // reports of earlier versions have none
  std::vector<Fact> facts{{"source", {}}};
  for (const ComparedRun& run : side) {
    results.push_back(run.result);
    if (run.result->options) options.push_back(&*run.result->options);
    facts.front().told.push_back(source_of(*run.result, by_fingerprint));
  }
  add_facts(facts, kLimits, results);
  add_facts(facts, kOptions, options);
  add_facts(facts, kOfMachines, results);
  return facts;
}

// For each metric the median over the runs of its mean.
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
