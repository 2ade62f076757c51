#include "cli/diff_verb.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "analysis/recording_diff.h"
#include "base/text.h"
#include "cli/common_flags.h"
#include "cli/diff_logs.h"
#include "cli/diff_recordings.h"
#include "cli/diff_runs.h"
#include "cli/exit_code.h"
#include "cli/run_inputs.h"

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
    return usage_error("headroom diff takes two things to compare", fmt::format("{} given", given.size()),
                       "headroom diff before after, or with several runs a side: headroom diff A1 A2 A3 : B1 "
                       "B2 B3");
  }
  Sides sides{{given.begin(), colon}, {colon + 1, given.end()}};
  if (sides.before.empty() || sides.after.empty() ||
      std::find(sides.after.begin(), sides.after.end(), ":") != sides.after.end())
    return usage_error("headroom diff takes two sides", "one ':' stands between them",
                       "headroom diff A1 A2 A3 : B1 B2 B3");
  return sides;
}

// Of what all is; unlike kinds are refused.
Result<InputKind> common_kind(const Sides& sides) {
  std::string_view first_name;
  std::optional<InputKind> first;
  for (const std::vector<std::string>* side : {&sides.before, &sides.after})
    for (const std::string& name : *side) {
      auto kind = kind_of_input(name);
      if (!kind) return forward_error(kind);
      if (first && *first != *kind)
        return usage_error(fmt::format("{} and {} cannot be compared", first_name, name),
                           fmt::format("one is {} and the other {}", words_for(*first), words_for(*kind)),
                           "name two of one kind");
      first = *kind;
      if (first_name.empty()) first_name = name;
    }
  return *first;
}

// Flags of recordings would be passed over without a word.
Status check_flags(InputKind kind, const FlagValues& values) {
  const auto of_recordings = {"by", "min", "fail-above", "all", "symbols", "csv"};
  for (const char* flag : of_recordings)
    if (kind != InputKind::recording && values.has(flag))
      return usage_error(fmt::format("--{} is for recordings", flag), "these are none",
                         std::string_view(flag) != "fail-above" ? "leave it out"
                         : kind == InputKind::watch_log         ? "take --fail-on 'ram_used_bytes>+5%'"
                                                                : "take --fail-on 'run_peak>+5%'");
  if (values.toggle("json") + values.toggle("csv") + values.toggle("markdown") > 1)
    return usage_error("--json, --csv and --markdown are views of their own", "", "give one of them");
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
  if (*kind == InputKind::recording) {
    if (sides->before.size() != 1 || sides->after.size() != 1)
      return usage_error("headroom diff compares one recording with one other", "a side has several",
                         "headroom diff before.hrec after.hrec");
    return diff_recordings(sides->before.front(), sides->after.front(), *values);
  }
  if (*kind == InputKind::watch_log) {
    if (sides->before.size() != 1 || sides->after.size() != 1)
      return usage_error("headroom diff compares one log with one other", "a side has several",
                         "headroom diff before.jsonl after.jsonl");
    return diff_logs(sides->before.front(), sides->after.front(), *values);
  }
  auto rules = gate_rules(*values);
  if (!rules) return forward_error(rules);
  const auto load = *kind == InputKind::run ? load_runs : load_footprints;
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
    verb.summary = "Compare runs, footprints, watch logs or recordings: what changed";
    verb.usage = "headroom diff A B [FLAGS]   or   A… : B… [FLAGS]";
    verb.description =
        "Compares what it is given, A (before) with B (after): run folders of headroom bench, or folders of "
        "several runs; their footprints; two logs of headroom watch; or two recordings of headroom trace. "
        "The first line is the verdict. "
        "Runs are compared by memory, latency, FPS and detections of each model: a change counts where it is "
        "more than two runs of the same thing differ by; with three runs or more a side the runs themselves "
        "tell how much that is. Recordings are compared by layer, call stack and module; stacks are matched "
        "by the names of their functions and modules. Metrics of --fail-on: " +
        run_metric_list() + "; of logs and recordings the figures of --json.";
    verb.examples = {"headroom diff runs/main runs/branch --fail-on 'run_peak>+5%,p99>+10%'",
                     "headroom diff A1 A2 A3 : B1 B2 B3 --markdown > comment.md",
                     "headroom diff main.hrec branch.hrec --fail-above 5%"};
    verb.positional = "A B";
    Flag by = make_flag("by", FlagKind::choice, "WORD", "of recordings: one whole table");
    for (const analysis::DiffBy choice : analysis::kDiffBy) by.choices.emplace_back(name_of(choice));
    Flag top = make_flag("top", FlagKind::integer, "N", "rows of each table");
    top.default_text = "5; --by 10; --json all";
    top.minimum = 1;
    top.maximum = 1e9;
    Flag min = make_flag("min", FlagKind::size, "SIZE",
                         "of recordings: only rows that changed by SIZE, at the peak or at the end");
    min.default_text = "1B; of --json and --csv 0B";
    min.minimum = 0;
    verb.flags = {
        make_flag("json", FlagKind::toggle, "", "print all figures of the comparison"),
        make_flag("markdown", FlagKind::toggle, "", "print it for a pull request's comment"),
        make_flag("csv", FlagKind::toggle, "", "of recordings: a row a layer, stack and module"),
        fail_on_flag(),
        by,
        top,
        min,
        make_flag("fail-above", FlagKind::text, "SIZE|PERCENT",
                  "of recordings: exit 1 when B's peak is more than that above A's (10MiB, 5%)"),
        make_flag("all", FlagKind::toggle, "", "of recordings: also the sums over the trees of processes"),
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
