#include "report/input/footprint_input.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/files.h"
#include "base/json.h"
#include "report/run/report_json.h"

namespace headroom::report {
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

}  // namespace

Result<Footprint> read_footprint(const fs::path& file) {
  auto text = read_file(file, kLargestFootprint);
  if (!text) return forward_error(text);
  auto document = parse_json(*text, file.string());
  if (!document) return forward_error(document);
  return footprint_from_json(*document, file.string());
}

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
    auto footprint = read_footprint(file);
    if (!footprint) return forward_error(footprint);
    all.push_back({file.string(), std::move(*footprint)});
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

}  // namespace headroom::report
