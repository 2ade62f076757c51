// Reads runs of headroom bench, and their footprints, as the sides of a comparison.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "comparison/run_comparison.h"
#include "planning/footprints.h"
#include "types/bench_result.h"
#include "types/budget.h"

namespace headroom::report {

inline constexpr Bytes kLargestReport = mebibytes(256);

Result<BenchResult> read_report_file(const std::filesystem::path& file);

// The runs of a folder: the folder itself, or the runs in it.
struct RunsOfFolder {
  std::vector<std::filesystem::path> runs;  // sorted by name
  std::vector<std::string> left_out;        // folders without a readable report, and why
};
Result<RunsOfFolder> runs_of_folder(const std::filesystem::path& folder);

// Identifies a run across versions of Headroom: when and where it was made, and its first figures.
std::string key_of(const BenchResult& run);

// The runs of one side. Owns what `side` points to.
struct LoadedSide {
  std::vector<std::unique_ptr<BenchResult>> results;
  // For each run: the figures of its pipeline, parallel run and pool.
  std::vector<std::unique_ptr<std::vector<ModelResult>>> combined;
  comparison::Side side;
  std::vector<std::string> left_out;  // folders that are not runs, and copies of runs
  std::vector<std::string> keys;      // key_of() of each run, in the order of `side`
  std::vector<std::string> names() const;
};

// A report that was damaged or edited: fails if a size or time is impossible, or if two models have one name.
Status check_run(const BenchResult& run, const std::string& name);

// Adds what the run measured of several models at once (combined_results()) behind its models.
void add_combined(LoadedSide& loaded, comparison::ComparedRun& run);

// Loads run folders, report.json files and folders of runs.
Result<LoadedSide> load_runs(const std::vector<std::string>& runs);
// Loads footprints/NAME.json: memory over the bare runtime.
Result<LoadedSide> load_footprints(const std::vector<std::string>& files);

// Reads measured footprints (footprints/NAME.json of a run).
Result<Footprint> read_footprint(const std::filesystem::path& file);

// The footprints of all places, and those that the budget itself names (`footprint = "…"`), relative to its
// folder. A missing one is reported later, when the budget is resolved, with its line.
Result<std::vector<planning::MeasuredFootprint>> footprints_for(Budget& budget,
                                                                const std::filesystem::path& folder,
                                                                const std::vector<std::string>& places);

}  // namespace headroom::report
