#include "cli/plan_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/files.h"
#include "base/json.h"
#include "report/report_json.h"
#include "sources/system_sampler.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

constexpr Bytes kLargestFootprint = mebibytes(1);
constexpr std::size_t kMostFiles = 10'000;

bool has_footprints(const fs::path& folder) {
  std::error_code code;
  return fs::is_directory(folder / "footprints", code);
}

void list_footprints(const fs::path& run, std::vector<fs::path>& files) {
  std::error_code code;
  for (fs::directory_iterator entry(run / "footprints", code), end; !code && entry != end;
       entry.increment(code))
    if (entry->path().extension() == ".json" && files.size() < kMostFiles) files.push_back(entry->path());
}

Result<planning::MeasuredFootprint> read_footprint(const fs::path& file) {
  auto text = read_file(file, kLargestFootprint);
  if (!text) return forward_error(text);
  auto document = parse_json(*text, file.string());
  if (!document) return forward_error(document);
  auto footprint = report::footprint_from_json(*document);
  if (!footprint) {
    footprint.error().what = fmt::format("{} is no footprint", file.string());
    return forward_error(footprint);
  }
  return planning::MeasuredFootprint{file.string(), std::move(*footprint)};
}

}  // namespace

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
    return input_error(fmt::format("there are no footprints in {}", place.string()),
                       code ? code.message() : "",
                       "name a run of headroom bench, or the folder of its runs (outputs)");
  std::sort(files.begin(), files.end());
  std::vector<planning::MeasuredFootprint> all;
  for (const fs::path& file : files) {
    auto measured = read_footprint(file);
    if (!measured) return forward_error(measured);
    all.push_back(std::move(*measured));
  }
  return all;
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
      if (std::none_of(all.begin(), all.end(), is_same)) all.push_back(std::move(each));
    }
  }
  return all;
}

// The most of a second's samples: a plan on top of a lucky moment would be too good.
Result<DeviceProfile> live_device(const fs::path& root, std::string& words) {
  constexpr int kSamples = 5;
  constexpr std::chrono::milliseconds kBetween{200};
  sources::SystemSampler sampler(root);
  DeviceProfile device{"live", "This machine", {}, {}, {}, false, "/proc/meminfo, now"};
  Bytes cache, group_taken;
  std::optional<Bytes> group_limit;
  for (int i = 0; i < kSamples; ++i) {
    if (i > 0 && root == "/") std::this_thread::sleep_for(kBetween);
    const SystemSample sample = sampler.sample();
    if (!sample.ram_total || !sample.ram_available)
      return input_error("the memory of this machine is not told",
                         "/proc/meminfo has no MemTotal or MemAvailable", "name a --device");
    device.total = *sample.ram_total;
    device.system = std::max(device.system, *sample.ram_total - *sample.ram_available);
    if (const auto& group = sample.cgroup; group && group->limit && *group->limit < device.total) {
      group_limit = group->limit;
      // The group may have more left than the machine.
      const Bytes left = std::min(*group->limit - group->current.value_or(Bytes{}), *sample.ram_available);
      group_taken = std::max(group_taken, *group->limit - std::max(left, Bytes{}));
    }
    if (sample.ram_free) cache = *sample.ram_available - *sample.ram_free;
    if (i + 1 < kSamples) continue;
    words = fmt::format("baseline: {} of {} are taken now", format_bytes(device.system),
                        format_bytes(device.total));
    // GPU memory of a Jetson comes from what is free, without taking the page cache's.
    if (sample.nvmap_used && cache > Bytes{})
      words +=
          fmt::format("; of the rest {} are page cache, which the GPU's driver does not take back by itself",
                      format_bytes(cache));
  }
  if (!group_limit) return device;
  device.total = *group_limit;
  device.system = group_taken;
  device.source = "the control group that this runs in, now";
  words = fmt::format(
      "baseline: this runs in a control group of {}, of which {} are not to be had now (its pages of files "
      "counted, and what the machine lacks)",
      format_bytes(device.total), format_bytes(device.system));
  return device;
}

}  // namespace headroom::cli
