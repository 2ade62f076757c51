// What headroom diff and headroom history are given: what a file or folder is, and runs with all that they
// kept.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/input_kind.h"
#include "comparison/run_comparison.h"
#include "types/bench_result.h"

namespace headroom::cli {

// What errors say is to be named.
inline constexpr std::string_view kWhatIsCompared =
    "use recordings (.hrec), run folders of headroom bench, footprints or logs of headroom watch";
inline constexpr std::string_view kWhatIsKept =
    "use run folders of headroom bench, or folders of run folders";

// By its content; of a folder by what lies in it. Errors: it is none of these, or cannot be read.
Result<InputKind> kind_of_input(const std::filesystem::path& path,
                                std::string_view what_fits = kWhatIsCompared);

// Of what does not change from one version of Headroom to the next, so that a run is known again: when and
// where it was made, and its first figures.
std::string key_of(const BenchResult& run);

// The runs of one side. It owns what `side` points to.
struct LoadedSide {
  std::vector<std::unique_ptr<BenchResult>> results;
  std::vector<std::unique_ptr<std::vector<ModelResult>>>
      combined;  // of each: pipelines, parallel runs, pools
  comparison::Side side;
  std::vector<std::string> left_out;  // folders in a folder of runs that are none, and copies of runs
  std::vector<std::string> keys;      // of the runs of a file each, in the order of `side`
  std::vector<std::string> names() const;
};

// An error where a size or a time is one that nothing can have: the file was damaged. A footprint is over the
// bare runtime, so a small one may be below it.
enum class Sizes { resident, over_the_runtime };
Status check_figures(const BenchResult& run, const std::string& name, Sizes sizes = Sizes::resident);

// A run whose models are to be told apart by their names: an error where two have the same one. Adds what it
// measured of several models at once (combined_results()) to `side`, behind the models.
Status check_model_names(const BenchResult& run, const std::string& name);
void add_combined(LoadedSide& loaded, comparison::ComparedRun& run);

// Run folders, report.json files and folders of runs (each run in them). `runs` may have several of each.
Result<LoadedSide> load_runs(const std::vector<std::string>& runs);
// footprints/NAME.json: memory over the bare runtime.
Result<LoadedSide> load_footprints(const std::vector<std::string>& files);

}  // namespace headroom::cli
