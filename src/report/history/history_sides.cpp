#include "report/history/history_sides.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <utility>

#include "base/display_width.h"
#include "base/text.h"
#include "base/timestamp.h"
#include "report/history/kept_runs.h"
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

}  // namespace headroom::report
