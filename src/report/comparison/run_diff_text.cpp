// `headroom diff RUN RUN` on the terminal and in Markdown: the verdict first, then a table a model.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/utf8.h"
#include "report/comparison/diff_words.h"
#include "report/comparison/run_diff.h"
#include "report/text_layout.h"
#include "report/words.h"

namespace headroom::report {
namespace {

using namespace comparison;

constexpr std::array<std::string_view, 8> kAlwaysShown{"load_peak", "run_mean", "run_peak", "latency",
                                                       "p50",       "p99",      "fps",      "detections"};

std::string_view mark_of_change(const MetricChange& change) {
  if (!change.differs || is_of_page_cache(change)) return "";
  return change.metric->name == "detections" ? "changed" : change.is_worse() ? "worse" : "better";
}

std::string spread_note(const ModelComparison& model) {
  const std::string assumed = "Intervals assume a typical difference of memory between two runs.";
  if (const MetricChange* inseparable = inseparable_latency(model))
    return fmt::format("{}; {}. {}", inseparable_words(*inseparable), kMakeMoreRuns, assumed);
  for (const std::string_view name : {"latency", "run_peak"})
    if (const MetricChange* found = model.find(name))
      return found->was_in_step
                 ? fmt::format("Latency compared over {} pairs of runs in step.", found->runs_before)
             : found->spread_was_measured
                 ? fmt::format("Intervals from the spread of {} and {} runs ({}).", found->runs_before,
                               found->runs_after,
                               found->was_paired ? "alternating runs, compared in pairs"
                               : found->metric->unit == MetricUnit::bytes ? "from their medians"
                                                                          : "bootstrap")
                 : assumed;
  return "";
}

std::string runs_words(const std::vector<std::string>& runs) {
  if (runs.size() == 1) return runs.front();
  return fmt::format("{} and {} more", runs.front(), runs.size() - 1);
}

class RunScreen {
 public:
  RunScreen(const RunDiffReport& report, bool color, int width)
      : report_(report), color_(color), width_(std::max(width, 40)) {}

  std::string draw() {
    const RunDiffVerdict verdict = verdict_of(report_);
    text_ += painted(wrap(verdict.sentence, width_, 0), look_of(verdict.tone).paint, color_) + "\n";
    if (!verdict.cause.empty()) paragraph(verdict.cause);
    text_ += '\n';
    draw_side('A', report_.before, report_.before_words);
    draw_side('B', report_.after, report_.after_words);
    for (const ModelComparison& model : report_.comparison.models) draw_model(model);
    for (const NewModel& model : report_.comparison.only_after)
      paragraph(without_control_characters(new_model_words(model)));
    draw_list("Differences between the runs", fact_lines(report_.comparison));
    draw_list("Notes", notes_of(report_.comparison));
    return std::move(text_);
  }

 private:
  void paragraph(const std::string& words) { text_ += wrap(words, width_, 0) + "\n"; }

  // Paths are not wrapped.
  void draw_side(char name, const std::vector<std::string>& runs, const std::string& words) {
    constexpr int kIndent = 3;
    text_ += fmt::format("{}  {}\n", name,
                         words.empty() ? without_control_characters(runs_words(runs))
                                       : wrap(words, width_ - kIndent, kIndent));
  }

  void draw_list(std::string_view title, const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    text_ += "\n" + painted(title, kBold, color_) + "\n";
    for (const std::string& line : lines) text_ += wrap("  " + line, width_, 4) + "\n";
  }

  void draw_model(const ModelComparison& model) {
    if (model.metrics.empty()) return;  // of one that failed there is nothing to be told
    text_ += "\n" + painted(without_control_characters(model.name), kBold, color_) + "\n";
    draw_figures(model);
    if (!report_.is_one_side) {
      if (const std::string words = superiority_words(model); !words.empty()) paragraph(words + ".");
      if (const std::string note = spread_note(model); !note.empty()) paragraph(note);
    }
    draw_layers("Memory by kind (--layers)", model.shares);
    draw_layers("Memory by node (--layers)", model.nodes);
  }

