#include "cli/diff_logs.h"

#include <fmt/format.h>
#include <unistd.h>

#include "analysis/series_comparison.h"
#include "base/terminal.h"
#include "cli/common_flags.h"
#include "report/series_diff_views.h"
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

}  // namespace

Result<int> diff_logs(const std::string& before, const std::string& after, const FlagValues& values) {
  auto a = figures_of(before);
  if (!a) return forward_error(a);
  auto b = figures_of(after);
  if (!b) return forward_error(b);
  const auto changes = analysis::compare_series(*a, *b);
  report::SeriesDiffReport report{before, after, *a, *b, changes};
  if (const auto top = values.integer("top")) report.top = static_cast<std::size_t>(*top);
  if (values.toggle("json"))
    print_output(to_text(series_diff_to_json(report)));
  else if (values.toggle("markdown"))
    print_output(series_diff_to_markdown(report));
  else
    print_output(series_diff_to_terminal(report, wants_color(values), terminal_width(STDOUT_FILENO)));
  return 0;
}

}  // namespace headroom::cli
