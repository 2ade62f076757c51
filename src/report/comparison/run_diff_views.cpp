// `headroom diff RUN RUN` on the terminal, in Markdown and as JSON: the verdict first, then a table a model.
#include "report/comparison/run_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/utf8.h"
#include "report/comparison/diff_words.h"
#include "report/text_layout.h"
#include "report/words.h"
#include "types/enum_names.h"

namespace headroom::report {
namespace {

using namespace comparison;

constexpr std::array<std::string_view, 8> kAlwaysShown{"load_peak", "run_mean", "run_peak", "latency",
                                                       "p50",       "p99",      "fps",      "detections"};

bool is_shown(const MetricChange& change) {
  return change.differs || change.is_judged ||
         std::ranges::find(kAlwaysShown, change.metric->name) != kAlwaysShown.end();
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

std::string superiority_words(const ModelComparison& model) {
  if (!model.superiority || inseparable_latency(model) != nullptr) return "";
  return fmt::format(
      "{}: a frame of B takes longer than one of A in {:.0f} % of all pairs ({} and {} frames)", model.name,
      100 * *model.superiority, model.frames_before, model.frames_after);
}

std::string new_model_words(const NewModel& model) {
  std::vector<std::string> figures;
  for (const MetricValue& known : model.values)
    if (std::ranges::find(kAlwaysShown, known.metric->name) != kAlwaysShown.end())
      figures.push_back(fmt::format("{} {}", known.metric->name, words_for(*known.metric, known.value)));
  return fmt::format("{} is new in B{}{}.", model.name, figures.empty() ? "" : ": ",
                     fmt::join(figures, ", "));
}

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

// The cells of a figure's row, with `words` for its change.
std::vector<std::string> cells_of(const MetricChange& change, const std::string& words) {
  return {std::string(change.metric->name), words_for(*change.metric, change.before),
          words_for(*change.metric, change.after), words, std::string(mark_of_change(change))};
}
std::vector<std::string> cells_of(const LayerChange& change) {
  return {change.name, words_for(change.before), words_for(change.after), signed_bytes(change.change())};
}

class RunScreen {
 public:
  RunScreen(const RunDiffReport& report, bool color, int width) : report_(report), screen_(color, width) {}

  std::string draw() {
    const RunDiffVerdict verdict = verdict_of(report_);
    screen_.wrapped(verdict.sentence, 0, look_of(verdict.tone).paint);
    if (!verdict.cause.empty()) screen_.wrapped(verdict.cause);
    screen_.line("");
    draw_side('A', report_.before, report_.before_words);
    draw_side('B', report_.after, report_.after_words);
    for (const ModelComparison& model : report_.comparison.models) draw_model(model);
    for (const NewModel& model : report_.comparison.only_after)
      screen_.wrapped(without_control_characters(new_model_words(model)));
    draw_list("Differences between the runs", fact_lines(report_.comparison));
    draw_list("Notes", notes_of(report_.comparison));
    return std::move(screen_).text();
  }

 private:
  // Paths are not wrapped.
  void draw_side(char name, const std::vector<std::string>& runs, const std::string& words) {
    constexpr int kIndent = 3;
    screen_.line(fmt::format("{}  {}", name,
                             words.empty() ? without_control_characters(runs_words(runs))
                                           : wrap(words, screen_.width() - kIndent, kIndent)));
  }

  void draw_list(std::string_view title, const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    screen_.heading(title);
    for (const std::string& line : lines) screen_.wrapped("  " + line, 4);
  }

  void draw_model(const ModelComparison& model) {
    if (model.metrics.empty()) return;  // of one that failed there is nothing to be told
    screen_.heading(model.name);
    draw_figures(model);
    if (!report_.is_one_side) {
      if (const std::string words = superiority_words(model); !words.empty()) screen_.wrapped(words + ".");
      if (const std::string note = spread_note(model); !note.empty()) screen_.wrapped(note);
    }
    draw_layers("Memory by kind (--layers)", model.shares);
    draw_layers("Memory by node (--layers)", model.nodes);
  }

  // A narrow terminal drops the intervals first; the last column still names the changes.
  void draw_figures(const ModelComparison& model) {
    constexpr int kName = 12;
    std::vector<Column> columns = figure_columns(model, "CHANGE (INTERVAL)", interval_words);
    const bool has_intervals = all_columns_fit(columns, screen_.width(), kName);
    if (!has_intervals) columns = figure_columns(model, "CHANGE", short_change_words);
    std::vector<std::string> left_out = fit_columns(columns, screen_.width(), kName);
    if (!has_intervals) left_out.emplace_back("the intervals");
    screen_.table(columns);
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
      add_row(columns, cells_of(change, words(change)));
      for (Column& column : columns) column.paints.push_back(&column == &columns.back() ? paint : kNoPaint);
    }
    return columns;
  }

  void draw_left_out(const std::vector<std::string>& titles) {
    if (!titles.empty()) screen_.wrapped(wider_terminal_words(titles));
  }

  void draw_layers(std::string_view title, const std::vector<LayerChange>& changes) {
    if (changes.empty()) return;
    std::vector<Column> columns{
        {std::string(title), 0, false}, {"A", 1, true}, {"B", 2, true}, {"CHANGE", 0, true}};
    for (const LayerChange& change : first_of(changes, report_.top)) add_row(columns, cells_of(change));
    const std::vector<std::string> left_out = fit_columns(columns, screen_.width(), 16);
    screen_.line("");
    screen_.table(columns);
    draw_left_out(left_out);
    if (changes.size() > report_.top)
      screen_.wrapped(fmt::format("{} more in --json", changes.size() - report_.top));
  }

  const RunDiffReport& report_;
  ScreenLines screen_;
};

void add_layers(std::string& text, const char* title, const std::vector<LayerChange>& changes,
                std::size_t top) {
  if (changes.empty()) return;
  MarkdownTable table(1, {title, "A", "B", "change"});
  for (const LayerChange& change : first_of(changes, top)) table.add(escaped(cells_of(change)));
  text += table.text();
}

// JSON; docs/diff.md names the keys.

std::string with_unit(std::string_view key, MetricUnit unit) {
  return fmt::format("{}{}", key, name_in({"_bytes", "_ns", "_per_second", ""}, unit));
}

Json number(const RunMetric& metric, double value) {
  if (metric.unit == MetricUnit::bytes || metric.unit == MetricUnit::nanoseconds) return std::llround(value);
  return value;
}

Json metric_json(const MetricChange& change) {
  const RunMetric& metric = *change.metric;
  Json json;
  json["name"] = metric.name;
  json[with_unit("before", metric.unit)] = number(metric, change.before);
  json[with_unit("after", metric.unit)] = number(metric, change.after);
  json[with_unit("change", metric.unit)] = number(metric, change.change());
  if (change.has_ratio) json["change_percent"] = 100 * (change.ratio - 1);
  if (change.has_ratio && change.is_separable) {
    json["change_low_percent"] = 100 * (change.low - 1);
    json["change_high_percent"] = 100 * (change.high - 1);
  } else if (!change.has_ratio) {
    json[with_unit("change_low", metric.unit)] = number(metric, change.low_change);
    json[with_unit("change_high", metric.unit)] = number(metric, change.high_change);
  }
  if (change.is_separable) {
    json["confidence"] = change.confidence;
    json["p"] = change.p;
  }
  json["spread"] = !change.is_separable         ? "none"
                   : change.was_in_step         ? "in_step"
                   : change.was_paired          ? "paired"
                   : change.spread_was_measured ? "measured"
                                                : "allowed";
  json["runs_before"] = change.runs_before;
  json["runs_after"] = change.runs_after;
  json["judged"] = change.is_judged;
  json["differs"] = change.differs;
  if (change.differs && !is_of_page_cache(change)) json["worse"] = change.is_worse();
  if (change.is_of_step) json["may_be_heap_step"] = true;
  if (change.is_of_file_pages) json["file_pages_change_bytes"] = std::llround(change.file_pages);
  return json;
}

// For models without a counterpart in A.
Json values_json(const std::vector<MetricValue>& values) {
  return json_list(values, [](const MetricValue& known) -> Json {
    return {{"name", known.metric->name},
            {with_unit("after", known.metric->unit), number(*known.metric, known.value)}};
  });
}

Json facts_json(const std::vector<FactChange>& facts) {
  return json_list(facts, [](const FactChange& fact) -> Json {
    return {{"what", fact.what}, {"before", fact.before}, {"after", fact.after}};
  });
}

Json layer_changes_json(const std::vector<LayerChange>& changes) {
  return json_list(changes, [](const LayerChange& change) {
    Json row = {{"name", change.name}};
    set_if(row, "before_bytes", change.before);
    set_if(row, "after_bytes", change.after);
    row["change_bytes"] = change.change();
    return row;
  });
}

Json model_json(const ModelComparison& model) {
  Json json;
  json["name"] = model.name;
  if (model.name_after != model.name) json["name_after"] = model.name_after;
  for (const auto& [side, outcome] :
       {std::pair{"before", &model.outcome_before}, std::pair{"after", &model.outcome_after}}) {
    json[fmt::format("status_{}", side)] = name_of(outcome->status);
    json[fmt::format("runs_{}", side)] = outcome->runs;
    json[fmt::format("failed_{}", side)] = outcome->failed;
    if (!outcome->error.empty()) json[fmt::format("error_{}", side)] = outcome->error;
  }
  json["metrics"] = json_list(model.metrics, metric_json);
  json["frames_before"] = model.frames_before;
  json["frames_after"] = model.frames_after;
  set_if(json, "latency_superiority", model.superiority);
  if (!model.values_after.empty()) json["values_after"] = values_json(model.values_after);
  json["facts"] = facts_json(model.facts);
  json["memory_kinds"] = layer_changes_json(model.shares);
  json["memory_nodes"] = layer_changes_json(model.nodes);
  return json;
}

}  // namespace

std::string signed_words(const RunMetric& metric, double value) {
  return (value > 0 ? "+" : "") + words_for(metric, value);
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

bool is_of_page_cache(const MetricChange& change) { return change.metric->name == "file_pages"; }

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
      if (is_shown(change)) table.add(escaped(cells_of(change, interval_words(change))));
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

Json run_diff_to_json(const RunDiffReport& report) {
  const RunComparison& comparison = report.comparison;
  const RunDiffVerdict verdict = verdict_of(report);
  Json json;
  json["schema_version"] = kRunDiffSchemaVersion;
  json["kind"] = "runs";
  json["verdict"] = verdict.sentence;
  json["outcome"] = look_of(verdict.tone).name;
  json["cause"] = verdict.cause;
  json["before"] = report.before;
  json["after"] = report.after;
  const auto name_only = [](const auto& model) { return model.name; };
  json["models"] = json_list(comparison.models, model_json);
  json["only_before"] = json_list(comparison.only_before, name_only);
  json["only_after"] = json_list(comparison.only_after, name_only);
  json["new_models"] = json_list(comparison.only_after, [](const NewModel& model) -> Json {
    return {{"name", model.name},
            {"runs_after", model.outcome.runs},
            {"failed_after", model.outcome.failed},
            {"values_after", values_json(model.values)}};
  });
  json["facts"] = facts_json(comparison.facts);
  json["caveats"] = notes_of(comparison);
  set_gate(json, report.gate, report.not_judged);
  return json;
}

}  // namespace headroom::report
