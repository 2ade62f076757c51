#include "report/input/run_input.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "comparison/run_metrics.h"
#include "report/comparison/run_diff.h"
#include "report/run/report_json.h"
#include "report/run/views.h"

namespace headroom::report {

namespace fs = std::filesystem;
namespace {

constexpr Bytes kLargestFrames = mebibytes(512);
constexpr std::size_t kMostRuns = 1000;

// Whether the folder has a report. Fails if that cannot be determined (permissions, a broken disk), or if the
// report is not a regular file: reading a pipe would block.
Result<bool> has_report(const fs::path& folder) {
  std::error_code code;
  const bool has = fs::exists(folder / "report.json", code);
  if (has && !fs::is_regular_file(folder / "report.json", code))
    return input_error(fmt::format("cannot read {}", (folder / "report.json").string()),
                       "it is not a regular file", "name a run folder of headroom bench");
  if (code)
    return input_error(fmt::format("cannot open {}", (folder / "report.json").string()), code.message(),
                       "check its permissions");
  return has;
}

bool is_file(const fs::path& path) {
  std::error_code code;
  return fs::is_regular_file(path, code);
}

// By model name.
using Fingerprints = std::unordered_map<std::string, std::string>;

constexpr std::size_t kMostFiles = 10'000;

void list_footprints(const fs::path& run, std::vector<fs::path>& files) {
  std::error_code code;
  for (fs::directory_iterator entry(run / "footprints", code), end; !code && entry != end;
       entry.increment(code))
    if (entry->path().extension() == ".json" && files.size() < kMostFiles) files.push_back(entry->path());
}

// A model without a footprint, or with a damaged one, has no fingerprint; the comparison continues.
Fingerprints fingerprints_in(const fs::path& run) {
  Fingerprints known;
  std::vector<fs::path> files;
  list_footprints(run, files);
  for (const fs::path& file : files) {
    if (!is_file(file)) continue;
    if (const auto footprint = read_footprint(file))
      known.emplace(footprint->name, footprint->model_fingerprint);
  }
  return known;
}

Result<std::vector<FrameTimes>> frames_of(const fs::path& run, const std::string& model) {
  const fs::path file = run / "frames" / (file_name_of(model) + ".csv");
  if (!is_file(file)) return std::vector<FrameTimes>();
  const auto text = read_file(file, kLargestFrames);
  if (!text) return tl::unexpected(text.error());
  return report::read_frame_times(*text, file.string());
}

// Detects a file that was cut off at the end of a line, or that belongs to another run.
Status check_count(const std::vector<FrameTimes>& frames, const ModelResult& model, const fs::path& run) {
  if (frames.empty() || model.status != ModelStatus::ok || std::ssize(frames) == model.frames) return {};
  return input_error(
      fmt::format("cannot compare {}", (run / "frames" / (file_name_of(model.name) + ".csv")).string()),
      fmt::format("it has {} frames but report.json has {}: the file is cut off or belongs to another run",
                  frames.size(), model.frames),
      "measure the run again, or remove the file");
}

// A size or time that is impossible means that the file is damaged. The figures of a footprint are over the
// bare runtime, so those of a small model may be negative.
enum class Sizes { resident, over_the_runtime };
Status check_figures(const BenchResult& run, const std::string& name, Sizes sizes) {
  constexpr std::int64_t kMost = std::int64_t{1} << 50;  // a pebibyte, or 13 days in nanoseconds
  const std::int64_t least = sizes == Sizes::resident ? 0 : -kMost;
  const auto refuse = [&](const ModelResult& model, std::string_view figure, const std::string& value) {
    return input_error(
        fmt::format("cannot use {}", name),
        fmt::format("{} of the model '{}' is {}, which is impossible", figure, model.name, value),
        "the file is damaged: measure again");
  };
  for (const ModelResult& model : run.models) {
    const ModelMemory& memory = model.memory;
    // Memory that the runtime freed may hide what the model added, but the peak is above zero.
    if (sizes == Sizes::over_the_runtime && memory.run_peak && memory.run_peak->count <= 0)
      return refuse(model, "run_peak_bytes", fmt::format("{}", memory.run_peak->count));
    for (const auto& [figure, bytes] :
         {std::pair{"runtime_bytes", memory.runtime}, std::pair{"loaded_bytes", memory.loaded},
          std::pair{"load_peak_bytes", memory.load_peak}, std::pair{"run_mean_bytes", memory.run_mean},
          std::pair{"run_peak_bytes", memory.run_peak}, std::pair{"residual_bytes", memory.residual},
          std::pair{"pss_run_peak_bytes", memory.pss_run_peak},
          std::pair{"file_size_bytes", model.file_size}})
      if (bytes && (bytes->count < least || bytes->count > kMost))
        return refuse(model, figure, fmt::format("{}", bytes->count));
    for (const comparison::RunMetric& metric : comparison::run_metrics())
      if (const auto value = metric.value({model, {}});
          value && (!(std::abs(*value) <= double{kMost}) ||
                    (metric.unit != comparison::MetricUnit::bytes && *value < 0)))
        return refuse(model, metric.name, fmt::format("{}", *value));
  }
  return {};
}

// headroom bench rejects equal names; an edited report may have them.
Status check_model_names(const BenchResult& run, const std::string& name) {
  std::set<std::string_view> names;
  for (const ModelResult& model : run.models)
    if (!names.insert(model.name).second)
      return input_error(fmt::format("cannot use {}", name),
                         fmt::format("two of its models are named '{}'", model.name),
                         "give each model a different name and measure again");
  return {};
}

// Returns false for a copy of an earlier run, such as a folder that was fetched twice, and leaves it out: as
// a second run it would show no spread.
bool add_key(std::string key, const std::string& name, LoadedSide& loaded) {
  const auto same = std::ranges::find(loaded.keys, key);
  if (same == loaded.keys.end()) {
    loaded.keys.push_back(std::move(key));
    return true;
  }
  loaded.left_out.push_back(
      fmt::format("{} is a copy of {}", name, loaded.side[same - loaded.keys.begin()].name));
  return false;
}

Status load_run(const fs::path& file, const std::string& name, LoadedSide& loaded) {
  auto result = read_report_file(file);
  if (!result) return forward_error(result);
  if (auto fine = check_run(*result, file.string()); !fine) return fine;
  loaded.results.push_back(std::make_unique<BenchResult>(std::move(*result)));
  const BenchResult& kept = *loaded.results.back();
  comparison::ComparedRun run{name, &kept, {}};
  const Fingerprints fingerprints = fingerprints_in(file.parent_path());
  for (const ModelResult& model : kept.models) {
    auto frames = frames_of(file.parent_path(), model.name);
    if (!frames) return forward_error(frames);
    if (auto fine = check_count(*frames, model, file.parent_path()); !fine) return fine;
    const auto known = fingerprints.find(model.name);
    run.models.push_back(
        {&model, std::move(*frames), known == fingerprints.end() ? std::string() : known->second});
  }
  if (!add_key(key_of(kept), name, loaded)) {
    loaded.results.pop_back();
    return {};
  }
  add_combined(loaded, run);
  loaded.side.push_back(std::move(run));
  return {};
}

ModelResult result_of(const Footprint& footprint) {
  ModelResult model;
  model.name = footprint.name;
  model.path = footprint.path;
  model.backend = footprint.backend;
  model.backend_version = footprint.backend_version;
  model.input = footprint.input;
  model.status = ModelStatus::ok;
  model.settings = footprint.settings;
  model.memory.loaded = footprint.loaded;
  model.memory.load_peak = footprint.load_peak;
  model.memory.run_mean = footprint.run_mean;
  model.memory.run_peak = footprint.run_peak;
  return model;
}

constexpr Bytes kLargestFootprint = mebibytes(1);
bool has_footprints(const fs::path& folder) {
  std::error_code code;
  return fs::is_directory(folder / "footprints", code);
}

// Runs of the history have no keys.
bool are_same_runs(const LoadedSide& before, const LoadedSide& after) {
  const std::set<std::string> a(before.keys.begin(), before.keys.end()),
      b(after.keys.begin(), after.keys.end());
  return !a.empty() && a == b;
}

// A run on both sides hides a change.
void add_shared_runs(const LoadedSide& before, const LoadedSide& after, std::vector<std::string>& caveats) {
  for (std::size_t i = 0; i < before.keys.size(); ++i)
    for (std::size_t j = 0; j < after.keys.size(); ++j)
      if (before.keys[i] == after.keys[j])
        caveats.push_back(
            fmt::format("{} (A) and {} (B) are the same run", before.side[i].name, after.side[j].name));
}

// Of a file, a run's folder, or a folder of runs (outputs/).
Result<std::vector<planning::MeasuredFootprint>> read_footprints(const fs::path& place) {
  std::vector<fs::path> files;
  std::error_code code;
  if (fs::is_regular_file(place, code)) {
    files.push_back(place);
  } else if (has_footprints(place)) {
    list_footprints(place, files);
  } else {
    for (fs::directory_iterator entry(place, code), end; !code && entry != end; entry.increment(code)) {
      if (has_footprints(entry->path())) list_footprints(entry->path(), files);
      if (place.filename() == "footprints" && entry->path().extension() == ".json")
        files.push_back(entry->path());
    }
  }
  if (files.empty())
    return input_error(fmt::format("no footprints found in {}", place.string()), code ? code.message() : "",
                       "name a run folder of headroom bench, or a folder of runs (outputs)");
  std::ranges::sort(files);
  std::vector<planning::MeasuredFootprint> all;
  for (const fs::path& file : files) {
    auto footprint = read_footprint(file);
    if (!footprint) return forward_error(footprint);
    all.push_back({file.string(), std::move(*footprint)});
  }
  return all;
}

}  // namespace

std::string left_out_words(const LoadedSide& side) {
  constexpr std::size_t kShown = 3;
  const std::size_t all = side.left_out.size(), shown = std::min(all, kShown);
  std::string words =
      fmt::format("{}", fmt::join(side.left_out.begin(), side.left_out.begin() + shown, "; "));
  return all > shown ? words + fmt::format("; and {} more", all - shown) : words;
}

RunDiffReport diff_runs(const LoadedSide& before, const LoadedSide& after, const HistoryWords& history) {
  RunDiffReport report{before.names(), after.names(), comparison::compare_runs(before.side, after.side)};
  report.before_words = history.before;
  report.after_words = history.after;
  report.is_one_side = are_same_runs(before, after);
  std::vector<std::string>& caveats = report.comparison.caveats;
  for (const auto& [side, name] : {std::pair{&before, "A"}, std::pair{&after, "B"}})
    if (std::string words = left_out_words(*side); !words.empty())
      caveats.push_back(fmt::format("skipped in {}: {}", name, words));
  if (!history.caveat.empty()) caveats.push_back(history.caveat);
  if (!report.is_one_side) add_shared_runs(before, after, caveats);
  return report;
}

comparison::GateJudgement judge_runs(RunDiffReport& report, std::vector<comparison::GateRule> rules) {
  comparison::GateJudgement judgement;
  if (rules.empty()) return judgement;
  if (report.is_one_side) report.not_judged = comparison::leave_out_changes(rules);
  if (!report.not_judged.empty()) log::warning("{}", report.not_judged);
  judgement = comparison::check_gate(rules, report.comparison);
  report.gate = judgement.findings;
  if (judgement.not_judged) report.not_judged = judgement.not_judged->sentence();
  return judgement;
}

Result<BenchResult> read_report_file(const fs::path& file) {
  auto text = read_file(file, kLargestReport);
  if (!text) return forward_error(text);
  return read_report(*text, file.string());
}

Result<RunsOfFolder> runs_of_folder(const fs::path& folder) {
  auto is_folder_a_run = has_report(folder);
  if (!is_folder_a_run) return forward_error(is_folder_a_run);
  RunsOfFolder found;
  if (*is_folder_a_run) {
    found.runs = {folder};
    return found;
  }
  std::error_code code;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code)) {
    std::error_code ignored;
    if (!fs::is_directory(entry->path(), ignored)) continue;
    const auto is_run = has_report(entry->path());
    if (!is_run)
      found.left_out.push_back(is_run.error().sentence());
    else if (*is_run)
      found.runs.push_back(entry->path());
    else
      found.left_out.push_back(
          fmt::format("{} has no report.json: not a run, or an unfinished one", entry->path().string()));
  }
  if (code)
    return input_error(fmt::format("cannot read the folder {}", folder.string()), code.message(),
                       "check its permissions");
  std::ranges::sort(found.runs);
  std::ranges::sort(found.left_out);
  return found;
}

