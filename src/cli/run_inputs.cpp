#include "cli/run_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/files.h"
#include "base/fnv1a.h"
#include "base/json.h"
#include "base/log.h"
#include "base/run_folder.h"
#include "base/text.h"
#include "comparison/combined_results.h"
#include "report/run/frame_times_csv.h"
#include "report/run/report_json.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

constexpr Bytes kLargestFrames = mebibytes(512);
constexpr Bytes kLargestFootprint = mebibytes(1);
constexpr std::size_t kMostRuns = 1000;

struct FolderOfRuns {
  std::vector<fs::path> runs;         // in the order of their names
  std::vector<std::string> left_out;  // folders without a report, and why
};

// Whether it holds a report; an error where that cannot be told (of another user, a broken disk), or where it
// is no file: a pipe of that name would be waited for.
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

Result<FolderOfRuns> runs_in(const fs::path& folder) {
  FolderOfRuns found;
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
  std::sort(found.runs.begin(), found.runs.end());
  std::sort(found.left_out.begin(), found.left_out.end());
  return found;
}

// Also of logs of headroom watch of which a part is damaged: reading them tells what is wrong.
Result<InputKind> kind_of_file(const fs::path& path, std::string_view what_fits) {
  if (const auto known = known_kind(path)) return *known;
  std::ifstream stream(path, std::ios::binary);
  std::string begin(4096, '\0');
  stream.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, stream.gcount())));
  if (begin.starts_with("\x1f\x8b") || begin.find("\"time_ns\"") != begin.npos) return InputKind::watch_log;
  if (begin.starts_with("time_seconds,"))
    return input_error(fmt::format("cannot compare {}", path.string()), "it is a CSV log of headroom watch",
                       "log to FILE.jsonl: headroom watch --output FILE.jsonl");
  return input_error(fmt::format("cannot compare {}", path.string()),
                     begin.empty() ? "it is empty" : "unknown file format", std::string(what_fits));
}

bool is_file(const fs::path& path) {
  std::error_code code;
  return fs::is_regular_file(path, code);
}

// By the model's name.
using Fingerprints = std::unordered_map<std::string, std::string>;

