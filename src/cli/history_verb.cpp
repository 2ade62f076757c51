#include "cli/verbs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "base/json.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/utf8.h"
#include "cli/common_flags.h"
#include "cli/diff_runs.h"
#include "history/run_history.h"
#include "report/history/history_views.h"
#include "report/input/input_kind.h"
#include "report/input/run_input.h"

namespace headroom::cli {
namespace {

using history::KeptRun;
using history::RunHistory;

constexpr const char* kDefaultFile = "headroom-history.sqlite";
constexpr std::int64_t kRunsBefore = 10, kMostRunsBefore = 1000;  // the maximum of headroom diff

std::string first_of_environment(std::initializer_list<const char*> names, std::string otherwise = {}) {
  for (const char* name : names)
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  return otherwise;
}

std::string place_of(const FlagValues& values) {
  std::string place = first_of_environment({"HEADROOM_HISTORY"}, kDefaultFile);
  values.read("db", place);
  return place;
}

std::string commit_of_environment() { return first_of_environment({"GITHUB_SHA", "CI_COMMIT_SHA"}); }

constexpr const char* kNone = report::kNoLabel;  // also for --commit

// The label or commit, if given; "none" is an empty one.
std::optional<std::string> word_of(const FlagValues& values, const char* flag) {
  std::optional<std::string> word;
  values.read(flag, word);
  if (word == kNone) word = "";
  return word;
}

using Words = std::vector<std::string>;

// Adding a run again does not change its commit or label. The warning names the command that does.
void warn_of_other_names(const KeptRun& kept, const FlagValues& values) {
  std::string command;
  for (const auto& [flag, known] : {std::pair{"commit", kept.commit}, {"label", kept.label}})
    if (word_of(values, flag).value_or(known) != known)
      command += fmt::format(" --{} {}", flag, shell_word(values.text(flag)));
  if (command.empty()) return;
  log::warning(
      "run {} already exists{}{} and was not changed; to change it, run headroom history relabel {}{}",
      kept.id, kept.commit.empty() ? " without a commit" : " under commit " + first_columns(kept.commit, 10),
      kept.label.empty() ? "" : fmt::format(", label {}", without_control_characters(kept.label)), kept.id,
      command);
}

Result<int> add_runs(const Words& runs, const FlagValues& values) {
  if (runs.empty())
    return usage_error("headroom history add needs runs", "no run given", "use headroom history add RUN");
  for (const std::string& run : runs) {
    auto kind = report::kind_of_input(run, report::kWhatIsKept);
    if (!kind) return forward_error(kind);
    if (*kind != report::InputKind::run)
      return usage_error(fmt::format("cannot add {}", run), fmt::format("it is {}", report::words_for(*kind)),
                         "name run folders of headroom bench");
  }
  auto loaded = report::load_runs(runs);
  if (!loaded) return forward_error(loaded);
  if (const std::string words = left_out_words(*loaded); !words.empty()) log::warning("skipped: {}", words);
  auto history = RunHistory::open(place_of(values), true);
  if (!history) return forward_error(history);
  auto known = report::kept_already(*history, loaded->side);
  if (!known) return forward_error(known);
  std::vector<KeptRun> kept;
  for (const comparison::ComparedRun& run : loaded->side) {
    if (const auto same = known->find(report::key_of(*run.result)); same != known->end()) {
      warn_of_other_names(same->second, values);
      continue;
    }
    KeptRun made = report::kept_run(run);
    made.commit = word_of(values, "commit").value_or(commit_of_environment());
    made.label = word_of(values, "label").value_or("");
    kept.push_back(std::move(made));
  }
  auto added = history->add(kept);
  if (!added) return forward_error(added);
  const std::size_t given = loaded->side.size();
  const std::string there = *added < given ? fmt::format(", {} already existed", given - *added) : "";
  print_output(fmt::format("{} of {} {} added{}\n", *added, given, given == 1 ? "run" : "runs", there));
  return 0;
}

// The numbers of `headroom history list`.
Result<std::vector<std::int64_t>> run_numbers(const Words& words, std::string_view action) {
  const std::string command = fmt::format("headroom history {}", action);
  if (words.empty())
    return usage_error(command + " needs run numbers", "no run given",
                       "headroom history list shows the run numbers");
  std::vector<std::int64_t> numbers;
  for (const std::string& word : words) {
    const auto number = parse_number<std::int64_t>(word);
    if (!number || *number < 1)
      return usage_error(fmt::format("invalid run number '{}'", word), "",
                         "headroom history list shows the run numbers");
    if (std::ranges::find(numbers, *number) == numbers.end()) numbers.push_back(*number);
  }
  return numbers;
}

// The history changed all runs, or none if one is missing.
Result<int> report_changed(const std::vector<std::int64_t>& numbers, const std::vector<std::int64_t>& absent,
                           std::string_view done) {
  if (!absent.empty())
    return input_error(fmt::format("no run {} in the history", fmt::join(absent, ", ")),
                       "nothing was changed", "headroom history list shows the run numbers");
  print_output(fmt::format("{} {} {}\n", numbers.size(), numbers.size() == 1 ? "run" : "runs", done));
  return 0;
}

Result<int> remove_runs(const Words& words, const FlagValues& values) {
  auto numbers = run_numbers(words, "remove");
  if (!numbers) return forward_error(numbers);
  auto history = RunHistory::open(place_of(values), false);
  if (!history) return forward_error(history);
  auto absent = history->remove(*numbers);
  if (!absent) return forward_error(absent);
  return report_changed(*numbers, *absent, "removed");
}

Result<int> relabel_runs(const Words& words, const FlagValues& values) {
  auto numbers = run_numbers(words, "relabel");
  if (!numbers) return forward_error(numbers);
  const auto commit = word_of(values, "commit"), label = word_of(values, "label");
  if (!commit && !label)
    return usage_error("headroom history relabel needs --commit or --label", "neither was given",
                       "add --commit SHA, --label TEXT or both");
  auto history = RunHistory::open(place_of(values), false);
  if (!history) return forward_error(history);
  auto absent = history->relabel(*numbers, commit, label);
  if (!absent) return forward_error(absent);
  return report_changed(*numbers, *absent, "changed");
}

Result<int> list_runs(const Words& arguments, const FlagValues& values) {
  if (!arguments.empty())
    return usage_error("headroom history list takes no arguments", fmt::format("{} given", arguments.front()),
                       "remove the argument");
  auto history = RunHistory::open(place_of(values), false);
  if (!history) return forward_error(history);
  auto runs = history->list(values.integer("last"));
  if (!runs) return forward_error(runs);
  return print_views(values, {.terminal = std::bind_front(report::history_list_to_terminal, std::cref(*runs)),
                              .json = [&] { return to_text(report::history_list_to_json(*runs)); }});
}

Result<int> show_metric(const Words& names, const FlagValues& values) {
  if (names.size() != 1)
    return usage_error("headroom history show needs one metric", fmt::format("{} given", names.size()),
                       fmt::format("name one of {}", run_metric_list()));
  const comparison::RunMetric* metric = comparison::find_run_metric(names.front());
  if (metric == nullptr)
    return usage_error(fmt::format("unknown metric '{}'", names.front()), "",
                       did_you_mean(names.front(), comparison::run_metric_names(),
                                    fmt::format("name one of {}", run_metric_list())));
  auto history = RunHistory::open(place_of(values), false);
  if (!history) return forward_error(history);
  const auto label = word_of(values, "label");
  std::optional<std::string> host;
  values.read("host", host);
  auto runs = history->figures(names.front(), values.text("model"), label, host);
  if (!runs) return forward_error(runs);
  if (runs->empty())
    return input_error(
        fmt::format("no run of the history{}{} has {}{}",
                    host ? " on " + without_control_characters(*host) : "",
                    label ? report::label_words(*label) : "", names.front(),
                    values.has("model") ? " of " + without_control_characters(values.text("model")) : ""),
        "", "headroom history list shows the runs");
  const auto series = report::history_series(*runs);
  return print_views(values, {.terminal = std::bind_front(report::history_plot_to_terminal,
                                                          std::cref(*metric), std::cref(series)),
                              .json = [&] { return to_text(report::history_plot_to_json(*metric, series)); },
                              .html = [&] { return report::history_plot_to_html(*metric, series); }});
}

// Compares the given or newest runs (B) with earlier ones (A).
Result<int> compare_with_history(const Words& runs, const FlagValues& values, bool is_gate) {
  auto rules = gate_rules(values);
  if (!rules) return forward_error(rules);
  if (is_gate && rules->empty())
    return usage_error("headroom history gate needs rules", "--fail-on is missing",
                       "add --fail-on 'run_peak>+5%,latency>+10%'");
  report::EarlierRuns earlier;
  earlier.last = values.integer("last").value_or(kRunsBefore);
  if (earlier.last > kMostRunsBefore)
    return usage_error("too many runs to compare with",
                       fmt::format("the maximum is {} per side", kMostRunsBefore),
                       fmt::format("use --last {} or fewer", kMostRunsBefore));
  earlier.label = word_of(values, "label");
  values.read("host", earlier.host);
  values.read("commit", earlier.commit);
  earlier.current_commit = commit_of_environment();
  auto history = RunHistory::open(place_of(values), false);
  if (!history) return forward_error(history);
  auto sides = report::sides_of_history(*history, runs, earlier);
  if (!sides) return forward_error(sides);
  return diff_runs(sides->before, sides->after, values, *rules, sides->words);
}

struct Action {
  std::string_view name;
  std::vector<std::string_view> flags;  // besides --db and --color
  Result<int> (*run)(const Words& arguments, const FlagValues& values);
};

const std::vector<Action>& history_actions() {
  static const std::vector<std::string_view> kOfComparison{"commit",  "label", "host",     "last",
                                                           "fail-on", "json",  "markdown", "top"};
  static const std::vector<Action> kActions{
      {"add", {"commit", "label"}, add_runs},
      {"relabel", {"commit", "label"}, relabel_runs},
      {"remove", {}, remove_runs},
      {"list", {"last", "json"}, list_runs},
      {"show", {"model", "label", "host", "html", "json"}, show_metric},
      {"diff", kOfComparison,
       [](const Words& runs, const FlagValues& values) { return compare_with_history(runs, values, false); }},
      {"gate", kOfComparison,
       [](const Words& runs, const FlagValues& values) { return compare_with_history(runs, values, true); }}};
  return kActions;
}

Result<int> run_history(const FlagValues& values) {
  if (auto fine = check_views(values, place_of(values)); !fine) return forward_error(fine);
  constexpr const char* kUse = "use add, relabel, remove, list, show, diff or gate";
  if (values.positionals().empty())
    return usage_error("headroom history needs an action", "no action given", kUse);
  const std::string& name = values.positionals().front();
  const auto action = std::ranges::find(history_actions(), name, &Action::name);
  if (action == history_actions().end())
    return usage_error(fmt::format("unknown action '{}' of headroom history", name), "", kUse);
  for (const Flag& flag : history_verb().flags) {
    if (flag.name == "db" || flag.name == "color" || !values.has(flag.name)) continue;
    if (std::ranges::find(action->flags, flag.name) == action->flags.end())
      return usage_error(fmt::format("--{} does not work with headroom history {}", flag.name, name), "",
                         action->flags.empty()
                             ? "this action takes only --db"
                             : fmt::format("this action takes --{}", fmt::join(action->flags, ", --")));
  }
  return action->run({values.positionals().begin() + 1, values.positionals().end()}, values);
}

}  // namespace

const Verb& history_verb() {
  static const Verb kVerb{
      .name = "history",
      .summary = "Store runs, plot a metric over commits, check new runs",
      .usage = "headroom history add|relabel|remove|list|show|diff|gate ARG… [FLAGS]",
      .description =
          "Stores runs of headroom bench in an SQLite file, or in PostgreSQL for a team. `add RUN…` stores "
          "runs, each once. `relabel` and `remove` take run numbers. `list` shows the runs. `show METRIC` "
          "plots a metric over commits. `diff [RUN…]` compares the given runs, or those of the newest "
          "commit, with the last runs before. `gate` does the same and exits with 1 if a rule of --fail-on "
          "holds. Several processes may write at once. Metrics: " +
          run_metric_list() + ".",
      .examples = {"headroom history add outputs/2026-11-21_10-30-00 --commit 1a2b3c4d",
                   "headroom history show run_peak --html run_peak.html",
                   "headroom history gate runs/branch --last 20 --fail-on 'run_peak>+2%'"},
      .flags = {text_flag("db", "FILE|URL", "history file, or postgresql://… for a server")
                    .with_default("$HEADROOM_HISTORY, else headroom-history.sqlite"),
                text_flag("commit", "SHA", "commit to set or to compare with; none: no commit")
                    .with_default("add: $GITHUB_SHA, $CI_COMMIT_SHA"),
                text_flag("label", "TEXT", "label of the runs (branch, board); none: no label"),
                text_flag("host", "NAME", "use only runs of this machine (show, diff)").rare(),
                text_flag("model", "NAME", "plot this model only (show)"),
                integer_flag("last", "use only the last N runs", 1, 100'000).with_default("10; list: all"),
                text_flag("html", "FILE", "write an HTML page with the plot (show)"), fail_on_flag(),
                toggle_flag("json", "print JSON"),
                toggle_flag("markdown", "print Markdown for a pull request (diff)"),
                integer_flag("top", "rows of each layer table (diff)", 1, 1e9).with_default("5").rare(),
                color_flag()},
      .positional = "ACTION [RUN…|METRIC]",
      .run = run_with_flags<history_verb, run_history>,
  };
  return kVerb;
}

}  // namespace headroom::cli
