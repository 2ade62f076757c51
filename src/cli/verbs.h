// The verbs, and how their results become exit codes. The files X_verb.cpp and X_verbs.cpp have the flags of
// each verb, and what it calls and prints.
#pragma once

#include <vector>

#include "cli/flag_table.h"

namespace headroom::cli {

using GetVerb = const Verb&();
GetVerb bench_verb, run_verb, trace_verb, plan_verb, top_verb, watch_verb, serve_verb, report_verb, diff_verb,
    evaluate_verb, doctor_verb, history_verb, export_verb, symbols_verb, build_engine_verb, build_plugin_verb,
    help_verb, generate_verb;

const std::vector<const Verb*>& verb_list();

// Verb::run of a verb whose flags are only on the command line.
template <GetVerb verb, Result<int> (*run)(const FlagValues& values)>
Result<int> run_with_flags(const std::vector<std::string>& arguments) {
  auto values = parse_flags(verb(), arguments);
  if (!values) return forward_error(values);
  return run(*values);
}

// Ctrl-C, as a shell reports it.
inline constexpr int kExitInterrupted = 130;

// The one place where an error is printed and becomes an exit code (docs/exit-codes.md): 1 for a failure, 2
// for wrong use or unreadable input, 3 for an internal error.
int exit_code_of(const Error& error);
// The exit code of a verb: 3 if its output could not be written. Codes above 2, such as 130 for Ctrl-C, stay.
int exit_code_of(const Result<int>& result);

}  // namespace headroom::cli
