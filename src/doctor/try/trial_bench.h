// Runs headroom bench for the trials of cures.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/terminal.h"
#include "bench/interrupt.h"
#include "report/input/run_input.h"
#include "types/bench_result.h"
#include "types/finding.h"

namespace headroom::doctor {

// A temporary folder for the runs of the trials. The destructor removes it.
class TrialFolder {
 public:
  static Result<TrialFolder> make();
  TrialFolder(TrialFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TrialFolder& operator=(TrialFolder&&) = delete;
  ~TrialFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit TrialFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

class TrialBench {
 public:
  TrialBench(bench::Interrupt& interrupt, std::filesystem::path folder, std::size_t trials)
      : interrupt_(interrupt), folder_(std::move(folder)), trials_(trials) {}

  // More trials than planned, for the progress line.
  void expect(std::size_t more) { trials_ += more; }

  // Runs the bench of this model alone. Returns nothing after Ctrl-C. Fails if the bench wrote no report.
  Result<std::optional<report::LoadedSide>> run(const BenchResult& run, const ModelResult& model,
                                                const std::optional<CureSettings>& cure,
                                                const std::string& label);

 private:
  // These return false after Ctrl-C.
  Result<bool> prepare(const BenchResult& run, const ModelResult& model, const CureSettings& cure,
                       const std::string& label);
  Result<bool> wait_for(std::vector<std::string> arguments, const std::vector<std::string>& more,
                        const std::string& label);
  std::filesystem::path log() const { return folder_ / "bench.log"; }

  bench::Interrupt& interrupt_;
  std::filesystem::path folder_;
  std::size_t trials_, number_ = 0;
  std::set<std::string> prepared_;  // by model and settings
  ProgressLine line_;
};

}  // namespace headroom::doctor
