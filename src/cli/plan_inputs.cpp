#include "cli/plan_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/files.h"
#include "base/json.h"
#include "report/run/report_json.h"
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
    footprint.error().what = fmt::format("{} is not a footprint", file.string());
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
    return input_error(fmt::format("no footprints found in {}", place.string()), code ? code.message() : "",
                       "name a run folder of headroom bench, or a folder of runs (outputs)");
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

namespace {

// What is left of a limit, at the least of all samples.
struct Room {
  Bytes total;
  std::optional<Bytes> left;
  void add(Bytes now_left) { left = std::min(left.value_or(now_left), std::max(now_left, Bytes{})); }
  Bytes taken() const { return total - left.value_or(total); }
};

}  // namespace

Result<DeviceProfile> live_device(const fs::path& root, std::string& words) {
  constexpr int kSamples = 5;
  constexpr std::chrono::milliseconds kBetween{200};
  sources::SystemSampler sampler(root);
  Room machine, group;
  Bytes cache;
  bool has_nvmap = false;
  for (int i = 0; i < kSamples; ++i) {
    if (i > 0 && root == "/") std::this_thread::sleep_for(kBetween);
    const SystemSample sample = sampler.sample();
    if (!sample.ram_total || !sample.ram_available)
      return input_error("cannot read the memory of this machine",
                         "/proc/meminfo has no MemTotal or MemAvailable", "use --device instead of --live");
    machine.total = *sample.ram_total;
    machine.add(*sample.ram_available);
    if (sample.ram_free) cache = *sample.ram_available - *sample.ram_free;
    has_nvmap = sample.nvmap_used.has_value();
    const auto& limited = sample.cgroup;
    if (!limited || !limited->limit || *limited->limit >= machine.total) continue;
    group.total = *limited->limit;
    // Of what it is charged for, the kernel gives up pages of files that nobody used of late.
    group.add(group.total - limited->current.value_or(Bytes{}) + limited->inactive_file.value_or(Bytes{}));
  }
  // The tighter of both. The machine may have less left than the group is allowed.
  if (group.left && *group.left <= *machine.left) {
    words = fmt::format(
        "baseline: headroom runs in a control group of {}, of which {} are in use now (reclaimable file "
        "pages are not counted)",
        format_bytes(group.total), format_bytes(group.taken()));
    return DeviceProfile{"live",
                         "This control group",
                         group.total,
                         group.taken(),
                         {},
                         false,
                         "the control group of headroom, now",
                         true};
  }
  words = fmt::format("baseline: {} of {} are in use now", format_bytes(machine.taken()),
                      format_bytes(machine.total));
  if (group.left)
    words += fmt::format("; the control group of headroom has more left, {} of {}", format_bytes(*group.left),
                         format_bytes(group.total));
  // GPU memory of a Jetson comes from what is free, without taking the page cache's.
  if (has_nvmap && cache > Bytes{})
    words += fmt::format("; {} of the rest are page cache, which the GPU driver does not reclaim",
                         format_bytes(cache));
  return DeviceProfile{"live", "This machine", machine.total,       machine.taken(),
                       {},     false,          "/proc/meminfo, now"};
}

}  // namespace headroom::cli
