#include "cli/history_verb.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>

#include "base/files.h"
#include "base/json.h"
#include "base/run_folder.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/common_flags.h"
#include "cli/diff_runs.h"
#include "cli/exit_code.h"
#include "cli/run_inputs.h"
#include "history/run_history.h"
#include "report/history_views.h"
#include "report/report_json.h"

namespace headroom::cli {
namespace {

using history::KeptRun;
using history::RunHistory;

constexpr const char* kDefaultFile = "headroom-history.sqlite";
constexpr std::int64_t kRunsBefore = 10;
constexpr const char* kDisturbance = "disturbance";  // kept beside the metrics, for allowances

std::string first_of_environment(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  return {};
}

std::string place_of(const FlagValues& values) {
  if (values.has("db")) return values.text("db");
  const std::string named = first_of_environment({"HEADROOM_HISTORY"});
  return named.empty() ? kDefaultFile : named;
}

// 64-bit FNV-1a, as file_fingerprint() has it.
std::string key_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{:016x}", hash);
}

KeptRun kept_run(const analysis::ComparedRun& run, const FlagValues& values) {
  KeptRun kept;
  BenchResult slim = *run.result;
  for (ModelResult& model : slim.models) model.memory_series.clear();  // of charts; most of its size
  kept.report = report::report_text(slim, false);
  kept.key = key_of(kept.report);
  kept.started_at = run.result->started_at;
  kept.added_at = timestamp_now();
  kept.commit =
      values.has("commit") ? values.text("commit") : first_of_environment({"GITHUB_SHA", "CI_COMMIT_SHA"});
  kept.label = values.text("label");
  kept.host = run.result->host.board.empty() ? run.result->host.hostname : run.result->host.board;
  for (const analysis::ComparedModel& model : run.models) {
    if (!model.fingerprint.empty())
      kept.fingerprints += fmt::format("{} {}\n", model.fingerprint, model.result->name);
    for (const analysis::RunMetric& metric : analysis::run_metrics())
      if (const auto value = metric.value(model.figures()))
        kept.figures.push_back({model.result->name, std::string(metric.name), *value});
    if (const auto disturbance = analysis::disturbance_of(model.figures()))
      kept.figures.push_back({model.result->name, kDisturbance, *disturbance});
  }
  return kept;
}

std::optional<double> figure_of(const KeptRun& run, const std::string& model, std::string_view metric) {
  for (const history::KeptFigure& figure : run.figures)
    if (figure.model == model && figure.metric == metric) return figure.value;
  return std::nullopt;
}

std::string fingerprint_of(const KeptRun& run, const std::string& model) {
  for (const std::string_view line : split(run.fingerprints, '\n'))
    if (const std::size_t space = line.find(' ');
        space != std::string_view::npos && line.substr(space + 1) == model)
      return std::string(line.substr(0, space));
  return {};
}

// Kept runs as a side of a comparison.
Result<LoadedSide> side_of(const std::vector<KeptRun>& runs) {
  LoadedSide loaded;
  for (const KeptRun& run : runs) {
    const std::string name = fmt::format(
        "run {}{}", run.id, run.commit.empty() ? "" : fmt::format(" ({})", run.commit.substr(0, 10)));
    auto result = report::read_report(run.report, fmt::format("{} of the history", name));
    if (!result) return forward_error(result);
    loaded.results.push_back(std::make_unique<BenchResult>(std::move(*result)));
    const BenchResult& kept = *loaded.results.back();
    analysis::ComparedRun compared{name, &kept, {}};
    for (const ModelResult& model : kept.models)
      compared.models.push_back({&model,
                                 {},
                                 fingerprint_of(run, model.name),
                                 figure_of(run, model.name, "latency"),
                                 figure_of(run, model.name, kDisturbance)});
    loaded.side.push_back(std::move(compared));
  }
  return loaded;
}

using Words = std::vector<std::string>;

Result<int> add_runs(const Words& runs, const FlagValues& values) {
  if (runs.empty())
    return usage_error("headroom history add takes runs", "none given", "headroom history add RUN");
  for (const std::string& run : runs) {
    auto kind = kind_of_input(run);
    if (!kind) return forward_error(kind);
    if (*kind != InputKind::run)
      return usage_error(fmt::format("{} cannot be kept", run), fmt::format("it is {}", words_for(*kind)),
                         "name run folders of headroom bench");
  }
  auto loaded = load_runs(runs);
  if (!loaded) return forward_error(loaded);
  std::vector<KeptRun> kept;
  for (const analysis::ComparedRun& run : loaded->side) kept.push_back(kept_run(run, values));
  auto history = RunHistory::open(place_of(values), true);
  if (!history) return forward_error(history);
  auto added = history->add(kept);
  if (!added) return forward_error(added);
  const std::string there =
      *added < kept.size() ? fmt::format(", {} there already", kept.size() - *added) : "";
  print_output(fmt::format("{} of {} runs added{}\n", *added, kept.size(), there));
  return 0;
}

Result<int> list_runs(const FlagValues& values) {
  auto history = RunHistory::open(place_of(values), false);
  if (!history) return forward_error(history);
  auto runs = history->list(values.integer("last"));
  if (!runs) return forward_error(runs);
  print_output(values.toggle("json") ? to_text(report::history_list_to_json(*runs))
                                     : report::history_list_to_terminal(*runs, wants_color(values),
                                                                        terminal_width(STDOUT_FILENO)));
  return 0;
}

Result<int> show_metric(const Words& names, const FlagValues& values) {
  if (names.size() != 1)
    return usage_error("headroom history show takes one metric", fmt::format("{} given", names.size()),
                       fmt::format("name one of {}", run_metric_list()));
  const analysis::RunMetric* metric = analysis::find_run_metric(names.front());
  if (metric == nullptr) {
    const std::string near = closest_match(names.front(), analysis::run_metric_names());
    return usage_error(fmt::format("there is no metric '{}'", names.front()), "",
                       near.empty() ? fmt::format("name one of {}", run_metric_list())
                                    : fmt::format("did you mean {}?", near));
  }
  auto history = RunHistory::open(place_of(values), false);
  if (!history) return forward_error(history);
  auto runs = history->figures(names.front(), values.text("model"));
  if (!runs) return forward_error(runs);
  if (runs->empty())
    return input_error(fmt::format("no run of the history has {}{}", names.front(),
                                   values.has("model") ? " of " + values.text("model") : ""),
                       "", "headroom history list shows the runs");
  const auto series = report::history_series(*runs);
  if (values.has("html"))
    if (auto written =
            write_file_atomically(values.text("html"), report::history_plot_to_html(*metric, series));
        !written)
      return forward_error(written);
  if (values.toggle("json"))
    print_output(to_text(report::history_plot_to_json(*metric, series)));
  else if (!values.has("html"))
    print_output(report::history_plot_to_terminal(*metric, series, wants_color(values),
                                                  terminal_width(STDOUT_FILENO)));
  return 0;
}

// B: the runs given, or else those of the newest commit. A: the last ones before that are not among them.
Result<int> compare_with_history(const Words& runs, const FlagValues& values, bool is_gate) {
  auto rules = gate_rules(values);
  if (!rules) return forward_error(rules);
  if (is_gate && rules->empty())
    return usage_error("headroom history gate takes rules", "--fail-on is not given",
                       "--fail-on 'run_peak>+5%,latency>+10%'");
  auto history = RunHistory::open(place_of(values), false);
  if (!history) return forward_error(history);
  auto kept = history->load(std::nullopt, values.text("commit"));
  if (!kept) return forward_error(kept);
  LoadedSide after;
  if (runs.empty()) {
    std::vector<KeptRun> newest;
    while (!kept->empty() && (newest.empty() || (!newest.back().commit.empty() &&
                                                 kept->back().commit == newest.back().commit))) {
      newest.push_back(std::move(kept->back()));
      kept->pop_back();
    }
    auto side = side_of(newest);
    if (!side) return forward_error(side);
    after = std::move(*side);
  } else {
    auto side = load_runs(runs);
    if (!side) return forward_error(side);
    after = std::move(*side);
    std::set<std::string> keys;
    for (const analysis::ComparedRun& run : after.side) keys.insert(kept_run(run, values).key);
    std::erase_if(*kept, [&](const KeptRun& run) { return keys.contains(run.key); });
  }
  const auto most = static_cast<std::size_t>(values.integer("last").value_or(kRunsBefore));
  if (kept->size() > most) kept->erase(kept->begin(), kept->end() - static_cast<std::ptrdiff_t>(most));
  if (kept->empty() || after.side.empty())
    return input_error("there is nothing to compare with", "the history has no run before these",
                       "headroom history add RUN");
  auto before = side_of(*kept);
  if (!before) return forward_error(before);
  return diff_runs(*before, after, values, *rules);
}

Result<int> run(const std::vector<std::string>& arguments) {
  auto values = parse_flags(history_verb(), arguments);
  if (!values) return forward_error(values);
  if (values->toggle("json") && values->toggle("markdown"))
    return usage_error("--json and --markdown are two views", "", "give one of them");
  if (values->positionals().empty())
    return usage_error("headroom history takes an action", "none given", "add, list, show, diff or gate");
  const std::string action = values->positionals().front();
  const Words rest(values->positionals().begin() + 1, values->positionals().end());
  if (action == "add") return add_runs(rest, *values);
  if (action == "list" && rest.empty()) return list_runs(*values);
  if (action == "show") return show_metric(rest, *values);
  if (action == "diff" || action == "gate") return compare_with_history(rest, *values, action == "gate");
  if (action == "list")
    return usage_error("headroom history list takes no runs", fmt::format("{} given", rest.front()),
                       "leave it out");
  return usage_error(fmt::format("headroom history has no action '{}'", action), "",
                     "add, list, show, diff or gate");
}

}  // namespace