std::string key_of(const BenchResult& run) {
  std::string text = fmt::format("{}\n{}\n{}\n{}\n{}\n", run.run_name, run.started_at, run.host.hostname,
                                 run.host.machine, run.complete);
  const auto bytes = [](const std::optional<Bytes>& value) { return value ? value->count : -1; };
  for (const ModelResult& model : run.models)
    text += fmt::format("{}\n{} {} {} {} {}\n", model.name, name_of(model.status), model.frames,
                        bytes(model.memory.load_peak), bytes(model.memory.run_peak),
                        model.inference ? model.inference->p50.count : -1);
  return fingerprint_of(text);
}

Status check_run(const BenchResult& run, const std::string& name) {
  if (auto fine = check_figures(run, name, Sizes::resident); !fine) return fine;
  return check_model_names(run, name);
}

void add_combined(LoadedSide& loaded, comparison::ComparedRun& run) {
  loaded.combined.push_back(
      std::make_unique<std::vector<ModelResult>>(comparison::combined_results(*run.result)));
  for (const ModelResult& result : *loaded.combined.back()) run.models.push_back({&result, {}, {}});
}

std::vector<std::string> LoadedSide::names() const {
  std::vector<std::string> names;
  for (const comparison::ComparedRun& run : side) names.push_back(run.name);
  return names;
}