  // A narrow terminal drops the intervals first; the last column still names the changes.
  void draw_figures(const ModelComparison& model) {
    constexpr int kName = 12;
    std::vector<Column> columns = figure_columns(model, "CHANGE (INTERVAL)", interval_words);
    const bool has_intervals = all_columns_fit(columns, width_, kName);
    if (!has_intervals) columns = figure_columns(model, "CHANGE", short_change_words);
    std::vector<std::string> left_out = fit_columns(columns, width_, kName);
    if (!has_intervals) left_out.emplace_back("the intervals");
    text_ += table_of(columns, color_);
    draw_left_out(left_out);
  }

  static std::vector<Column> figure_columns(const ModelComparison& model, const char* title,
                                            std::string (*words)(const MetricChange& change)) {
    std::vector<Column> columns{
        {"FIGURE", 0, false}, {"A", 2, true}, {"B", 0, true}, {title, 0, true}, {"", 0, false}};
    for (const MetricChange& change : model.metrics) {
      if (!is_shown(change)) continue;
      const std::string_view mark = mark_of_change(change);
      const std::string_view paint = mark == "worse" ? kRed : mark == "better" ? kGreen : kNoPaint;
      const std::vector<std::string> cells{
          std::string(change.metric->name), words_for(*change.metric, change.before),
          words_for(*change.metric, change.after), words(change), std::string(mark)};
      for (std::size_t i = 0; i < columns.size(); ++i) {
        columns[i].cells.push_back(cells[i]);
        columns[i].paints.push_back(i == 4 ? paint : kNoPaint);
      }
    }
    return columns;
  }

  void draw_left_out(const std::vector<std::string>& titles) {
    if (const std::string words = wider_terminal_words(titles); !words.empty()) paragraph(words);
  }

  void draw_layers(std::string_view title, const std::vector<LayerChange>& changes) {
    if (changes.empty()) return;
    std::vector<Column> columns{
        {std::string(title), 0, false}, {"A", 1, true}, {"B", 2, true}, {"CHANGE", 0, true}};
    for (std::size_t i = 0; i < std::min(report_.top, changes.size()); ++i) {
      columns[0].cells.push_back(changes[i].name);
      columns[1].cells.push_back(words_for(changes[i].before));
      columns[2].cells.push_back(words_for(changes[i].after));
      columns[3].cells.push_back(signed_bytes(changes[i].change()));
    }
    const std::vector<std::string> left_out = fit_columns(columns, width_, 16);
    text_ += "\n" + table_of(columns, color_);
    draw_left_out(left_out);
    if (changes.size() > report_.top)
      paragraph(fmt::format("{} more in --json", changes.size() - report_.top));
  }

