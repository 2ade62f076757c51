// `headroom diff A.hrec B.hrec` on the terminal, as JSON, CSV and Markdown: what grew, by how much, and
// where; the verdict first. docs/diff.md lists the keys.
#include "report/comparison/recording_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>

#include "base/text.h"
#include "base/utf8.h"
#include "report/recording/recording_parts.h"
#include "report/recording/recording_views.h"
#include "report/recording/recording_words.h"
#include "report/recording/stack_text.h"
#include "report/text_layout.h"
#include "report/words.h"
#include "types/enum_names.h"

namespace headroom::report {
namespace {

using namespace attribution;
using namespace comparison;

constexpr std::size_t kRowsOfADiffTable = 5, kRowsOfTheOnlyTable = 10, kRowsOfADiffHint = 3;

std::string_view title_of(DiffBy by) { return name_in({"Layers", "Places", "Modules"}, by); }

std::string signed_count(std::int64_t count) { return (count > 0 ? "+" : "") + grouped(count); }

class RecordingScreen {
 public:
  RecordingScreen(const DiffReport& report, bool color, int width)
      : report_(report),
        a_(report.before.recording.analysis),
        b_(report.after.recording.analysis),
        screen_(color, width) {}

  std::string draw() {
    verdict();
    files();
    figures();
    if (report_.choice.by) {
      table(*report_.choice.by, kRowsOfTheOnlyTable);
      mapped(*report_.choice.by, kRowsOfTheOnlyTable);
    } else {
      if (has_layers()) table(DiffBy::layer, kRowsOfADiffTable);
      table(DiffBy::stack, kRowsOfADiffTable);
      at_the_end();
      churn();
      mapped(DiffBy::stack, kRowsOfADiffHint);
    }
    processes();
    screen_.missing_data(diff_caveats(report_));
    next();
    return std::move(screen_).text();
  }

 private:
  bool has_layers() const { return a_.layers.size() > 1 || b_.layers.size() > 1; }

  void verdict() {
    const FigureChange& peak = report_.diff.peak_bytes;
    const bool is_known = incomplete_words(report_).empty();
    const std::string_view paint = !is_known           ? kYellow
                                   : !peak.differs()   ? kBold
                                   : peak.change() > 0 ? kRed
                                                       : kGreen;
    screen_.wrapped(without_control_characters(diff_verdict(report_)), 0, paint);
    screen_.line("");
  }

  void files() {
    for (const auto& [name, side] : {std::pair{'A', &report_.before}, std::pair{'B', &report_.after}})
      screen_.row(fmt::format("{}  {}  ", name, fit_to_width(side->file, screen_.width() / 2)),
                  [&info = side->info](int room) { return fit_to_width(one_line_command(info), room); });
    screen_.line("");
  }

  void figures() {
    std::vector<Column> columns{{"", 0, false}, {"A"}, {"B"}, {"change"}, {"in %", 1}};
    const auto row = [&](std::vector<std::string> cells) {
      for (std::string& cell : cells)
        if (cell.empty()) cell = kAbsent;
      add_row(columns, std::move(cells));
    };
    const auto bytes = [&](std::string_view name, const FigureChange& figure) {
      row(figure_cells(name, figure));
    };
    const auto time = [&](std::string name, std::optional<Nanoseconds> a, std::optional<Nanoseconds> b) {
      std::string change, percent;
      if (a && b) {
        change = (*b > *a ? "+" : *b < *a ? "-" : "") + format_duration({std::abs((*b - *a).count)});
        percent = signed_percent(a->count, b->count);
      }
      row({std::move(name), words_for(a), words_for(b), std::move(change), std::move(percent)});
    };
    bytes("Peak", report_.diff.peak_bytes);
    bytes("At the end", report_.diff.leaked_bytes);
    bytes("Allocated", report_.diff.allocated_bytes);
    const FigureChange& calls = report_.diff.allocations;
    row({"Allocations", grouped(calls.before.value), grouped(calls.after.value), signed_count(calls.change()),
         signed_percent(calls.before.value, calls.after.value)});
    time("Mean life", report_.before.recording.average_lifetime, report_.after.recording.average_lifetime);
    if (a_.mapped.maps > 0 || b_.mapped.maps > 0)
      bytes("Mapped peak", {{a_.mapped.peak_bytes, {}}, {b_.mapped.peak_bytes, {}}});
    time("Duration", a_.duration, b_.duration);
    fit_columns(columns, screen_.width(), 12);
    screen_.table(columns);
  }

