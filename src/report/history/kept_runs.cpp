#include "report/history/kept_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/display_width.h"
#include "base/files.h"
#include "base/text.h"
#include "base/timestamp.h"
#include "comparison/run_metrics.h"
#include "report/history/history_views.h"
#include "report/run/report_json.h"

namespace headroom::report {
namespace {

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
    auto known = std::find_if(commits.begin(), commits.end(), [&](const RunsOfCommit& of) {
      return of.commit == run->commit || history::is_same_commit(of.commit, run->commit);
    });
    if (known == commits.end()) known = commits.insert(known, RunsOfCommit{});
    if (run->commit.size() > known->commit.size()) known->commit = run->commit;
    ++known->runs;
  }
  return commits;
}

std::string words_for(const RunsOfCommit& of) {
  return of.commit.empty() ? fmt::format("{} without a commit", of.runs)
                           : fmt::format("{} of {}", of.runs, short_commit(of.commit));
}

}  // namespace

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
    words.push_back(words_for(of));
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
