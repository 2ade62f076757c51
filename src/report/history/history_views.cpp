#include "report/history/history_views.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/files.h"
#include "base/text.h"
#include "base/units.h"
#include "base/utf8.h"
#include "comparison/gate.h"
#include "comparison/run_metrics.h"
#include "report/page.h"
#include "report/run/report_json.h"
#include "report/text_layout.h"
#include "report/words.h"
#include "types/enum_names.h"

namespace headroom::report {
namespace {

using namespace comparison;
using history::KeptRun;

struct Extent {
  double low = 0, high = 0;
};

// From the lowest to the highest value, and at least a tenth of the highest, so that runs that hardly differ
// do not look like growth. The page does the same (web/src/charts/time_chart.tsx).
Extent extent_of(const HistorySeries& series) {
  Extent extent{series.points.front().values.front(), series.points.front().values.back()};
  for (const HistoryPoint& point : series.points) {
    extent.low = std::min(extent.low, point.values.front());
    extent.high = std::max(extent.high, point.values.back());
  }
  const double missing = std::max(0.0, extent.high / 10 - (extent.high - extent.low));
  return {extent.low - missing / 2, extent.high + missing / 2};
}

// The place of a point's runs in the extent: "   ──●─   ".
std::string mark_of(const HistoryPoint& point, const Extent& extent, int width) {
  const auto column = [&](double value) {
    const double share = extent.high > extent.low ? (value - extent.low) / (extent.high - extent.low) : 0.5;
    return static_cast<int>(std::lround(share * (width - 1)));
  };
  const int low = column(point.values.front()), high = column(point.values.back());
  const int middle = column(point.median());
  std::string text;
  for (int i = 0; i <= high; ++i) text += i == middle ? "●" : i < low ? " " : "─";
  return text;
}

// The sides of a comparison.

using history::RunHistory;

// The machine that made a run.
std::string host_of(const BenchResult& run) {
  return run.host.board.empty() ? run.host.hostname : run.host.board;
}

// What a history stores of a run besides its report, by model. Earlier versions also kept the errors of
// figures and how disturbed a run was.
std::map<std::string, comparison::ComparedModel> kept_beside(const KeptRun& run) {
  std::map<std::string, comparison::ComparedModel> by_model;
  for (const std::string_view line : split(run.fingerprints, '\n'))
    if (const std::size_t space = line.find(' '); space != std::string_view::npos)
      by_model[std::string(line.substr(space + 1))].fingerprint = line.substr(0, space);
  for (const history::KeptFigure& figure : run.figures)
    if (figure.metric == "latency") by_model[figure.model].latency = figure.value;
  return by_model;
}

// read_report()'s error with another fix: a run in the history cannot be repaired.
Error error_of_kept(const KeptRun& run, Error error) {
  if (error.fix != kFixOfNewerReport)
    error.fix = fmt::format("remove it with headroom history remove {}", run.id);
  return error;
}

// Kept runs as a side of a comparison; only these `models`, if any are given.
Result<LoadedSide> side_of(const std::vector<KeptRun>& runs, const std::set<std::string>& models = {}) {
  LoadedSide loaded;
  for (const KeptRun& run : runs) {
    const std::string name = fmt::format(
        "run {}{}", run.id, run.commit.empty() ? "" : fmt::format(" ({})", first_columns(run.commit, 10)));
    auto result = read_report(run.report, fmt::format("{} of the history", name));
    if (!result) return tl::unexpected(error_of_kept(run, std::move(result.error())));
    loaded.results.push_back(std::make_unique<BenchResult>(std::move(*result)));
    const BenchResult& kept = *loaded.results.back();
    comparison::ComparedRun compared{name, &kept, {}};
    auto beside = kept_beside(run);
    for (const ModelResult& model : kept.models) {
      compared.models.push_back(beside[model.name]);
      compared.models.back().result = &model;
    }
    add_combined(loaded, compared);
    if (!models.empty())
      std::erase_if(compared.models, [&](const comparison::ComparedModel& model) {
        return !models.contains(model.result->name);
      });
    loaded.side.push_back(std::move(compared));
  }
  return loaded;
}

struct RunsOfCommit {
  std::string commit;  // the longest of its forms; empty: the runs without one
  std::size_t runs = 0;
};

// The newest commit first.
std::vector<RunsOfCommit> runs_by_commit(const std::vector<KeptRun>& runs) {
  std::vector<RunsOfCommit> commits;
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    auto known = std::ranges::find_if(commits, [&](const RunsOfCommit& of) {
      return of.commit == run->commit || history::is_same_commit(of.commit, run->commit);
    });
    if (known == commits.end()) known = commits.insert(known, RunsOfCommit{});
    if (run->commit.size() > known->commit.size()) known->commit = run->commit;
    ++known->runs;
  }
  return commits;
}

// The first characters, or a dash.
std::string short_commit(const std::string& commit) {
  constexpr int kShown = 10;
  return commit.empty() ? std::string(kAbsent) : first_columns(commit, kShown);
}

// Describes a side of kept runs, the newest commit first: "the last 10 runs before: 6 of 3333333, 4 of
// 1111111", or "6 runs of 3333333". Empty for one run, and for runs without commits: their names are enough.
std::string words_of(const std::vector<KeptRun>& runs) {
  constexpr std::size_t kShown = 3;
  const std::vector<RunsOfCommit> commits = runs_by_commit(runs);
  if (runs.size() < 2 || (commits.size() == 1 && commits.front().commit.empty())) return {};
  if (commits.size() == 1)
    return fmt::format("{} runs of {}", runs.size(), short_commit(commits.front().commit));
  std::vector<std::string> words;
  std::size_t left = runs.size();
  for (const RunsOfCommit& of : commits) {
    if (words.size() == kShown) break;
    words.push_back(of.commit.empty() ? fmt::format("{} without a commit", of.runs)
                                      : fmt::format("{} of {}", of.runs, short_commit(of.commit)));
    left -= of.runs;
  }
  return fmt::format("the last {} runs before: {}{}", runs.size(), fmt::join(words, ", "),
                     left > 0 ? fmt::format(" and {} more", left) : "");
}

// Side B, and the choice of the runs for side A.
struct NewRuns {
  LoadedSide side;
  history::RunChoice before;
  std::string words = {};  // what the views call B; empty: by its runs
};

Result<NewRuns> given_runs(RunHistory& history, const std::vector<std::string>& runs,
                           const std::string& current_commit) {
  auto side = load_runs(runs);
  if (!side) return forward_error(side);
  auto known = kept_already(history, side->side);
  if (!known) return forward_error(known);
  NewRuns given{std::move(*side), {}};
  for (const comparison::ComparedRun& run : given.side.side) {
    const std::string key = key_of(*run.result);
    const auto same = known->find(key);
    given.before.except_keys.insert(key);
    if (same != known->end()) given.before.except_keys.insert(same->second.key);
    // Side A has no runs after B. The last run of B counts, because both sides may have been measured in
    // turns.
    if (parse_timestamp(given.before.until) < parse_timestamp(run.result->started_at))
      given.before.until = run.result->started_at;
  }
  given.before.host = host_of(*given.side.side.front().result);
  given.before.except_commit = current_commit;
  return given;
}

// All runs of the newest commit, on the machine of the newest run. A run without a commit is alone. With
// `host`, the newest run of that machine counts.
Result<NewRuns> newest_runs(RunHistory& history, const std::optional<std::string>& host) {
  history::RunChoice choice;
  choice.last = 1;
  choice.host = host;
  auto kept = history.load(choice);
  if (!kept) return forward_error(kept);
  if (kept->empty())
    return input_error("no runs to compare",
                       host ? fmt::format("the history has no run from {}", *host) : "the history has no run",
                       "use headroom history add RUN");
  const KeptRun newest = kept->front();
  if (!newest.commit.empty()) {
    // The short and the full SHA are one commit. A short SHA of several commits stands for itself only.
    const auto forms = history.forms_of_commit(newest.commit);
    choice = {};
    choice.commits = forms ? *forms : std::vector{newest.commit};
    choice.label = newest.label;
    choice.host = newest.host;
    kept = history.load(choice);
    if (!kept) return forward_error(kept);
  }
  auto side = side_of(*kept);
  if (!side) return forward_error(side);
  NewRuns found{std::move(*side), {}, words_of(*kept)};
  found.before.host = newest.host;
  found.before.label = newest.label;
  found.before.except_commit = newest.commit;
  // Runs may be added late, and in another order than they were made.
  found.before.until = newest.started_at;
  for (const KeptRun& run : *kept) found.before.except_keys.insert(run.key);
  return found;
}

// Adds the user's choice to the one that side B makes.
Status choose_before(RunHistory& history, const EarlierRuns& earlier, bool are_given,
                     history::RunChoice& choice) {
  choice.last = earlier.last;
  if (earlier.label) choice.label = earlier.label;
  if (earlier.host) choice.host = earlier.host;
  if (!earlier.commit) return {};
  auto forms = history.forms_of_commit(*earlier.commit);
  if (!forms) return forward_error(forms);
  choice.commits = forms->empty() ? std::vector{*earlier.commit} : std::move(*forms);
  if (!are_given && history::is_same_commit(choice.commits.front(), choice.except_commit))
    return usage_error(fmt::format("cannot compare {} with itself", *earlier.commit),
                       "it is the newest commit", "use an earlier commit, or remove --commit");
  if (are_given) choice.except_commit.clear();
  choice.until.clear();  // a named commit may be a later one
  return {};
}

// A mean over two branches or boards describes neither, so all runs must have one label.
Status check_labels(const std::vector<KeptRun>& runs, const history::RunChoice& choice) {
  std::set<std::string> labels;
  for (const KeptRun& run : runs) labels.insert(run.label);
  if (labels.size() < 2) return {};
  std::vector<std::string> words;
  for (const std::string& label : labels)
    words.push_back(label.empty() ? kNoLabel : without_control_characters(label));
  return usage_error("the runs to compare with are ambiguous",
                     fmt::format("the runs from {} have the labels {}", choice.host.value_or("all machines"),
                                 fmt::join(words, ", ")),
                     fmt::format("choose a label: --label {}", shell_word(*labels.rbegin())));
}

Result<std::vector<KeptRun>> runs_before(RunHistory& history, const EarlierRuns& earlier,
                                         const history::RunChoice& choice) {
  auto kept = history.load(choice);
  if (!kept) return kept;
  if (kept->empty())
    return input_error("no earlier runs to compare with",
                       fmt::format("the history has no other run of these models on {}{}{}{}",
                                   choice.host.value_or("a machine"),
                                   choice.until.empty() ? "" : fmt::format(" made before {}", choice.until),
                                   choice.label ? label_words(*choice.label) : "",
                                   choice.commits.empty() ? "" : " of commit " + earlier.commit.value_or("")),
                       "headroom history list shows all runs; choose with --host, --label or --commit");
  if (auto clear = check_labels(*kept, choice); !clear) return forward_error(clear);
  return kept;
}

// Of a side with several commits; otherwise empty.
std::string caveat_of(const std::vector<KeptRun>& runs) {
  const std::vector<RunsOfCommit> commits = runs_by_commit(runs);
  if (commits.size() < 2) return {};
  const std::string& named = commits[commits.front().commit.empty() ? 1 : 0].commit;
  return fmt::format(
      "the runs of A are from several commits, whose differences may hide or imitate a change; use --commit "
      "{} to compare with one commit",
      shell_word(named));
}

}  // namespace