  // "  +1.2 MiB   3.0 MiB → 4.2 MiB   place"; with samples "+1.2 MiB ± 0.5 MiB".
  void row_of(const DiffRow& row, std::int64_t before, std::int64_t after, const std::string& error) {
    change_line(after - before, error, row.in_before ? format_bytes({before}) : "new",
                row.in_after ? format_bytes({after}) : "gone",
                [&](int room) { return name_of_row(row, room); });
  }
  // The line ends in `name_of(room)`, which has at most `room` columns.
  template <class NameOf>
  void change_line(std::int64_t change, const std::string& error, const std::string& from,
                   const std::string& to, NameOf name_of) {
    screen_.row(fmt::format("  {:>10}{}  {:>9} → {:<9}  ", signed_bytes(change), error, from, to), name_of);
  }
  std::string error_words(std::optional<double> standard_error) const {
    return report_.diff.peak_bytes.standard_error() ? error_column(standard_error) : "";
  }
  static std::string name_of_row(const DiffRow& row, int room) {
    if (!row.frames.empty()) return one_line_stack(row.frames, room);
    return fit_path_to_width(row.name.empty() ? "(outside of any layer)" : row.name, room);
  }
  void details_of(const DiffRow& row) {
    const std::string allocated =
        row.counts_known ? fmt::format("{} in {} calls", signed_bytes(row.allocated_change()),
                                       signed_count(row.after.allocations - row.before.allocations))
                         : std::string(kAbsent);
    std::string text = fmt::format("at the end {}; allocated {}; own peak {}", signed_bytes(row.end_change()),
                                   allocated, signed_bytes(row.after.most_bytes - row.before.most_bytes));
    const auto before = row.before.average_lifetime(), after = row.after.average_lifetime();
    if (before || after) text += fmt::format("; mean life {} → {}", words_for(before), words_for(after));
    constexpr int kIndent = 14;
    screen_.line(fmt::format("{:{}}{}", "", kIndent, wrap(text, screen_.width() - kIndent, kIndent)));
  }

  void table(DiffBy by, std::size_t rows) {
    screen_.heading(fmt::format("{}, by bytes live at the peak", title_of(by)));
    const std::vector<DiffRow>& all = report_.diff.by(by);
    const std::int64_t at_least = report_.choice.at_least.value_or(1);
    const auto chosen = chosen_rows(all, at_least, report_.choice.top.value_or(rows));
    for (const DiffRow* row : chosen) {
      row_of(*row, row->before.live.peak_bytes, row->after.live.peak_bytes,
             error_words(row->peak_standard_error()));
      if (report_.choice.by) details_of(*row);
    }
    if (chosen.empty())
      screen_.line(report_.choice.at_least
                       ? fmt::format("  none changed by {} or more", format_bytes({at_least}))
                       : "  none changed");
    left_out(chosen_rows(all, at_least, all.size()).size() - chosen.size());
  }

  void left_out(std::size_t rows) {
    if (rows > 0)
      screen_.line(fmt::format("  and {} more that changed", grouped(static_cast<std::int64_t>(rows))));
  }

  // Mapped memory that changed by 1 MiB or --min.
  void mapped(DiffBy by, std::size_t rows) {
    constexpr std::int64_t kMuch = 1 << 20;
    const std::vector<DiffRow>& all = report_.diff.mapped_by(by);
    const std::int64_t at_least = report_.choice.at_least.value_or(kMuch);
    const auto chosen = chosen_rows(all, at_least, report_.choice.top.value_or(rows));
    if (chosen.empty()) return;
    screen_.heading(fmt::format("Mapped by the program, by {}, at its peak",
                                by == DiffBy::stack ? "place" : name_of(by)));
    for (const DiffRow* row : chosen)
      row_of(*row, row->before.live.peak_bytes, row->after.live.peak_bytes, "");
    left_out(chosen_rows(all, at_least, all.size()).size() - chosen.size());
  }

