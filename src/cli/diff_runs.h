// `headroom diff` of runs, and of runs with the history's: the comparison, its views and the gate.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/flag_table.h"
#include "comparison/figure_gate.h"
#include "comparison/metric_gate.h"
#include "report/input/run_input.h"

namespace headroom::cli {

// --fail-on RULES, any number of times.
Flag fail_on_flag();
Result<std::vector<comparison::GateRule>> gate_rules(const FlagValues& values);
// The same of logs and recordings, which have `figures`.
Result<std::vector<comparison::FigureRule>> figure_rules(const FlagValues& values,
                                                         const std::vector<comparison::GatedFigure>& figures);
// The exit code: warns of what is within noise; an error that names the breaches, or where there is none the
// rule that cannot be judged.
Result<int> exit_by(const comparison::GateJudgement& judgement);
// "loaded, load_peak, …": for the help.
std::string run_metric_list();

// What lay beside the runs of a folder and was not compared, a sentence; empty where nothing did.
std::string left_out_words(const report::LoadedSide& side);

// What a history tells of the sides; what is empty is not told.
struct HistoryWords {
  std::string before, after;  // what the views call them; else by the names of their runs
  std::string caveat;
};

// Prints the view that the flags ask for (--json, --markdown, --top, --color), and holds B to the rules;
// returns the exit code.
Result<int> diff_runs(const report::LoadedSide& before, const report::LoadedSide& after,
                      const FlagValues& values, const std::vector<comparison::GateRule>& rules,
                      const HistoryWords& history = {});

}  // namespace headroom::cli
