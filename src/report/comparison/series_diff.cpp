#include "report/comparison/series_diff.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"
#include "base/utf8.h"
#include "comparison/two_sample.h"
#include "report/comparison/diff_words.h"
#include "report/comparison/run_diff.h"
#include "report/text_layout.h"
#include "report/words.h"

namespace headroom::report {
namespace {

using namespace comparison;

std::string share_words(const SeriesChange& change) {
  return change.mean_before == 0
             ? ""
             : fmt::format("{:+.1f} %", 100 * change.change() / std::abs(change.mean_before));
}

std::string moved_words(const SeriesChange& change, double rise) {
  return fmt::format("{} by {}", rise < 0 ? "falls" : "rises", words_for_metric(change.name, std::abs(rise)));
}

std::string series_change_words(const SeriesChange& change) {
  std::string means = fmt::format("{} {} to {}", title_of_metric(change.name),
                                  words_for_metric(change.name, change.mean_before),
                                  words_for_metric(change.name, change.mean_after));
  if (!change.is_of_trend) return means;
  return fmt::format("{} (a trend: it {} within B, and {} within A)", means,
                     moved_words(change, change.rise_after), moved_words(change, change.rise_before));
}

// Why a figure is undecided.
std::string doubt_words(const SeriesChange& change) {
  const std::string title = title_of_metric(change.name);
  switch (change.doubt) {
    case SeriesDoubt::few_samples:
      return fmt::format("{} has fewer than {} samples in a log", title, kLeastOfSeries);
    case SeriesDoubt::trend:
      return fmt::format("{} has a trend (it {} within A, and {} within B)", title,
                         moved_words(change, change.rise_before), moved_words(change, change.rise_after));
    case SeriesDoubt::slow:
    case SeriesDoubt::none:
      break;
  }
  return fmt::format("{} moved in one step or drifts (mean {} to {}), so longer logs are needed", title,
                     words_for_metric(change.name, change.mean_before),
                     words_for_metric(change.name, change.mean_after));
}

struct Told {
  std::size_t differ = 0, doubtful = 0;
  std::vector<std::string> changes, doubts;  // the first three of each
};

Told told_by(const SeriesDiffReport& report) {
  constexpr std::size_t kShown = 3;
  Told told;
  for (const SeriesChange& change : report.changes) {
    if (change.differs && ++told.differ <= kShown) told.changes.push_back(series_change_words(change));
    if (change.doubt != SeriesDoubt::none && ++told.doubtful <= kShown)
      told.doubts.push_back(doubt_words(change));
  }
  return told;
}

std::string listed(const std::vector<std::string>& words, std::size_t all) {
  return fmt::format("{}{}", fmt::join(words, "; "),
                     all > words.size() ? fmt::format("; and {} more", all - words.size()) : "");
}

std::string comparison_words(const SeriesDiffReport& report) {
  const Told told = told_by(report);
  if (report.changes.empty()) return "A and B have no figure in common.";
  if (!report.has_enough)
    return fmt::format("Too few samples to detect a change: each log needs at least {}.", kLeastOfSeries);
  std::string doubts =
      told.doubtful == 0 ? "" : fmt::format("Undecided: {}.", listed(told.doubts, told.doubtful));
  if (told.differ > 0)
    return fmt::format("{} of {} figures differ in their mean: {}.{}{}", told.differ, report.changes.size(),
                       listed(told.changes, told.differ), doubts.empty() ? "" : " ", doubts);
  if (told.doubtful == report.changes.size()) return doubts;
  if (told.doubtful > 0)
    return fmt::format("{} None of the other {} figures differs by more than its own variation.", doubts,
                       report.changes.size() - told.doubtful);
  return fmt::format("No change: none of {} figures differs by more than its own variation.",
                     report.changes.size());
}

std::string_view outcome_of(const SeriesDiffReport& report) {
  const Told told = told_by(report);
  if (report.is_one_log) return "same";
  if (told.differ > 0) return "differs";
  const bool is_known = report.has_enough && !report.changes.empty() && told.doubtful == 0;
  return is_known && report.problems.empty() ? "same" : "unknown";
}

// Problems of the logs come first.
std::string verdict_of(const SeriesDiffReport& report) {
  std::string problems;
  for (const std::string& problem : report.problems) problems += problem + ". ";
  if (report.is_one_log)
    return std::string(
        trim("A and B are the same log: name one from before the change and one from after it. " + problems));
  return problems + comparison_words(report);
}

std::string log_words(const std::string& file, const LogFigures& log) {
  return fmt::format("{} ({}, {})", without_control_characters(file), counted(log.samples(), "sample"),
                     format_duration(log.duration()));
}

std::vector<std::string> row_of(const SeriesChange& change) {
  return {title_of_metric(change.name),
          words_for_metric(change.name, change.mean_before),
          words_for_metric(change.name, change.mean_after),
          share_words(change),
          words_for_metric(change.name, change.max_before),
          words_for_metric(change.name, change.max_after),
          change.is_of_trend                  ? "trend differs"
          : change.differs                    ? "differs"
          : change.doubt != SeriesDoubt::none ? "undecided"
                                              : ""};
}

const std::vector<std::string> kTitles{"FIGURE", "MEAN A", "MEAN B", "CHANGE", "MAX A", "MAX B", ""};

std::string figure_of(const std::string& gated) {
  return gated.starts_with("max:") ? gated.substr(4) : gated;
}

// Why a gate that found nothing cannot pass. An undecided mean has no known change, but B's value is known.
std::string not_judged_words(const std::vector<FigureRule>& rules, const SeriesDiffReport& report) {
  if (rules.empty()) return {};
  if (!report.problems.empty()) return fmt::format("{}", fmt::join(report.problems, "; "));
  for (const FigureRule& rule : rules) {
    if (rule.limit.against != GateAgainst::value)
      for (const SeriesChange& change : report.changes)
        if (change.name == rule.limit.name && change.doubt != SeriesDoubt::none) return doubt_words(change);
    if (const std::string figure = figure_of(rule.limit.name); !has_enough(report.a, report.b, figure))
      return fmt::format("{} has fewer than {} samples in one of the logs", figure, kLeastOfSeries);
  }
  return {};
}

// For a log compared with itself.
void clear_changes(std::vector<SeriesChange>& changes) {
  for (SeriesChange& change : changes) {
    change.low = change.high = 0;
    change.differs = change.is_of_trend = false;
    change.doubt = SeriesDoubt::none;
  }
}

}  // namespace

SeriesDiffReport diff_logs(const std::string& before, const WatchedLog& a, const std::string& after,
                           const WatchedLog& b, bool is_one_file) {
  SeriesDiffReport report{before, after, a, b, compare_series(a.figures, b.figures)};
  // Damaged logs never count as the same.
  report.is_one_log = is_one_file || (a.is_whole() && b.is_whole() && a.samples.text() == b.samples.text());
  if (report.is_one_log) clear_changes(report.changes);
  report.problems = problems_of(a, fmt::format("A ({})", before));
  for (std::string& problem : problems_of(b, fmt::format("B ({})", after)))
    report.problems.push_back(std::move(problem));
  report.has_enough = std::ranges::any_of(
      report.changes, [&](const SeriesChange& change) { return has_enough(a, b, change.name); });
  return report;
}

std::string series_diff_to_terminal(const SeriesDiffReport& report, bool color, int width) {
  std::string text =
      painted(wrap(verdict_of(report), width, 0),
              report.problems.empty() && outcome_of(report) != "unknown" ? kBold : kYellow, color) +
      "\n\n";
  text += fmt::format("A  {}\nB  {}\n\n", log_words(report.before, report.a.figures),
                      log_words(report.after, report.b.figures));
  std::vector<Column> columns;
  for (std::size_t i = 0; i < kTitles.size(); ++i)
    columns.push_back({kTitles[i], i == 4 || i == 5 ? 1 : 0, i > 0 && i < 6});
  for (const SeriesChange& change : first_of(report.changes, report.top)) add_row(columns, row_of(change));
  if (report.changes.empty()) return text;
  const std::vector<std::string> left_out = fit_columns(columns, width, 20);
  text += table_of(columns, color);
  if (!left_out.empty()) text += wrap(wider_terminal_words(left_out), width, 0) + "\n";
  if (report.changes.size() > report.top)
    text += fmt::format("{} more: --top {}, or --json\n", report.changes.size() - report.top,
                        report.changes.size());
  return text;
}

std::string series_diff_to_markdown(const SeriesDiffReport& report) {
  std::string text = fmt::format("**{}**\n\n", escaped(verdict_of(report)));
  add_gate(text, report.gate, report.not_judged);
  MarkdownTable table(1, {"figure", "mean A", "mean B", "change", "max A", "max B", ""});
  for (const SeriesChange& change : first_of(report.changes, report.top)) table.add(escaped(row_of(change)));
  return text + table.text() +
         fmt::format("A: {}  \nB: {}\n", code(log_words(report.before, report.a.figures)),
                     code(log_words(report.after, report.b.figures)));
}

Json series_diff_to_json(const SeriesDiffReport& report) {
  Json json;
  json["schema_version"] = kRunDiffSchemaVersion;
  json["kind"] = "watch_logs";
  json["verdict"] = verdict_of(report);
  json["outcome"] = outcome_of(report);
  json["problems"] = report.problems;
  for (const auto& [key, file, log] : {std::tuple{"before", &report.before, &report.a.figures},
                                       std::tuple{"after", &report.after, &report.b.figures}})
    json[key] = {
        {"file", *file}, {"samples", log->samples()}, {"duration_seconds", log->duration().seconds()}};
  json["figures"] = json_list(report.changes, [](const SeriesChange& change) {
    Json figure{{"name", change.name},
                {"mean_before", change.mean_before},
                {"mean_after", change.mean_after},
                {"max_before", change.max_before},
                {"max_after", change.max_after},
                {"change", change.change()},
                {"change_low", change.low},
                {"change_high", change.high},
                {"rise_before", change.rise_before},
                {"rise_after", change.rise_after},
                {"differs", change.differs}};
    if (change.is_of_trend) figure["trend_differs"] = true;
    if (change.doubt != SeriesDoubt::none) figure["cannot_be_told"] = name_of(change.doubt);
    return figure;
  });
  set_gate(json, report.gate, report.not_judged);
  return json;
}

std::vector<GatedFigure> gated_log_figures(const std::vector<SeriesChange>& changes) {
  std::vector<GatedFigure> figures;
  for (const SeriesChange& change : changes) {
    figures.push_back({change.name, change.mean_before, change.mean_after, change.low, change.high});
    const double moved = change.max_after - change.max_before;
    figures.push_back({"max:" + change.name, change.max_before, change.max_after, moved, moved});
  }
  return figures;
}

GateJudgement judge_logs(SeriesDiffReport& report, std::vector<FigureRule> rules) {
  if (report.is_one_log) report.not_judged = leave_out_changes(rules);
  GateJudgement judgement = check_figure_gate(
      rules, gated_log_figures(report.changes),
      [](const std::string& name, double value) { return words_for_metric(figure_of(name), value); });
  report.gate = judgement.findings;
  if (!judgement.not_judged && !(judgement.has_breach() && report.has_enough))
    if (std::string why = not_judged_words(rules, report); !why.empty())
      judgement.not_judged = Error{
          ErrorKind::input, "cannot check the gate", std::move(why),
          report.problems.empty() ? "log for longer, or check the maximum: --fail-on 'max:FIGURE>+5%'"
                                  : "log again with headroom watch, and stop it with Ctrl-C or --duration"};
  if (judgement.not_judged) report.not_judged = judgement.not_judged->why;
  return judgement;
}

}  // namespace headroom::report
