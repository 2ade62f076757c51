#include "report/history/history_sides.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/files.h"
#include "base/text.h"
#include "base/units.h"
#include "base/utf8.h"
#include "comparison/run_metrics.h"
#include "report/history/history_views.h"
#include "report/run/report_json.h"

namespace headroom::report {

namespace {

using history::KeptRun;
using history::RunHistory;

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

using history::KeptRun;

// What a history stores of a run besides its report, by model.
class KeptBeside {
 public:
  explicit KeptBeside(const KeptRun& run) {
    for (const std::string_view line : split(run.fingerprints, '\n'))
      if (const std::size_t space = line.find(' '); space != std::string_view::npos)
        by_model_[std::string(line.substr(space + 1))].fingerprint = line.substr(0, space);
    for (const history::KeptFigure& figure : run.figures) add(by_model_[figure.model], figure);
  }
  comparison::ComparedModel of(const ModelResult& result) const {
    const auto known = by_model_.find(result.name);
    comparison::ComparedModel compared =
        known == by_model_.end() ? comparison::ComparedModel() : known->second;
    compared.result = &result;
    return compared;
  }

 private:
  // Earlier versions also kept the errors of figures and how disturbed a run was.
  static void add(comparison::ComparedModel& model, const history::KeptFigure& figure) {
    if (figure.metric == "latency") model.latency = figure.value;
  }

  std::map<std::string, comparison::ComparedModel> by_model_;
};

// read_report()'s error with another fix: a run in the history cannot be repaired.
Error error_of_kept(const KeptRun& run, Error error) {
  if (error.fix != kFixOfNewerReport)
    error.fix = fmt::format("remove it with headroom history remove {}", run.id);
  return error;
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

std::string words_of_commit(const RunsOfCommit& of) {
  return of.commit.empty() ? fmt::format("{} without a commit", of.runs)
                           : fmt::format("{} of {}", of.runs, short_commit(of.commit));
}

}  // namespace

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
  return HistorySides{std::move(*before), std::move(after->side), words_of(*kept), after->words,
                      caveat_of(*kept)};
}

std::string host_of(const BenchResult& run) {
  return run.host.board.empty() ? run.host.hostname : run.host.board;
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

Result<LoadedSide> side_of(const std::vector<KeptRun>& runs, const std::set<std::string>& models) {
  LoadedSide loaded;
  for (const KeptRun& run : runs) {
    const std::string name = fmt::format(
        "run {}{}", run.id, run.commit.empty() ? "" : fmt::format(" ({})", first_columns(run.commit, 10)));
    auto result = read_report(run.report, fmt::format("{} of the history", name));
    if (!result) return tl::unexpected(error_of_kept(run, std::move(result.error())));
    loaded.results.push_back(std::make_unique<BenchResult>(std::move(*result)));
    const BenchResult& kept = *loaded.results.back();
    comparison::ComparedRun compared{name, &kept, {}};
    const KeptBeside beside(run);
    for (const ModelResult& model : kept.models) compared.models.push_back(beside.of(model));
    add_combined(loaded, compared);
    if (!models.empty())
      std::erase_if(compared.models, [&](const comparison::ComparedModel& model) {
        return !models.contains(model.result->name);
      });
    loaded.side.push_back(std::move(compared));
  }
  return loaded;
}

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
    words.push_back(words_of_commit(of));
    left -= of.runs;
  }
  return fmt::format("the last {} runs before: {}{}", runs.size(), fmt::join(words, ", "),
                     left > 0 ? fmt::format(" and {} more", left) : "");
}

std::string caveat_of(const std::vector<KeptRun>& runs) {
  const std::vector<RunsOfCommit> commits = runs_by_commit(runs);
  if (commits.size() < 2) return {};
  const std::string& named = commits[commits.front().commit.empty() ? 1 : 0].commit;
  return fmt::format(
      "the runs of A are from several commits, whose differences may hide or imitate a change; use --commit "
      "{} to compare with one commit",
      shell_word(named));
}

}  // namespace headroom::report
