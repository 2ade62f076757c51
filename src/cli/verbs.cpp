#include "cli/verbs.h"

#include "base/log.h"
#include "base/terminal.h"

namespace headroom::cli {
namespace {

constexpr int kFailed = 1, kWrongUse = 2, kInternalFault = 3;

}  // namespace

const std::vector<const Verb*>& verb_list() {
  static const std::vector<const Verb*> kVerbs{
      &bench_verb(),        &run_verb(),     &trace_verb(),   &plan_verb(),    &top_verb(),
      &watch_verb(),        &serve_verb(),   &report_verb(),  &diff_verb(),    &evaluate_verb(),
      &doctor_verb(),       &history_verb(), &export_verb(),  &symbols_verb(), &build_engine_verb(),
      &build_plugin_verb(), &help_verb(),    &generate_verb()};
  return kVerbs;
}

int exit_code_of(const Error& error) {
  log::error("{}", error.sentence());
  if (error.kind == ErrorKind::internal) return kInternalFault;
  return error.kind == ErrorKind::failed ? kFailed : kWrongUse;
}

int exit_code_of(const Result<int>& result) {
  const int code = result ? *result : exit_code_of(result.error());
  // The error itself is printed once, when all is done: in main().
  return code <= kWrongUse && !output_status() ? kInternalFault : code;
}

}  // namespace headroom::cli
