#include "cli/diff_logs.h"

#include <fmt/format.h>
#include <unistd.h>

#include "analysis/series_comparison.h"
#include "base/terminal.h"
#include "cli/common_flags.h"
#include "cli/diff_runs.h"
#include "report/series_diff_views.h"
#include "report/words.h"
#include "watch/text_input.h"

namespace headroom::cli {
namespace {

Result<analysis::LogFigures> figures_of(const std::string& file) {
  analysis::LogFigures figures;
  auto read = watch::read_text_input(
      {watch::kOwnLog, file}, Nanoseconds{1'000'000'000}, [&](SystemSample& sample) { figures.add(sample); },
      [] { return false; }, -1);
  if (!read) return forward_error(read);
  if (figures.curves().empty())
    return input_error(fmt::format("{} has no sample", file), "it is no log of headroom watch (FILE.jsonl)",
                       "headroom watch --output FILE.jsonl makes one");
  return figures;
}

// Means have an interval; of the maxima each is one value.
std::vector<analysis::GatedFigure> gated_figures(const std::vector<analysis::SeriesChange>& changes) {
  std::vector<analysis::GatedFigure> figures;
  for (const analysis::SeriesChange& change : changes) {
    figures.push_back({change.name, change.mean_before, change.mean_after, change.low, change.high});
    const double moved = change.max_after - change.max_before;
    figures.push_back({"max:" + change.name, change.max_before, change.max_after, moved, moved});
  }
  return figures;
}

std::string figure_words(const std::string& name, double value) {
  const std::string figure = name.starts_with("max:") ? name.substr(4) : name;
  return report::words_for_metric(figure, value);
}

}  // namespace

Result<int> diff_logs(const std::string& before, const std::string& after, const FlagValues& values) {
  auto rules = figure_rules(values);
  if (!rules) return forward_error(rules);
  auto a = figures_of(before);
  if (!a) return forward_error(a);
  auto b = figures_of(after);
  if (!b) return forward_error(b);
  const auto changes = analysis::compare_series(*a, *b);
  report::SeriesDiffReport report{before, after, *a, *b, changes, {}};
  auto gate = analysis::check_figure_gate(*rules, gated_figures(changes), figure_words);
  if (gate) report.gate = *gate;
  if (const auto top = values.integer("top")) report.top = static_cast<std::size_t>(*top);
  if (values.toggle("json"))
    print_output(to_text(series_diff_to_json(report)));
  else if (values.toggle("markdown"))
    print_output(series_diff_to_markdown(report));
  else
    print_output(series_diff_to_terminal(report, wants_color(values), terminal_width(STDOUT_FILENO)));
  if (!gate) return forward_error(gate);
  return exit_by(*gate);
}

}  // namespace headroom::cli
