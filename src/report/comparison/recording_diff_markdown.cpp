// `headroom diff A.hrec B.hrec --markdown`: for a pull request's comment.
#include <fmt/format.h>

#include "report/comparison/recording_diff_words.h"
#include "report/markdown_text.h"
#include "report/recording/recording_words.h"
#include "report/recording/stack_text.h"

namespace headroom::report {
namespace {

using namespace attribution;

constexpr std::size_t kRowsOfAMarkdownTable = 5;
constexpr int kWidestPlace = 120;

void add_figures(std::string& text, const comparison::RecordingDiff& diff) {
  MarkdownTable table(1, {"heap", "A", "B", "change", ""});
  const auto add = [&](std::string name, const comparison::FigureChange& figure) {
    table.add({std::move(name), figure_words(figure.before), figure_words(figure.after),
               signed_bytes(figure.change()), signed_percent(figure.before.value, figure.after.value)});
  };
  add("peak", diff.peak_bytes);
  add("at the end", diff.leaked_bytes);
  add("allocated", diff.allocated_bytes);
  text += table.text();
}

void add_rows(std::string& text, const DiffReport& report, comparison::DiffBy by, std::string_view title) {
  MarkdownTable table(1, {std::string(title), "A", "B", "change"});
  for (const comparison::DiffRow* row : chosen_rows(report.diff.by(by), report.choice.at_least.value_or(1),
                                                    report.choice.top.value_or(kRowsOfAMarkdownTable))) {
    const std::string name = row->frames.empty() ? (row->name.empty() ? "(outside of any layer)" : row->name)
                                                 : one_line_stack(row->frames, kWidestPlace);
    const std::int64_t before = row->before.live.peak_bytes, after = row->after.live.peak_bytes;
    table.add({code(name), row->in_before ? format_bytes({before}) : "new",
               row->in_after ? format_bytes({after}) : "gone", signed_bytes(after - before)});
  }
  if (!table.empty()) text += table.text();
}

}  // namespace

std::string diff_to_markdown(const DiffReport& report) {
  std::string text = fmt::format("**{}**\n\n", escaped(diff_verdict(report)));
  add_gate(text, report.gate, report.not_judged);
  add_figures(text, report.diff);
  if (report.choice.by) {
    add_rows(text, report, *report.choice.by, fmt::format("{}, at the peak", name_of(*report.choice.by)));
  } else {
    const auto layers = [](const DiffSide& side) { return side.recording.analysis.layers.size(); };
    if (layers(report.before) > 1 || layers(report.after) > 1)
      add_rows(text, report, comparison::DiffBy::layer, "layer, at the peak");
    add_rows(text, report, comparison::DiffBy::stack, "place, at the peak");
  }
  add_list(text, "Missing data", diff_caveats(report));
  text += fmt::format("A: {}  \nB: {}\n", code(report.before.file), code(report.after.file));
  return text;
}

}  // namespace headroom::report
