#include "report/comparison/series_gate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comparison/two_sample.h"
#include "report/words.h"

namespace headroom::report {
namespace {

std::string figure_of(const std::string& gated) {
  return gated.starts_with("max:") ? gated.substr(4) : gated;
}

// Why a gate that found nothing cannot say that there is nothing. Of a mean that has a trend or moves slowly
// no change can be told; its value in B can.
std::string not_judged_words(const std::vector<comparison::FigureRule>& rules,
                             const comparison::WatchedLog& a, const comparison::WatchedLog& b,
                             const SeriesDiffReport& report) {
  if (rules.empty()) return {};
  if (!report.problems.empty()) return fmt::format("{}", fmt::join(report.problems, "; "));
  for (const comparison::FigureRule& rule : rules) {
    if (rule.limit.against != comparison::GateAgainst::value)
      for (const comparison::SeriesChange& change : report.changes)
        if (change.name == rule.limit.name && change.doubt != comparison::SeriesDoubt::none)
          return doubt_words(change);
    if (const std::string figure = figure_of(rule.limit.name); !comparison::has_enough(a, b, figure))
      return fmt::format("{} has fewer than {} samples in one of the logs", figure,
                         comparison::kLeastOfSeries);
  }
  return {};
}

std::string log_figure_words(const std::string& name, double value) {
  return words_for_metric(figure_of(name), value);
}

comparison::GateJudgement judgement_of(const std::vector<comparison::FigureRule>& rules,
                                       const comparison::WatchedLog& a, const comparison::WatchedLog& b,
                                       const SeriesDiffReport& report) {
  comparison::GateJudgement judgement =
      comparison::check_figure_gate(rules, gated_log_figures(report.changes), log_figure_words);
  if (judgement.not_judged || (judgement.has_breach() && report.has_enough)) return judgement;
  if (std::string why = not_judged_words(rules, a, b, report); !why.empty())
    judgement.not_judged = Error{
        ErrorKind::input, "cannot check the gate", std::move(why),
        report.problems.empty() ? "log for longer, or check the maximum: --fail-on 'max:FIGURE>+5%'"
                                : "log again with headroom watch, and stop it with Ctrl-C or --duration"};
  return judgement;
}

}  // namespace

std::vector<comparison::GatedFigure> gated_log_figures(const std::vector<comparison::SeriesChange>& changes) {
  std::vector<comparison::GatedFigure> figures;
  for (const comparison::SeriesChange& change : changes) {
    figures.push_back({change.name, change.mean_before, change.mean_after, change.low, change.high});
    const double moved = change.max_after - change.max_before;
    figures.push_back({"max:" + change.name, change.max_before, change.max_after, moved, moved});
  }
  return figures;
}

comparison::GateJudgement judge_logs(SeriesDiffReport& report, std::vector<comparison::FigureRule> rules,
                                     const comparison::WatchedLog& a, const comparison::WatchedLog& b) {
  if (report.is_one_log) report.not_judged = comparison::leave_out_changes(rules);
  comparison::GateJudgement judgement = judgement_of(rules, a, b, report);
  report.gate = judgement.findings;
  if (judgement.not_judged) report.not_judged = judgement.not_judged->why;
  return judgement;
}

}  // namespace headroom::report