double HistoryPoint::median() const {
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

std::vector<HistorySeries> history_series(const std::vector<KeptRun>& runs) {
  std::vector<HistorySeries> all;
  std::map<std::string, std::size_t> by_name;
  const bool one_host =
      std::ranges::all_of(runs, [&](const KeptRun& run) { return run.host == runs.front().host; });
  const bool one_label =
      std::ranges::all_of(runs, [&](const KeptRun& run) { return run.label == runs.front().label; });
  for (const KeptRun& run : runs)
    for (const history::KeptFigure& figure : run.figures) {
      // What two boards take is no one figure, and neither is what two branches do.
      std::string name = figure.model;
      if (!one_host) name += fmt::format(" on {}", run.host);
      if (!one_label) name += run.label.empty() ? ", no label" : fmt::format(", label {}", run.label);
      const auto [known, is_new] = by_name.emplace(name, all.size());
      if (is_new) all.push_back({name, {}});
      std::vector<HistoryPoint>& points = all[known->second].points;
      // The runs of a commit are most often neighbours. Without a commit each run is a point of its own.
      const auto same = std::find_if(points.rbegin(), points.rend(), [&](const HistoryPoint& point) {
        return history::is_same_commit(point.commit, run.commit);
      });
      const bool is_first = same == points.rend();  // push_back() invalidates it
      if (is_first) points.push_back({run.commit, run.label, run.started_at, {}});
      HistoryPoint& point = is_first ? points.back() : *same;
      if (run.commit.size() > point.commit.size()) point.commit = run.commit;  // the whole SHA
      point.values.insert(std::ranges::upper_bound(point.values, figure.value), figure.value);
    }
  return all;
}

std::string history_list_to_terminal(const std::vector<KeptRun>& runs, bool color, int width) {
  std::vector<Column> columns{
      {"STARTED", 0, false}, {"RUN", 0, true}, {"COMMIT", 0, false}, {"LABEL", 2, false}, {"HOST", 1, false}};
  for (const KeptRun& run : runs)
    add_row(columns, {without_control_characters(without_fraction(run.started_at)), fmt::format("{}", run.id),
                      short_commit(run.commit), without_control_characters(run.label),
                      without_control_characters(run.host)});
  fit_columns(columns, width, 25);
  return table_of(columns, color);
}

Json history_list_to_json(const std::vector<KeptRun>& runs) {
  const auto row_of = [](const KeptRun& run) {
    Json row = {{"run", run.id}, {"started_at", run.started_at}, {"added_at", run.added_at}};
    set_if(row, "commit", run.commit);
    set_if(row, "label", run.label);
    row["host"] = run.host;
    return row;
  };
  return {{"schema_version", kHistorySchemaVersion}, {"runs", json_list(runs, row_of)}};
}

std::string history_plot_to_terminal(const comparison::RunMetric& metric,
                                     const std::vector<HistorySeries>& all, bool color, int width) {
  std::string text = fmt::format("{}: {}\n", metric.name, metric.help);
  for (const HistorySeries& series : all) {
    const Extent extent = extent_of(series);
    std::vector<Column> columns{
        {"COMMIT", 0, false},
        {"STARTED", 1, false},
        {"RUNS", 2, true},
        {"MEDIAN", 0, true},
        {"CHANGE", 0, true},
        {fmt::format("{} to {}", words_for(metric, extent.low), words_for(metric, extent.high)), 0, false}};
    std::optional<double> before;
    for (const HistoryPoint& point : series.points) {
      add_row(columns, {short_commit(point.commit), first_columns(point.started_at, 16),
                        fmt::format("{}", point.values.size()), words_for(metric, point.median()),
                        before && *before != 0 ? percent_words(point.median() / *before) : "",
                        mark_of(point, extent, std::clamp(width - 66, 10, 40))});
      before = point.median();
    }
    text += "\n" + painted(without_control_characters(series.model), kBold, color) + "\n";
    fit_columns(columns, width, 10);
    text += table_of(columns, color);
  }
  return text;
}

std::string history_plot_to_html(const comparison::RunMetric& metric, const std::vector<HistorySeries>& all) {
  Json json = history_plot_to_json(metric, all);
  json["help"] = metric.help;
  return page_with_data(Page::history, {{"history", to_line(json)}});
}

Json history_plot_to_json(const comparison::RunMetric& metric, const std::vector<HistorySeries>& all) {
  const auto point_of = [](const HistoryPoint& point) {
    Json row;
    set_if(row, "commit", point.commit);
    set_if(row, "label", point.label);
    row["started_at"] = point.started_at;
    row["median"] = point.median();
    row["values"] = point.values;
    return row;
  };
  return {{"schema_version", kHistorySchemaVersion},
          {"metric", metric.name},
          {"unit", name_in({"bytes", "ns", "per_second", "count"}, metric.unit)},
          {"models", json_list(all, [&](const HistorySeries& series) -> Json {
             return {{"name", series.model}, {"points", json_list(series.points, point_of)}};
           })}};
}

std::string label_words(const std::string& label) {
  return label.empty() ? " without a label"
                       : fmt::format(" with the label '{}'", without_control_characters(label));
}

Result<std::map<std::string, KeptRun>> kept_already(RunHistory& history, const comparison::Side& runs) {
  history::RunChoice choice;
  for (const comparison::ComparedRun& run : runs) choice.started_at.insert(run.result->started_at);
  auto candidates = history.load(choice);
  if (!candidates) return forward_error(candidates);
  std::map<std::string, KeptRun> kept;
  for (KeptRun& run : *candidates)
    if (const auto report = read_report(run.report)) kept.emplace(key_of(*report), std::move(run));
  return kept;
}

Result<HistorySides> sides_of_history(RunHistory& history, const std::vector<std::string>& runs,
                                      const EarlierRuns& earlier) {
  auto after =
      runs.empty() ? newest_runs(history, earlier.host) : given_runs(history, runs, earlier.current_commit);
  if (!after) return forward_error(after);
  history::RunChoice& choice = after->before;
  for (const comparison::ComparedRun& run : after->side.side)
    for (const comparison::ComparedModel& model : run.models) choice.models.insert(model.result->name);
  if (auto chosen = choose_before(history, earlier, !runs.empty(), choice); !chosen)
    return forward_error(chosen);
  auto kept = runs_before(history, earlier, choice);
  if (!kept) return forward_error(kept);
  auto before = side_of(*kept, choice.models);
  if (!before) return forward_error(before);
  return HistorySides{
      std::move(*before), std::move(after->side), {words_of(*kept), after->words, caveat_of(*kept)}};
}

KeptRun kept_run(const comparison::ComparedRun& run) {
  KeptRun kept;
  BenchResult slim = *run.result;
  for (ModelResult& model : slim.models) model.memory_series.clear();  // for charts only; most of the size
  kept.report = report_text(slim, false);
  kept.key = key_of(*run.result);
  kept.started_at = run.result->started_at;
  kept.added_at = timestamp_now();
  kept.host = host_of(*run.result);
  for (const comparison::ComparedModel& model : run.models) {
    if (!model.fingerprint.empty())
      kept.fingerprints += fmt::format("{} {}\n", model.fingerprint, model.result->name);
    // The figures of a failed model cover a part of its work, so they are not plotted.
    if (model.result->status != ModelStatus::ok) continue;
    for (const comparison::RunMetric& metric : comparison::run_metrics())
      if (const auto value = metric.value(model.figures()))
        kept.figures.push_back({model.result->name, std::string(metric.name), *value});
  }
  return kept;
}

}  // namespace headroom::report