// A run that is given twice, also through a link such as runs/latest, counts once: it would show no spread.
Result<LoadedSide> load_runs(const std::vector<std::string>& runs) {
  LoadedSide loaded;
  std::optional<Error> unreadable;
  std::set<fs::path> seen;
  const auto is_new = [&](const fs::path& report) {
    std::error_code code;
    const fs::path place = fs::canonical(report, code);
    return code || seen.insert(place).second;  // reading it reports the problem
  };
  for (const std::string& given : runs) {
    std::error_code code;
    if (!fs::is_directory(given, code)) {
      if (!is_new(given)) continue;
      if (auto read = load_run(given, given, loaded); !read) return forward_error(read);
      continue;
    }
    auto found = runs_of_folder(given);
    if (!found) return forward_error(found);
    loaded.left_out.insert(loaded.left_out.end(), found->left_out.begin(), found->left_out.end());
    if (loaded.side.size() + found->runs.size() > kMostRuns)
      return usage_error(fmt::format("{} has too many runs", given),
                         fmt::format("the maximum is {} per side", kMostRuns), "name fewer run folders");
    for (const fs::path& folder : found->runs) {
      if (!is_new(folder / "report.json")) continue;
      if (auto read = load_run(folder / "report.json", folder.string(), loaded); !read) {
        // One unreadable run of many is reported, and the others are still compared.
        if (folder == given) return forward_error(read);
        loaded.left_out.push_back(read.error().sentence());
        if (!unreadable) unreadable = std::move(read.error());
      }
    }
  }
  if (loaded.side.empty() && unreadable) return tl::unexpected(std::move(*unreadable));
  return loaded;
}

