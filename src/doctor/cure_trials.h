// Cures that headroom bench can try: their commands, and the verdict on a trial. doctor/try runs the
// trials.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comparison/run_comparison.h"
#include "types/bench_result.h"
#include "types/finding.h"

namespace headroom::doctor {

// Whether it saved memory, or made a run succeed.
inline bool helped(const TriedCure& tried) {
  return tried.verdict == CureVerdict::helps || tried.verdict == CureVerdict::costs_speed;
}

// The different settings of the findings' cures, in their order, without those that the run has already.
std::vector<CureSettings> cures_to_try(const std::vector<Finding>& findings, const BenchResult& run);

// Adds the trial to each cure with its settings.
void keep_trial(std::vector<Finding>& findings, const TriedCure& tried);

// The settings that saved memory in one model, combined. Of two values of one setting, the one that saved
// more counts. Settings of an arena that is off are left out. Absent if the result equals one of them.
std::optional<CureSettings> best_together(const std::vector<TriedCure>& tried, const RuntimeSettings& run);

// `model` compares the run's settings with the cure's. The successful runs count. More successful runs are a
// gain only if every run failed before and none with the cure.
TriedCure judge(CureSettings settings, std::string command, const comparison::ModelComparison& model);

// All models that were in memory at the same time, as one. Its run peak is the largest sum of their shares of
// pages at one moment (PSS), or the joint peak. It failed if one of them did, or if they never were in memory
// together.
ModelResult joint_result(const BenchResult& run);
// The sum of their median latencies, in nanoseconds: one frame through all models.
std::optional<double> joint_latency(const BenchResult& run);

// In the following, `run` must have its options.

// The arguments that run one model alone with the run's settings and limit, and with the cure's. A cure of
// several models runs all of them at once. An empty cure changes nothing.
std::vector<std::string> bench_arguments(const BenchResult& run, const ModelResult& model,
                                         const CureSettings& cure = {});
// The same as a command line, with the preparation.
std::string bench_command(const BenchResult& run, const ModelResult& model, const CureSettings& cure);

// A command line that runs all models as they were, with `flags` (--pool SIZE).
std::string command_at_once(const BenchResult& run, const std::vector<std::string>& flags);

// The arguments that prepare the cure's mapped file without the run's limit: writing it takes as much memory
// as loading, which did not fit. Empty if the cure or the run has none.
std::vector<std::string> preparing_arguments(const BenchResult& run, const ModelResult& model,
                                             const CureSettings& cure);

}  // namespace headroom::doctor