// What has no footprint, or a damaged one, has no fingerprint; the comparison goes on.
Fingerprints fingerprints_in(const fs::path& run) {
  Fingerprints known;
  std::error_code code;
  for (fs::directory_iterator entry(run / "footprints", code), end; !code && entry != end;
       entry.increment(code)) {
    if (!is_file(entry->path())) continue;
    const auto text = read_file(entry->path(), kLargestFootprint);
    if (!text) continue;
    const auto document = parse_json(*text);
    if (!document) continue;
    const auto footprint = report::footprint_from_json(*document);
    if (footprint) known.emplace(footprint->name, footprint->model_fingerprint);
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

// A file that was cut off at the end of a line, or is another run's: what it has is of a part of the frames.
Status check_count(const std::vector<FrameTimes>& frames, const ModelResult& model, const fs::path& run) {
  if (frames.empty() || model.status != ModelStatus::ok || std::ssize(frames) == model.frames) return {};
  return input_error(
      fmt::format("cannot compare {}", (run / "frames" / (file_name_of(model.name) + ".csv")).string()),
      fmt::format("it has {} frames but report.json has {}: the file is cut off or belongs to another run",
                  frames.size(), model.frames),
      "measure the run again, or remove the file");
}

Status load_run(const fs::path& file, const std::string& name, LoadedSide& loaded) {
  auto text = read_file(file, kLargestReport);
  if (!text) return forward_error(text);
  auto result = report::read_report(*text, file.string());
  if (!result) return forward_error(result);
  if (auto fine = check_figures(*result, file.string()); !fine) return fine;
  if (auto fine = check_model_names(*result, file.string()); !fine) return fine;
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
  // A copy, of a folder that was fetched or saved twice, would count as a run that differs by nothing.
  std::string key = key_of(kept);
  if (const auto same = std::find(loaded.keys.begin(), loaded.keys.end(), key); same != loaded.keys.end()) {
    loaded.left_out.push_back(
        fmt::format("{} is a copy of {}", name, loaded.side[same - loaded.keys.begin()].name));
    loaded.results.pop_back();
    return {};
  }
  loaded.keys.push_back(std::move(key));
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

}  // namespace

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

Result<InputKind> kind_of_input(const fs::path& path, std::string_view what_fits) {
  std::error_code code;
  if (!fs::exists(path, code))
    return input_error(fmt::format("cannot open {}", path.string()),
                       code ? code.message() : "no such file or folder", "check the path");
  if (fs::is_regular_file(path, code)) return kind_of_file(path, what_fits);
  if (!fs::is_directory(path, code))
    return input_error(fmt::format("cannot compare {}", path.string()), "it is not a file or a folder",
                       std::string(what_fits));
  const auto is_run = has_report(path);
  if (!is_run) return tl::unexpected(is_run.error());
  if (*is_run) return InputKind::run;
  const auto folder = runs_in(path);
  if (!folder) return tl::unexpected(folder.error());
  if (!folder->runs.empty()) return InputKind::run;
  // Of several the first says what is wrong with all.
  return input_error(fmt::format("{} has no report.json", path.string()),
                     fmt::format("it is not a run of headroom bench and not a folder of runs{}",
                                 folder->left_out.empty() ? "" : ": " + folder->left_out.front()),
                     std::string(what_fits));
}

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
    // What a model adds may be hidden in what the runtime gave back, but its highest moment is above nothing.
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

// headroom bench refuses them; a report that was put together by other means may have them.
Status check_model_names(const BenchResult& run, const std::string& name) {
  std::set<std::string_view> names;
  for (const ModelResult& model : run.models)
    if (!names.insert(model.name).second)
      return input_error(fmt::format("cannot use {}", name),
                         fmt::format("two of its models are named '{}'", model.name),
                         "give each model a different name and measure again");
  return {};
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

// A run that is named twice, or by a link such as runs/latest, too, is one: its noise would count as none.
Result<LoadedSide> load_runs(const std::vector<std::string>& runs) {
  LoadedSide loaded;
  std::optional<Error> unreadable;
  std::set<fs::path> seen;
  const auto is_new = [&](const fs::path& report) {
    std::error_code code;
    const fs::path place = fs::canonical(report, code);
    return code || seen.insert(place).second;  // reading it says what is wrong
  };
  for (const std::string& given : runs) {
    std::error_code code;
    std::vector<fs::path> folders;
    if (!fs::is_directory(given, code)) {
      if (!is_new(given)) continue;
      if (auto read = load_run(given, given, loaded); !read) return forward_error(read);
      continue;
    }
    const auto is_run = has_report(given);
    if (!is_run) return tl::unexpected(is_run.error());
    if (*is_run) {
      folders = {given};
    } else {
      auto found = runs_in(given);
      if (!found) return forward_error(found);
      folders = std::move(found->runs);
      loaded.left_out.insert(loaded.left_out.end(), found->left_out.begin(), found->left_out.end());
    }
    if (loaded.side.size() + folders.size() > kMostRuns)
      return usage_error(fmt::format("{} has too many runs", given),
                         fmt::format("the maximum is {} per side", kMostRuns), "name fewer run folders");
    for (const fs::path& folder : folders) {
      if (!is_new(folder / "report.json")) continue;
      if (auto read = load_run(folder / "report.json", folder.string(), loaded); !read) {
        // One of many that cannot be read is named, and takes nothing from the others.
        if (*is_run) return forward_error(read);
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
    auto text = read_file(file, kLargestFootprint);
    if (!text) return forward_error(text);
    auto document = parse_json(*text, file);
    if (!document) return forward_error(document);
    auto footprint = report::footprint_from_json(*document, file);
    if (!footprint) return forward_error(footprint);
    // One that is named twice, and a copy of another, differ by nothing, and are no second run.
    if (const auto same = std::find(loaded.keys.begin(), loaded.keys.end(), fingerprint_of(*text));
        same != loaded.keys.end()) {
      loaded.left_out.push_back(
          fmt::format("{} is a copy of {}", file, loaded.side[same - loaded.keys.begin()].name));
      continue;
    }
    loaded.keys.push_back(fingerprint_of(*text));
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

}  // namespace headroom::cli