  // A table by another figure, if it changed much.
  template <class FigureOf, class ErrorOf>
  void hint(std::string_view title, FigureOf figure, ErrorOf error) {
    std::vector<const DiffRow*> rows;
    for (const DiffRow& row : report_.diff.by(DiffBy::stack))
      if (figure(row.after) != figure(row.before)) rows.push_back(&row);
    const auto change = [&](const DiffRow* row) { return figure(row->after) - figure(row->before); };
    std::ranges::stable_sort(
        rows, [&](const DiffRow* a, const DiffRow* b) { return std::abs(change(a)) > std::abs(change(b)); });
    rows.resize(std::min(rows.size(), kRowsOfADiffHint));
    if (rows.empty()) return;
    std::ranges::stable_sort(rows, [&](const DiffRow* a, const DiffRow* b) { return change(a) > change(b); });
    screen_.heading(title);
    for (const DiffRow* row : rows)
      row_of(*row, figure(row->before), figure(row->after), error_words(error(*row)));
  }
  static bool is_large(const FigureChange& figure, std::int64_t beside) {
    constexpr std::int64_t kLeastPart = 100;
    return figure.differs() && std::abs(figure.change()) * kLeastPart >= beside;
  }
  void at_the_end() {
    if (is_large(report_.diff.leaked_bytes, report_.diff.peak_bytes.before.value))
      hint(
          "Places, by bytes live at the end",
          [](const GroupFigures& figures) { return figures.live.end_bytes; },
          [](const DiffRow& row) { return row.end_standard_error(); });
  }
  void churn() {
    if (is_large(report_.diff.allocated_bytes, report_.diff.allocated_bytes.before.value))
      hint(
          "Places, by bytes allocated in total",
          [](const GroupFigures& figures) { return figures.allocated_bytes; },
          [](const DiffRow&) { return std::optional<double>(); });
  }

  void processes() {
    const auto pairs = paired_processes(report_);
    if (pairs.empty()) return;
    screen_.heading("Other processes of the trees, by their peaks");
    for (std::size_t i = 0; i < std::min(pairs.size(), kRowsOfADiffTable); ++i) {
      const auto& [before, after] = pairs[i];
      change_line(pairs[i].peak_change(), "", before != nullptr ? format_bytes({before->peak_bytes}) : "new",
                  after != nullptr ? format_bytes({after->peak_bytes}) : "gone",
                  [&process = after != nullptr ? *after : *before](int room) {
                    return fit_to_width(process.command, room);
                  });
    }
    screen_.and_more(pairs.size(), kRowsOfADiffTable);
    if (!report_.choice.add_others) return;
    const PeakSums sums = sums_of_peaks(report_);
    screen_.indented(fmt::format(
        "All processes: the peaks add up to {}, before {} ({}). They may not have occurred at "
        "the same time.",
        format_bytes({sums.after}), format_bytes({sums.before}), signed_bytes(sums.after - sums.before)));
  }

  void next() {
    const std::string files =
        fmt::format("{} {}", shell_word(report_.before.file), shell_word(report_.after.file));
    screen_.heading("Next");
    // The command may be a launcher: another process matters.
    if (const auto pairs = paired_processes(report_); !pairs.empty()) {
      const auto& [before, after] = pairs.front();
      if (before != nullptr && after != nullptr &&
          pairs.front().peak_change() > std::max<std::int64_t>(0, report_.diff.peak_bytes.change()))
        screen_.line(fmt::format("  headroom diff {} {}", shell_word(before->file), shell_word(after->file)));
    }
    if (!report_.choice.by) screen_.line(fmt::format("  headroom diff {} --by stack", files));
    screen_.line(fmt::format("  headroom diff {} --json", files));
    if (!report_.choice.add_others && !(report_.before.others.empty() && report_.after.others.empty()))
      screen_.line(fmt::format("  headroom diff {} --all", files));
  }

