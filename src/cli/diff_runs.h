// `headroom diff` of runs, and of runs with the history's: the comparison, its views and the gate.
#pragma once

#include <string>
#include <vector>

#include "cli/flag_table.h"
#include "comparison/gate.h"
#include "report/comparison/run_diff.h"
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

// Prints the comparison as the flags ask (--json, --markdown, --top, --color) and checks the rules. Returns
// the exit code.
Result<int> diff_runs(const report::LoadedSide& before, const report::LoadedSide& after,
                      const FlagValues& values, const std::vector<comparison::GateRule>& rules,
                      const report::HistoryWords& history = {});

}  // namespace headroom::cli
