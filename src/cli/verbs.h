// The verbs. Each has its file X_verb.cpp: its flags, and what it calls and prints.
#pragma once

#include <string>
#include <vector>

#include "cli/flag_table.h"

namespace headroom::cli {

const Verb& bench_verb();
const Verb& run_verb();
const Verb& trace_verb();
const Verb& plan_verb();
const Verb& top_verb();
const Verb& watch_verb();
const Verb& serve_verb();
const Verb& report_verb();
const Verb& diff_verb();
const Verb& doctor_verb();
const Verb& history_verb();
const Verb& export_verb();
const Verb& symbols_verb();
const Verb& build_engine_verb();
const Verb& help_verb();
const Verb& generate_verb();

// These return the exit code: 0 success, 1 failed gate, 2 wrong use or unreadable input, 3 internal error.
int run_bench_verb(const std::vector<std::string>& arguments);
int run_run_verb(const std::vector<std::string>& arguments);
int run_trace_verb(const std::vector<std::string>& arguments);
int run_plan_verb(const std::vector<std::string>& arguments);
int run_top_verb(const std::vector<std::string>& arguments);
int run_watch_verb(const std::vector<std::string>& arguments);
int run_serve_verb(const std::vector<std::string>& arguments);
int run_report_verb(const std::vector<std::string>& arguments);
int run_diff_verb(const std::vector<std::string>& arguments);
int run_doctor_verb(const std::vector<std::string>& arguments);
int run_history_verb(const std::vector<std::string>& arguments);
int run_export_verb(const std::vector<std::string>& arguments);
int run_symbols_verb(const std::vector<std::string>& arguments);
int run_build_engine_verb(const std::vector<std::string>& arguments);
int run_help_verb(const std::vector<std::string>& arguments);
int run_generate_verb(const std::vector<std::string>& arguments);

struct VerbEntry {
  Verb verb;
  int (*run)(const std::vector<std::string>& arguments);
};
const std::vector<VerbEntry>& verb_list();

}  // namespace headroom::cli
