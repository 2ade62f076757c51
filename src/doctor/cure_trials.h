// Which cures headroom bench can try, what those that helped are together, and what a trial showed. Pure; the
// trials themselves are cli/doctor_try.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comparison/run_comparison.h"
#include "types/bench_result.h"
#include "types/finding.h"

namespace headroom::doctor {

// What different cures of one model ask for, each once, in the order of the findings. Without those that ask
// for what the run had already.
std::vector<CureSettings> cures_to_try(const std::vector<Finding>& findings, const BenchResult& run);

// Puts what was tried to each cure that asked for it.
void keep_trial(std::vector<Finding>& findings, const TriedCure& tried);

// How many comparisons a trial of these makes: one of each, and for each model with several of them one of
// those together that helped. All share the false alarms of one (comparison::compare_runs()).
std::size_t comparisons_of(const std::vector<CureSettings>& cures);

// Those of one model that took less memory, as one: of two that set the same thing the one that saved more,
// and nothing of an arena that is off. All of them where none came through each time. Absent if it would be
// one of them alone.
std::optional<CureSettings> best_together(const std::vector<TriedCure>& tried, const RuntimeSettings& run);

// `model` compares the runs as it was with those with the cure. Of a model that fails now and then the runs
// count that came through; that it comes through more often is a gain only where it never did before, and
// each time with the cure.
TriedCure judge(CureSettings settings, std::string command, const comparison::ModelComparison& model);

// Whether its peaks lie far apart and the runs of one side differ by as much, so that more of them may tell.
bool needs_more_runs(const TriedCure& tried);

// All models of the run that were in memory at once, as one: the most that their shares of pages came to at
// one moment while they ran (PSS; where those were not sampled the joint peak). It failed where one of them
// did, and where the run has no such part.
ModelResult joint_result(const BenchResult& run, const std::string& name);
// One frame through all of them: the sum of their medians, in nanoseconds.
std::optional<double> joint_latency(const BenchResult& run);

// What `headroom` is given: bench of one model of the run, alone, with the run's own settings and limit, and
// with those of the cure; of all at once where the cure is of several models. `run` has its options.
std::vector<std::string> bench_arguments(const BenchResult& run, const ModelResult& model,
                                         const std::optional<CureSettings>& cure);

// The bench of all models as they were, and also as `flags` say (--pool SIZE), as a person would type it.
// `run` has its options.
std::string command_at_once(const BenchResult& run, const std::vector<std::string>& flags);

// Whether what the cure maps must be prepared first, without the run's limit: making the file takes what
// loading took, which is what did not fit.
bool wants_preparing(const BenchResult& run, const CureSettings& cure);
// And that: the setup alone.
std::vector<std::string> preparing_arguments(const BenchResult& run, const ModelResult& model,
                                             const CureSettings& cure);
// All of it as a person would type it. `run` has its options.
std::string bench_command(const BenchResult& run, const ModelResult& model,
                          const std::optional<CureSettings>& cure);

}  // namespace headroom::doctor