  const RunDiffReport& report_;
  bool color_;
  int width_;
  std::string text_;
};

void add_layers(std::string& text, const char* title, const std::vector<LayerChange>& changes,
                std::size_t top) {
  if (changes.empty()) return;
  MarkdownTable table(1, {title, "A", "B", "change"});
  for (std::size_t i = 0; i < std::min(top, changes.size()); ++i)
    table.add({escaped(changes[i].name), words_for(changes[i].before), words_for(changes[i].after),
               signed_bytes(changes[i].change())});
  text += table.text();
}

}  // namespace

std::string signed_words(const RunMetric& metric, double value) {
  return (value > 0 ? "+" : "") + words_for(metric, value);
}

std::string new_model_words(const NewModel& model) {
  std::vector<std::string> figures;
  for (const MetricValue& known : model.values)
    if (std::ranges::find(kAlwaysShown, known.metric->name) != kAlwaysShown.end())
      figures.push_back(fmt::format("{} {}", known.metric->name, words_for(*known.metric, known.value)));
  return fmt::format("{} is new in B{}{}.", model.name, figures.empty() ? "" : ": ",
                     fmt::join(figures, ", "));
}

std::vector<std::string> notes_of(const RunComparison& comparison) {
  std::vector<std::string> notes = comparison.caveats;
  for (const ModelComparison& model : comparison.models)
    for (const MetricChange& change : model.metrics)
      if (change.differs && is_of_page_cache(change))
        notes.push_back(
            fmt::format("{} of {} went from {} to {}: the number of mapped file pages depends on the state "
                        "of the page cache, so this is not counted as a change",
                        change.metric->name, model.name, words_for(*change.metric, change.before),
                        words_for(*change.metric, change.after)));
  return notes;
}

std::string interval_words(const MetricChange& change) {
  if (change.before == change.after) return "same";
  if (!change.is_separable) return percent_words(change.ratio) + " (not separable from noise)";
  if (change.has_ratio)
    return change.low == change.high ? percent_words(change.ratio)
                                     : fmt::format("{} ({} to {})", percent_words(change.ratio),
                                                   percent_words(change.low), percent_words(change.high));
  const RunMetric& metric = *change.metric;
  std::string moved = signed_words(metric, change.change());
  if (change.low_change == change.high_change) return moved;
  return fmt::format("{} ({} to {})", moved, signed_words(metric, change.low_change),
                     signed_words(metric, change.high_change));
}

std::string short_change_words(const MetricChange& change) {
  if (change.before == change.after) return "same";
  if (!change.has_ratio) return signed_words(*change.metric, change.change());
  return percent_words(change.ratio);
}

bool is_of_page_cache(const MetricChange& change) { return change.metric->name == "file_pages"; }

std::string superiority_words(const ModelComparison& model) {
  if (!model.superiority || inseparable_latency(model) != nullptr) return "";
  return fmt::format(
      "{}: a frame of B takes longer than one of A in {:.0f} % of all pairs ({} and {} frames)", model.name,
      100 * *model.superiority, model.frames_before, model.frames_after);
}

bool is_shown(const MetricChange& change) {
  return change.differs || change.is_judged ||
         std::ranges::find(kAlwaysShown, change.metric->name) != kAlwaysShown.end();
}

std::string run_diff_to_terminal(const RunDiffReport& report, bool color, int width) {
  return RunScreen(report, color, width).draw();
}

std::string run_diff_to_markdown(const RunDiffReport& report) {
  const RunDiffVerdict verdict = verdict_of(report);
  std::string text = fmt::format("{} **{}**\n\n", look_of(verdict.tone).symbol, escaped(verdict.sentence));
  if (!verdict.cause.empty()) text += escaped(verdict.cause) + "\n\n";
  add_gate(text, report.gate, report.not_judged);
  for (const ModelComparison& model : report.comparison.models) {
    if (model.metrics.empty()) continue;  // of one that failed there is nothing to be told
    MarkdownTable table(1, {model.name.empty() ? "figure" : escaped(model.name), "A", "B", "change", ""});
    for (const MetricChange& change : model.metrics)
      if (is_shown(change))
        table.add({std::string(change.metric->name), words_for(*change.metric, change.before),
                   words_for(*change.metric, change.after), escaped(interval_words(change)),
                   std::string(mark_of_change(change))});
    text += table.text();
    if (!report.is_one_side) {
      if (const std::string words = superiority_words(model); !words.empty())
        text += escaped(words) + ".\n\n";
      if (const std::string note = spread_note(model); !note.empty()) text += escaped(note) + "\n\n";
    }
    add_layers(text, "memory by kind", model.shares, report.top);
    add_layers(text, "memory by node", model.nodes, report.top);
  }
  for (const NewModel& model : report.comparison.only_after) text += escaped(new_model_words(model)) + "\n\n";
  add_list(text, "Differences between the runs", fact_lines(report.comparison));
  add_list(text, "Notes", notes_of(report.comparison));
  const auto side = [](const std::vector<std::string>& runs, const std::string& words) {
    return words.empty() ? code(runs_words(runs)) : escaped(words);
  };
  text += fmt::format("A: {}  \nB: {}\n", side(report.before, report.before_words),
                      side(report.after, report.after_words));
  return text;
}

}  // namespace headroom::report
