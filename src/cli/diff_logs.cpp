#include "cli/diff_logs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/fnv1a.h"
#include "base/terminal.h"
#include "cli/common_flags.h"
#include "cli/diff_runs.h"
#include "comparison/series_comparison.h"
#include "comparison/two_sample.h"
#include "monitoring/metric_walk.h"
#include "report/comparison/series_diff_views.h"
#include "report/words.h"
#include "watch/open_log.h"
#include "watch/text_input.h"

namespace headroom::cli {
namespace {

struct ReadLog {
  comparison::LogFigures figures;
  Fnv1a samples;                  // of all that the figures hold: two with one fingerprint are one log
  std::int64_t unread_lines = 0;  // that are no samples: garbage, or cut off in the middle
  watch::LogCondition condition;

  bool is_whole() const { return unread_lines == 0 && !condition.is_cut && !condition.is_damaged; }
};

void add_bits(Fnv1a& hash, const auto& value) {
  hash.add({reinterpret_cast<const char*>(&value), sizeof value});
}

void add_sample(Fnv1a& hash, const SystemSample& sample) {
  add_bits(hash, sample.time.count);
  add_bits(hash, sample.unix_time.value_or(Nanoseconds{}).count);
  monitoring::for_each_metric(sample, [&](std::string_view name, double value) {
    hash.add(name);
    add_bits(hash, value);
  });
}

// A line that is no sample is handed on as its own unknown words, without a figure.
bool is_unread(const SystemSample& sample) {
  bool has_figure = false;
  monitoring::for_each_metric(sample, [&](std::string_view, double) { has_figure = true; });
  return !has_figure && !sample.unknown_tokens.empty();
}

Result<ReadLog> read_log(const std::string& file) {
  ReadLog log;
  auto read = watch::read_text_input(
      {watch::kOwnLog, file}, Nanoseconds{1'000'000'000},
      [&](SystemSample& sample) {
        if (is_unread(sample)) {
          ++log.unread_lines;
          return;
        }
        log.figures.add(sample);
        add_sample(log.samples, sample);
      },
      [] { return false; }, -1, {}, &log.condition);
  if (!read) return forward_error(read);
  if (log.figures.curves().empty())
    return input_error(fmt::format("{} has no samples", file),
                       "it is not a log of headroom watch (FILE.jsonl)", watch::kFixOwnLog);
  return log;
}

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

void add_problems(const ReadLog& log, const std::string& name, std::vector<std::string>& problems) {
  const std::int64_t samples = log.figures.samples();
  // The last line of a log that is cut off is in pieces, and of a packed one the rest cannot be unpacked:
  // that is one thing.
  const std::int64_t lines_of_the_end = log.condition.is_cut ? 1 : 0;
  if (log.condition.is_cut)
    problems.push_back(fmt::format("{} is cut off after {}", name, counted(samples, "sample")));
  else if (log.condition.is_damaged)
    problems.push_back(
        fmt::format("{} is damaged: the data after {} cannot be unpacked", name, counted(samples, "sample")));
  if (log.unread_lines > lines_of_the_end)
    problems.push_back(fmt::format("{} is damaged: {} of its {} {} invalid", name, log.unread_lines,
                                   counted(samples + log.unread_lines, "line"),
                                   log.unread_lines == 1 ? "is" : "are"));
  if (samples < static_cast<std::int64_t>(comparison::kLeastOfSeries))
    problems.push_back(fmt::format("{} has only {}", name, counted(samples, "sample")));
}

std::int64_t samples_of(const comparison::LogFigures& log, const std::string& figure) {
  const auto curve = log.curves().find(figure);
  std::int64_t samples = 0;
  if (curve != log.curves().end())
    for (const monitoring::SeriesCurve::Point& point : curve->second.points()) samples += point.n;
  return samples;
}

// A figure of fewer samples has no interval, and would be judged as if it were exact.
bool has_enough(const ReadLog& a, const ReadLog& b, const std::string& figure) {
  return std::min(samples_of(a.figures, figure), samples_of(b.figures, figure)) >=
         static_cast<std::int64_t>(comparison::kLeastOfSeries);
}

// A file, and a copy or a packed one of it. What could be read of two that are damaged may be alike though
// they are not.
bool are_one_log(const std::string& before, const ReadLog& a, const std::string& after, const ReadLog& b) {
  std::error_code code;
  if (std::filesystem::equivalent(before, after, code)) return true;
  return a.is_whole() && b.is_whole() && a.samples.text() == b.samples.text();
}

// Of a log and itself: whatever it does, it has not changed.
void clear_changes(std::vector<comparison::SeriesChange>& changes) {
  for (comparison::SeriesChange& change : changes) {
    change.low = change.high = 0;
    change.differs = change.is_of_trend = false;
    change.doubt = comparison::SeriesDoubt::none;
  }
}

std::string figure_of(const std::string& gated) {
  return gated.starts_with("max:") ? gated.substr(4) : gated;
}

// Why a gate that found nothing cannot say that there is nothing. Of a mean that has a trend or moves slowly
// no change can be told; its value in B can.
std::string not_judged_words(const std::vector<comparison::FigureRule>& rules, const ReadLog& a,
                             const ReadLog& b, const report::SeriesDiffReport& report) {
  if (rules.empty()) return {};
  if (!report.problems.empty()) return fmt::format("{}", fmt::join(report.problems, "; "));
  for (const comparison::FigureRule& rule : rules) {
    if (rule.limit.against != comparison::GateAgainst::value)
      for (const comparison::SeriesChange& change : report.changes)
        if (change.name == rule.limit.name && change.doubt != comparison::SeriesDoubt::none)
          return report::doubt_words(change);
    if (const std::string figure = figure_of(rule.limit.name); !has_enough(a, b, figure))
      return fmt::format("{} has fewer than {} samples in one of the logs", figure,
                         comparison::kLeastOfSeries);
  }
  return {};
}

// Means have an interval; of the maxima each is one value.
std::vector<comparison::GatedFigure> gated_figures(const std::vector<comparison::SeriesChange>& changes) {
  std::vector<comparison::GatedFigure> figures;
  for (const comparison::SeriesChange& change : changes) {
    figures.push_back({change.name, change.mean_before, change.mean_after, change.low, change.high});
    const double moved = change.max_after - change.max_before;
    figures.push_back({"max:" + change.name, change.max_before, change.max_after, moved, moved});
  }
  return figures;
}

std::string figure_words(const std::string& name, double value) {
  return report::words_for_metric(figure_of(name), value);
}

comparison::GateJudgement judge(const std::vector<comparison::FigureRule>& rules, const ReadLog& a,
                                const ReadLog& b, const report::SeriesDiffReport& report) {
  comparison::GateJudgement judgement =
      comparison::check_figure_gate(rules, gated_figures(report.changes), figure_words);
  if (judgement.not_judged || (judgement.has_breach() && report.has_enough)) return judgement;
  if (std::string why = not_judged_words(rules, a, b, report); !why.empty())
    judgement.not_judged = Error{
        ErrorKind::input, "cannot check the gate", std::move(why),
        report.problems.empty() ? "log for longer, or check the maximum: --fail-on 'max:FIGURE>+5%'"
                                : "log again with headroom watch, and stop it with Ctrl-C or --duration"};
  return judgement;
}

void print_view(const report::SeriesDiffReport& report, const FlagValues& values) {
  if (values.toggle("json")) return print_output(to_text(series_diff_to_json(report)));
  if (values.toggle("markdown")) return print_output(series_diff_to_markdown(report));
  print_output(series_diff_to_terminal(report, wants_color(values), terminal_width(STDOUT_FILENO)));
}

}  // namespace

Result<int> diff_logs(const std::string& before, const std::string& after, const FlagValues& values) {
  auto a = read_log(before);
  if (!a) return forward_error(a);
  auto b = read_log(after);
  if (!b) return forward_error(b);
  auto changes = comparison::compare_series(a->figures, b->figures);
  auto rules = figure_rules(values, gated_figures(changes));
  if (!rules) return forward_error(rules);
  report::SeriesDiffReport report{before, after, a->figures, b->figures, changes, {}};
  report.is_one_log = are_one_log(before, *a, after, *b);
  if (report.is_one_log) {
    clear_changes(changes);
    report.not_judged = leave_out_changes(*rules);
  }
  add_problems(*a, fmt::format("A ({})", before), report.problems);
  add_problems(*b, fmt::format("B ({})", after), report.problems);
  report.has_enough =
      std::any_of(changes.begin(), changes.end(),
                  [&](const comparison::SeriesChange& change) { return has_enough(*a, *b, change.name); });
  const comparison::GateJudgement judgement = judge(*rules, *a, *b, report);
  report.gate = judgement.findings;
  if (judgement.not_judged) report.not_judged = judgement.not_judged->why;
  if (const auto top = values.integer("top")) report.top = static_cast<std::size_t>(*top);
  print_view(report, values);
  // What is beyond a limit for fewer samples is chance as well as a change.
  if (judgement.not_judged && !report.has_enough) return tl::unexpected(*judgement.not_judged);
  return exit_by(judgement);
}

}  // namespace headroom::cli
