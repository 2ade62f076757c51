#include "cli/verbs.h"

namespace headroom::cli {

const std::vector<VerbEntry>& verb_list() {
  static const std::vector<VerbEntry> kVerbs{
      {bench_verb(), run_bench_verb},     {run_verb(), run_run_verb},
      {trace_verb(), run_trace_verb},     {plan_verb(), run_plan_verb},
      {top_verb(), run_top_verb},         {watch_verb(), run_watch_verb},
      {serve_verb(), run_serve_verb},     {report_verb(), run_report_verb},
      {diff_verb(), run_diff_verb},       {doctor_verb(), run_doctor_verb},
      {history_verb(), run_history_verb}, {export_verb(), run_export_verb},
      {symbols_verb(), run_symbols_verb}, {build_engine_verb(), run_build_engine_verb},
      {help_verb(), run_help_verb},       {generate_verb(), run_generate_verb},
  };
  return kVerbs;
}

}  // namespace headroom::cli