Result<LoadedSide> load_footprints(const std::vector<std::string>& files) {
  LoadedSide loaded;
  for (const std::string& file : files) {
    auto footprint = read_footprint(file);
    if (!footprint) return forward_error(footprint);
    auto fingerprint = file_fingerprint(file);
    if (!fingerprint) return forward_error(fingerprint);
    if (!add_key(std::move(*fingerprint), file, loaded)) continue;
    auto result = std::make_unique<BenchResult>();
    result->complete = true;
    result->host.hostname = footprint->host;
    result->models.push_back(result_of(*footprint));
    if (auto fine = check_figures(*result, file, Sizes::over_the_runtime); !fine) return forward_error(fine);
    loaded.side.push_back(
        {file, result.get(), {{&result->models.front(), {}, footprint->model_fingerprint}}});
    loaded.results.push_back(std::move(result));
  }
  return loaded;
}

Result<Footprint> read_footprint(const fs::path& file) {
  auto text = read_file(file, kLargestFootprint);
  if (!text) return forward_error(text);
  auto document = parse_json(*text, file.string());
  if (!document) return forward_error(document);
  return footprint_from_json(*document, file.string());
}

Result<std::vector<planning::MeasuredFootprint>> footprints_for(Budget& budget, const fs::path& folder,
                                                                const std::vector<std::string>& places) {
  std::vector<std::string> wanted = places;
  const auto from_folder = [&](MemoryNeed& need) {
    if (need.footprint.empty()) return;
    std::error_code code;
    if (fs::path(need.footprint).is_relative() && fs::exists(folder / need.footprint, code))
      need.footprint = (folder / need.footprint).lexically_normal().string();
    if (fs::exists(need.footprint, code)) wanted.push_back(need.footprint);
  };
  for (BudgetComponent& component : budget.components) {
    from_folder(component.need);
    for (BudgetVariant& variant : component.variants) from_folder(variant.need);
  }
  std::vector<planning::MeasuredFootprint> all;
  for (const std::string& place : wanted) {
    auto measured = read_footprints(place);
    if (!measured) return forward_error(measured);
    for (planning::MeasuredFootprint& each : *measured) {
      const auto is_same = [&](const planning::MeasuredFootprint& known) { return known.file == each.file; };
      if (std::ranges::none_of(all, is_same)) all.push_back(std::move(each));
    }
  }
  return all;
}

}  // namespace headroom::report