const Verb& history_verb() {
  static const Verb kVerb = [] {
    Verb verb;
    verb.name = "history";
    verb.summary = "Keep runs; a metric over commits; a gate against earlier runs";
    verb.usage = "headroom history add|list|show|diff|gate [RUN…|METRIC] [FLAGS]";
    verb.description =
        "Keeps runs of headroom bench with their figures in a file of SQLite, or in PostgreSQL for a team. "
        "`add RUN…` keeps runs, each once; `list` shows them; `show METRIC` plots a metric over commits; "
        "`diff "
        "[RUN…]` compares runs, or those of the newest commit, with the last ones before, and `gate` does so "
        "and ends with 1 where a rule of --fail-on holds. Several may write at once. Metrics: " +
        run_metric_list() + ".";
    verb.examples = {"headroom history add outputs/2026-11-21_10-30-00 --commit 1a2b3c4d",
                     "headroom history show run_peak --html run_peak.html",
                     "headroom history gate runs/branch --last 20 --fail-on 'run_peak>+2%'"};
    verb.positional = "ACTION [RUN…|METRIC]";
    Flag db = make_flag("db", FlagKind::text, "FILE|URL", "where it lies; postgresql://… is a server");
    db.default_text = "$HEADROOM_HISTORY, else headroom-history.sqlite";
    Flag commit = make_flag("commit", FlagKind::text, "SHA", "of the runs added, or compared with");
    commit.default_text = "of add: $GITHUB_SHA, $CI_COMMIT_SHA";
    Flag last = make_flag("last", FlagKind::integer, "N", "the last N runs only");
    last.default_text = "10; list: all";
    last.minimum = 1;
    last.maximum = 100'000;
    Flag top = make_flag("top", FlagKind::integer, "N", "of diff: rows of each table of layers");
    top.minimum = 1;
    top.maximum = 1e9;
    top.default_text = "5";
    top.common = false;
    verb.flags = {
        db,
        commit,
        make_flag("label", FlagKind::text, "TEXT", "of the runs added: a branch, a board"),
        make_flag("model", FlagKind::text, "NAME", "of show: this model alone"),
        last,
        make_flag("html", FlagKind::text, "FILE", "of show: write a page with the plot"),
        fail_on_flag(),
        make_flag("json", FlagKind::toggle, "", "print it as JSON"),
        make_flag("markdown", FlagKind::toggle, "", "of diff: print it for a pull request's comment"),
        top,
        color_flag()};
    return verb;
  }();
  return kVerb;
}

int run_history_verb(const std::vector<std::string>& arguments) { return exit_code_of(run(arguments)); }

}  // namespace headroom::cli