  const DiffReport& report_;
  const RecordingAnalysis &a_, &b_;
  ScreenLines screen_;
};

// JSON, CSV and Markdown.

Json side_json(const DiffSide& side) {
  const RecordingAnalysis& analysis = side.recording.analysis;
  Json json;
  json["file"] = side.file;
  json["command"] = side.info.command;
  json["pid"] = side.info.pid;
  json["started_realtime_ns"] = side.info.started_realtime_ns;
  json["full"] = analysis.full;
  json["complete"] = analysis.complete;
  json["ended_by_itself"] = side.info.closed;
  json["problems"] = problems_of(side.info, analysis);
  json["notes"] = side.info.notes;
  json["dropped_events"] = analysis.dropped_events;
  json["duration_seconds"] = analysis.duration.seconds();
  json["allocations"] = analysis.allocations;
  json["total_allocated_bytes"] = analysis.total_allocated_bytes;
  set(json, "peak_bytes", analysis.peak_bytes);
  json["peak_time_seconds"] = analysis.peak_time.seconds();
  set(json, "leaked_bytes", analysis.leaked_bytes);
  set_if(json, "average_lifetime_ns", side.recording.average_lifetime);
  json["mapped_peak_bytes"] = analysis.mapped.peak_bytes;
  return json;
}

Json change_json(const RecordingDiff& diff) {
  Json json;
  const auto set_change = [&](const std::string& key, const FigureChange& figure) {
    json[key] = figure.change();
    set_if(json, key + "_standard_error", figure.standard_error());
  };
  set_change("peak_bytes", diff.peak_bytes);
  if (diff.peak_bytes.before.value != 0)
    json["peak_percent"] = 100 * static_cast<double>(diff.peak_bytes.change()) /
                           static_cast<double>(diff.peak_bytes.before.value);
  json["peak_differs"] = diff.peak_bytes.differs();
  set_change("leaked_bytes", diff.leaked_bytes);
  set_change("allocations", diff.allocations);
  set_change("total_allocated_bytes", diff.allocated_bytes);
  return json;
}

Json figures_json(const GroupFigures& figures, bool counts_known) {
  Json json;
  json["peak_bytes"] = figures.most_bytes;
  set(json, figures.live);
  if (counts_known) {
    json["allocations"] = figures.allocations;
    json["allocated_bytes"] = figures.allocated_bytes;
  }
  set_if(json, "average_lifetime_ns", figures.average_lifetime());
  json["estimated"] = figures.sampled;
  return json;
}

Json named_row(const DiffRow& row, DiffBy by) {
  if (by == DiffBy::stack) return {{"frames", row.frames}};
  return {{by == DiffBy::layer ? "layer_name" : "module", row.name}};
}

Json row_json(const DiffRow& row, DiffBy by) {
  Json json = named_row(row, by);
  json["change"] = {{"peak_bytes", row.after.most_bytes - row.before.most_bytes},
                    {"at_peak_bytes", row.peak_change()},
                    {"at_end_bytes", row.end_change()}};
  set_if(json["change"], "at_peak_bytes_standard_error", row.peak_standard_error());
  set_if(json["change"], "at_end_bytes_standard_error", row.end_standard_error());
  if (row.counts_known) {
    json["change"]["allocations"] = row.after.allocations - row.before.allocations;
    json["change"]["allocated_bytes"] = row.allocated_change();
  }
  json["before"] = row.in_before ? figures_json(row.before, row.counts_known) : Json();
  json["after"] = row.in_after ? figures_json(row.after, row.counts_known) : Json();
  return json;
}

// A side that lacks the row is null.
Json mapped_json(const DiffRow& row, DiffBy by) {
  Json json = named_row(row, by);
  const auto side = [](std::int64_t at_peak, std::int64_t at_end) {
    return Json{{"at_peak_bytes", at_peak}, {"at_end_bytes", at_end}};
  };
  json["change"] = side(row.peak_change(), row.end_change());
  json["before"] = row.in_before ? side(row.before.live.peak_bytes, row.before.live.end_bytes) : Json();
  json["after"] = row.in_after ? side(row.after.live.peak_bytes, row.after.live.end_bytes) : Json();
  return json;
}

std::vector<DiffBy> chosen_groupings(const DiffReport& report) {
  if (report.choice.by) return {*report.choice.by};
  return {kDiffBy.begin(), kDiffBy.end()};
}

std::vector<const DiffRow*> json_rows_of(const std::vector<DiffRow>& rows, const DiffChoice& choice) {
  return chosen_rows(rows, choice.at_least.value_or(0),
                     choice.top.value_or(std::numeric_limits<std::size_t>::max()));
}

// The rows of each grouping, and the number of those that were left out.
void set_rows(Json& json, const DiffReport& report, bool is_mapped) {
  for (const DiffBy by : chosen_groupings(report)) {
    const auto& all = is_mapped ? report.diff.mapped_by(by) : report.diff.by(by);
    const auto rows = json_rows_of(all, report.choice);
    const std::string key = std::string(name_of(by)) + "s";
    Json& list = json[key] = Json::array();
    for (const DiffRow* row : rows) list.push_back(is_mapped ? mapped_json(*row, by) : row_json(*row, by));
    json[key + "_left_out"] = all.size() - rows.size();
  }
}

Json process_change_json(const ProcessFigures* process) {
  if (process == nullptr) return {};
  return {{"file", process->file},
          {"pid", process->pid},
          {"complete", process->complete},
          {"allocations", process->allocations},
          {"total_allocated_bytes", process->total_allocated_bytes},
          {"peak_bytes", process->peak_bytes},
          {"leaked_bytes", process->leaked_bytes}};
}

constexpr std::size_t kRowsOfAMarkdownTable = 5;
constexpr int kWidestPlace = 120;

void add_figures(std::string& text, const RecordingDiff& diff) {
  MarkdownTable table(1, {"heap", "A", "B", "change", ""});
  table.add(figure_cells("peak", diff.peak_bytes));
  table.add(figure_cells("at the end", diff.leaked_bytes));
  table.add(figure_cells("allocated", diff.allocated_bytes));
  text += table.text();
}

void add_rows(std::string& text, const DiffReport& report, DiffBy by, std::string_view title) {
  MarkdownTable table(1, {std::string(title), "A", "B", "change"});
  for (const DiffRow* row : chosen_rows(report.diff.by(by), report.choice.at_least.value_or(1),
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

std::string diff_to_terminal(const DiffReport& report, bool color, int width) {
  return RecordingScreen(report, color, width).draw();
}

Json diff_to_json(const DiffReport& report) {
  Json json;
  json["schema_version"] = kRecordingDiffSchemaVersion;
  json["kind"] = "recordings";
  json["verdict"] = diff_verdict(report);
  json["caveats"] = diff_caveats(report);
  json["before"] = side_json(report.before);
  json["after"] = side_json(report.after);
  json["change"] = change_json(report.diff);
  set_rows(json, report, false);
  set_gate(json, report.gate, report.not_judged);
  json["mapped"] = Json::object();
  set_rows(json["mapped"], report, true);
  if (report.before.others.empty() && report.after.others.empty()) return json;
  Json& processes = json["other_processes"] = Json::array();
  for (const ProcessPair& pair : paired_processes(report))
    processes.push_back({{"command", (pair.after != nullptr ? pair.after : pair.before)->command},
                         {"change", {{"peak_bytes", pair.peak_change()}}},
                         {"before", process_change_json(pair.before)},
                         {"after", process_change_json(pair.after)}});
  if (report.choice.add_others) {
    const PeakSums sums = sums_of_peaks(report);
    json["tree"] = {{"sum_of_peaks_before_bytes", sums.before}, {"sum_of_peaks_after_bytes", sums.after}};
  }
  return json;
}

std::string diff_to_csv(const DiffReport& report) {
  std::string text = "by,name";
  constexpr std::string_view kFigures[] = {"peak_bytes",  "at_peak_bytes",   "at_end_bytes",
                                           "allocations", "allocated_bytes", "average_lifetime_ns"};
  for (const std::string_view figure : kFigures) text += fmt::format(",{0}_before,{0}_after", figure);
  text += "\r\n";
  for (const DiffBy by : chosen_groupings(report))
    for (const DiffRow* row : json_rows_of(report.diff.by(by), report.choice)) {
      text += fmt::format(
          "{},{}", name_of(by),
          csv_field(by == DiffBy::stack ? fmt::format("{}", fmt::join(row->frames, " < ")) : row->name));
      const Json before = figures_json(row->before, row->counts_known),
                 after = figures_json(row->after, row->counts_known);
      for (const std::string_view figure : kFigures)
        for (const Json* side : {&before, &after}) {
          const auto value = get_integer(*side, figure);
          text += "," + (value ? std::to_string(*value) : "");
        }
      text += "\r\n";
    }
  return text;
}

std::string diff_to_markdown(const DiffReport& report) {
  std::string text = fmt::format("**{}**\n\n", escaped(diff_verdict(report)));
  add_gate(text, report.gate, report.not_judged);
  add_figures(text, report.diff);
  if (report.choice.by) {
    add_rows(text, report, *report.choice.by, fmt::format("{}, at the peak", name_of(*report.choice.by)));
  } else {
    const auto layers = [](const DiffSide& side) { return side.recording.analysis.layers.size(); };
    if (layers(report.before) > 1 || layers(report.after) > 1)
      add_rows(text, report, DiffBy::layer, "layer, at the peak");
    add_rows(text, report, DiffBy::stack, "place, at the peak");
  }
  add_list(text, "Missing data", diff_caveats(report));
  text += fmt::format("A: {}  \nB: {}\n", code(report.before.file), code(report.after.file));
  return text;
}

}  // namespace headroom::report
