#include "cli/verbs.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "cli/common_flags.h"
#include "cli/diff_logs.h"
#include "cli/diff_recordings.h"
#include "cli/diff_runs.h"
#include "cli/exit_code.h"
#include "comparison/recording_diff.h"
#include "report/input/input_kind.h"
#include "report/input/run_input.h"

namespace headroom::cli {
namespace {

struct Sides {
  std::vector<std::string> before, after;
};

// A B, or A… : B… .
Result<Sides> sides_of(const std::vector<std::string>& given) {
  const auto colon = std::find(given.begin(), given.end(), ":");
  if (colon == given.end()) {
    if (given.size() == 2) return Sides{{given[0]}, {given[1]}};
    return usage_error(
        "headroom diff needs two inputs", fmt::format("{} given", given.size()),
        "use headroom diff BEFORE AFTER, or with several runs per side: headroom diff A1 A2 A3 : B1 B2 B3");
  }
  Sides sides{{given.begin(), colon}, {colon + 1, given.end()}};
  if (sides.before.empty() || sides.after.empty() ||
      std::find(sides.after.begin(), sides.after.end(), ":") != sides.after.end())
    return usage_error("headroom diff needs two sides", "the sides are separated by one ':'",
                       "use headroom diff A1 A2 A3 : B1 B2 B3");
  return sides;
}

// Of what all is; unlike kinds are refused.
Result<report::InputKind> common_kind(const Sides& sides) {
  std::string_view first_name;
  std::optional<report::InputKind> first;
  for (const std::vector<std::string>* side : {&sides.before, &sides.after})
    for (const std::string& name : *side) {
      auto kind = report::kind_of_input(name);
      if (!kind) return forward_error(kind);
      if (first && *first != *kind)
        return usage_error(fmt::format("cannot compare {} and {}", first_name, name),
                           fmt::format("the first is {}, the second is {}", report::words_for(*first),
                                       report::words_for(*kind)),
                           "name two inputs of the same kind");
      first = *kind;
      if (first_name.empty()) first_name = name;
    }
  return *first;
}

// Flags of recordings would be passed over without a word.
Status check_flags(report::InputKind kind, const FlagValues& values) {
  const auto of_recordings = {"by", "min", "fail-above", "all", "symbols", "csv"};
  for (const char* flag : of_recordings)
    if (kind != report::InputKind::recording && values.has(flag))
      return usage_error(fmt::format("--{} works with recordings only", flag),
                         "the inputs are not recordings",
                         std::string_view(flag) != "fail-above" ? "remove the flag"
                         : kind == report::InputKind::watch_log ? "use --fail-on 'ram_used_bytes>+5%'"
                                                                : "use --fail-on 'run_peak>+5%'");
  if (values.toggle("json") + values.toggle("csv") + values.toggle("markdown") > 1)
    return usage_error("--json, --csv and --markdown cannot be combined", "", "keep one of them");
  return {};
}

Result<int> run(const std::vector<std::string>& arguments) {
  auto values = parse_flags(diff_verb(), arguments);
  if (!values) return forward_error(values);
  auto sides = sides_of(values->positionals());
  if (!sides) return forward_error(sides);
  auto kind = common_kind(*sides);
  if (!kind) return forward_error(kind);
  if (auto fine = check_flags(*kind, *values); !fine) return forward_error(fine);
  if (*kind == report::InputKind::recording) {
    if (sides->before.size() != 1 || sides->after.size() != 1)
      return usage_error("headroom diff compares one recording with one recording", "one side has several",
                         "use headroom diff before.hrec after.hrec");
    return diff_recordings(sides->before.front(), sides->after.front(), *values);
  }
  if (*kind == report::InputKind::watch_log) {
    if (sides->before.size() != 1 || sides->after.size() != 1)
      return usage_error("headroom diff compares one log with one log", "one side has several",
                         "use headroom diff before.jsonl after.jsonl");
    return diff_logs(sides->before.front(), sides->after.front(), *values);
  }
  auto rules = gate_rules(*values);
  if (!rules) return forward_error(rules);
  const auto load = *kind == report::InputKind::run ? report::load_runs : report::load_footprints;
  auto before = load(sides->before);
  if (!before) return forward_error(before);
  auto after = load(sides->after);
  if (!after) return forward_error(after);
  return diff_runs(*before, *after, *values, *rules);
}

}  // namespace

const Verb& diff_verb() {
  static const Verb kVerb = [] {
    Verb verb;
    verb.name = "diff";
    verb.summary = "Compare two runs, footprints, watch logs or recordings";
    verb.usage = "headroom diff A B [FLAGS]   or   A… : B… [FLAGS]";
    verb.description =
        "Compares A (before) with B (after). Inputs are run folders of headroom bench, folders of several "
        "runs, footprints, logs of headroom watch, or recordings of headroom trace. The first line is the "
        "verdict. Runs are compared by memory, latency, FPS and detections of each model. A change counts if "
        "it exceeds the usual difference between two runs of the same setup. With three or more runs per "
        "side, the runs themselves show how large that difference is. Recordings are compared by layer, call "
        "stack and module. Stacks match if their functions and modules have the same names. For logs and "
        "recordings, --fail-on takes the figures of --json. Metrics of --fail-on for runs: " +
        run_metric_list() + ".";
    verb.examples = {"headroom diff runs/main runs/branch --fail-on 'run_peak>+5%,p99>+10%'",
                     "headroom diff A1 A2 A3 : B1 B2 B3 --markdown > comment.md",
                     "headroom diff main.hrec branch.hrec --fail-above 5%"};
    verb.positional = "A B";
    Flag by = make_flag("by", FlagKind::choice, "WORD", "one full table (recordings)");
    for (const comparison::DiffBy choice : comparison::kDiffBy) by.choices.emplace_back(name_of(choice));
    Flag top = make_flag("top", FlagKind::integer, "N", "rows of each table");
    top.default_text = "5; --by 10; --json all";
    top.minimum = 1;
    top.maximum = 1e9;
    Flag min = make_flag("min", FlagKind::size, "SIZE",
                         "show only rows that changed by SIZE, at the peak or at the end (recordings)");
    min.default_text = "1B; --json and --csv 0B";
    min.minimum = 0;
    verb.flags = {
        make_flag("json", FlagKind::toggle, "", "print all figures as JSON"),
        make_flag("markdown", FlagKind::toggle, "", "print Markdown for a pull request comment"),
        make_flag("csv", FlagKind::toggle, "", "print a CSV row per layer, stack and module (recordings)"),
        fail_on_flag(),
        by,
        top,
        min,
        make_flag("fail-above", FlagKind::text, "SIZE|PERCENT",
                  "exit with 1 if B's peak exceeds A's by more (10MiB, 5%; recordings)"),
        make_flag("all", FlagKind::toggle, "", "also sum over all processes of each recording"),
        symbols_flag(),
        color_flag()};
    // Rows of the one-screen help are for what is asked for most.
    for (Flag& flag : verb.flags)
      if (flag.name == "min" || flag.name == "all" || flag.name == "csv") flag.common = false;
    return verb;
  }();
  return kVerb;
}

int run_diff_verb(const std::vector<std::string>& arguments) { return exit_code_of(run(arguments)); }

}  // namespace headroom::cli
