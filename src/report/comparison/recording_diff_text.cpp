// `headroom diff A.hrec B.hrec` on the terminal: what grew, by how much, and where; the verdict first.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "base/text.h"
#include "base/utf8.h"
#include "report/comparison/recording_diff.h"
#include "report/recording/recording_views.h"
#include "report/recording/recording_words.h"
#include "report/recording/stack_text.h"
#include "report/text_layout.h"
#include "report/words.h"

namespace headroom::report {
namespace {

using namespace attribution;
using namespace comparison;

constexpr int kNarrowestDiff = 40, kShortestPlace = 10;
constexpr std::size_t kRowsOfADiffTable = 5, kRowsOfTheOnlyTable = 10, kRowsOfADiffHint = 3,
                      kShownCaveats = 6;

std::string_view title_of(DiffBy by) {
  switch (by) {
    case DiffBy::layer:
      return "Layers, by bytes live at the peak";
    case DiffBy::stack:
      return "Places, by bytes live at the peak";
    case DiffBy::module:
      return "Modules, by bytes live at the peak";
  }
  return "";
}

std::string signed_count(std::int64_t count) { return (count > 0 ? "+" : "") + grouped(count); }

class RecordingScreen {
 public:
  RecordingScreen(const DiffReport& report, bool color, int width)
      : report_(report),
        a_(report.before.recording.analysis),
        b_(report.after.recording.analysis),
        color_(color),
        width_(std::max(width, kNarrowestDiff)) {}

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
    caveats();
    next();
    return std::move(text_);
  }

 private:
  void line(std::string_view text) { text_ += fmt::format("{}\n", text); }
  void heading(std::string_view text) { line("\n" + painted(fit_to_width(text, width_), kBold, color_)); }
  bool has_layers() const { return a_.layers.size() > 1 || b_.layers.size() > 1; }

  void verdict() {
    const FigureChange& peak = report_.diff.peak_bytes;
    const bool is_known = incomplete_words(report_).empty();
    const std::string_view paint = !is_known           ? kYellow
                                   : !peak.differs()   ? kBold
                                   : peak.change() > 0 ? kRed
                                                       : kGreen;
    constexpr int kNoLimit = 1 << 20;  // only control characters go
    line(painted(wrap(fit_to_width(diff_verdict(report_), kNoLimit), width_, 0), paint, color_));
    line("");
  }

  void files() {
    for (const auto& [name, side] : {std::pair{'A', &report_.before}, std::pair{'B', &report_.after}}) {
      const std::string file = fmt::format("{}  {}  ", name, fit_to_width(side->file, width_ / 2));
      const int room = std::max(kShortestPlace, width_ - display_width(file));
      line(file + fit_to_width(one_line_command(side->info), room));
    }
    line("");
  }

  void figures() {
    std::vector<Column> columns{{"", 0, false}, {"A"}, {"B"}, {"change"}, {"in %", 1}};
    const auto row = [&](std::string name, std::string a, std::string b, std::string change,
                         std::string percent) {
      std::size_t i = 0;
      for (std::string* cell : {&name, &a, &b, &change, &percent})
        columns[i++].cells.push_back(cell->empty() ? std::string(kAbsent) : std::move(*cell));
    };
    const auto bytes = [&](std::string name, const FigureChange& figure) {
      row(std::move(name), figure_words(figure.before), figure_words(figure.after),
          signed_bytes(figure.change()), signed_percent(figure.before.value, figure.after.value));
    };
    const auto time = [&](std::string name, std::optional<Nanoseconds> a, std::optional<Nanoseconds> b) {
      row(std::move(name), words_for(a), words_for(b),
          a && b ? (*b > *a   ? "+"
                    : *b < *a ? "-"
                              : "") +
                       format_duration({std::abs((*b - *a).count)})
                 : std::string(kAbsent),
          a && b ? signed_percent(a->count, b->count) : "");
    };
    bytes("Peak", report_.diff.peak_bytes);
    bytes("At the end", report_.diff.leaked_bytes);
    bytes("Allocated", report_.diff.allocated_bytes);
    const FigureChange& calls = report_.diff.allocations;
    row("Allocations", grouped(calls.before.value), grouped(calls.after.value), signed_count(calls.change()),
        signed_percent(calls.before.value, calls.after.value));
    time("Mean life", report_.before.recording.average_lifetime, report_.after.recording.average_lifetime);
    if (a_.mapped.maps > 0 || b_.mapped.maps > 0)
      bytes("Mapped peak", {{a_.mapped.peak_bytes, {}}, {b_.mapped.peak_bytes, {}}});
    time("Duration", a_.duration, b_.duration);
    fit_columns(columns, width_, 12);
    text_ += table_of(columns, color_);
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
    const std::string figures =
        fmt::format("  {:>10}{}  {:>9} → {:<9}  ", signed_bytes(change), error, from, to);
    line(figures + name_of(std::max(kShortestPlace, width_ - display_width(figures))));
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
    line(fmt::format("{:{}}{}", "", kIndent, wrap(text, width_ - kIndent, kIndent)));
  }

  void table(DiffBy by, std::size_t rows) {
    heading(title_of(by));
    const std::vector<DiffRow>& all = report_.diff.by(by);
    const std::int64_t at_least = report_.choice.at_least.value_or(1);
    const auto chosen = chosen_rows(all, at_least, report_.choice.top.value_or(rows));
    for (const DiffRow* row : chosen) {
      row_of(*row, row->before.live.peak_bytes, row->after.live.peak_bytes,
             error_words(row->peak_standard_error()));
      if (report_.choice.by) details_of(*row);
    }
    if (chosen.empty())
      line(report_.choice.at_least ? fmt::format("  none changed by {} or more", format_bytes({at_least}))
                                   : "  none changed");
    left_out(chosen_rows(all, at_least, all.size()).size() - chosen.size());
  }

  void left_out(std::size_t rows) {
    if (rows > 0) line(fmt::format("  and {} more that changed", grouped(static_cast<std::int64_t>(rows))));
  }

  // Mapped memory that changed by 1 MiB or --min.
  void mapped(DiffBy by, std::size_t rows) {
    constexpr std::int64_t kMuch = 1 << 20;
    const std::vector<DiffRow>& all = report_.diff.mapped_by(by);
    const std::int64_t at_least = report_.choice.at_least.value_or(kMuch);
    const auto chosen = chosen_rows(all, at_least, report_.choice.top.value_or(rows));
    if (chosen.empty()) return;
    heading(fmt::format("Mapped by the program, by {}, at its peak",
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
    heading(title);
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
    heading("Other processes of the trees, by their peaks");
    for (std::size_t i = 0; i < std::min(pairs.size(), kRowsOfADiffTable); ++i) {
      const auto& [before, after] = pairs[i];
      change_line(pairs[i].peak_change(), "", before != nullptr ? format_bytes({before->peak_bytes}) : "new",
                  after != nullptr ? format_bytes({after->peak_bytes}) : "gone",
                  [&process = after != nullptr ? *after : *before](int room) {
                    return fit_to_width(process.command, room);
                  });
    }
    if (pairs.size() > kRowsOfADiffTable)
      line(
          fmt::format("  and {} more", grouped(static_cast<std::int64_t>(pairs.size() - kRowsOfADiffTable))));
    if (!report_.choice.add_others) return;
    const PeakSums sums = sums_of_peaks(report_);
    line("  " + wrap(fmt::format("All processes: the peaks add up to {}, before {} ({}). They may not have "
                                 "occurred at the same time.",
                                 format_bytes({sums.after}), format_bytes({sums.before}),
                                 signed_bytes(sums.after - sums.before)),
                     width_ - 2, 2));
  }

  void caveats() {
    const std::vector<std::string> sentences = diff_caveats(report_);
    if (sentences.empty()) return;
    heading("Missing data");
    constexpr int kNoLimit = 1 << 20;
    for (std::size_t i = 0; i < std::min(sentences.size(), kShownCaveats); ++i)
      line(fmt::format("{} {}", painted("!", kYellow, color_),
                       wrap(fit_to_width(sentences[i], kNoLimit), width_ - 2, 2)));
    if (sentences.size() > kShownCaveats)
      line(fmt::format("  and {} more; --json has all", sentences.size() - kShownCaveats));
  }

  void next() {
    const std::string files =
        fmt::format("{} {}", shell_word(report_.before.file), shell_word(report_.after.file));
    heading("Next");
    // The command may be a launcher: another process matters.
    if (const auto pairs = paired_processes(report_); !pairs.empty()) {
      const auto& [before, after] = pairs.front();
      if (before != nullptr && after != nullptr &&
          pairs.front().peak_change() > std::max<std::int64_t>(0, report_.diff.peak_bytes.change()))
        line(fmt::format("  headroom diff {} {}", shell_word(before->file), shell_word(after->file)));
    }
    if (!report_.choice.by) line(fmt::format("  headroom diff {} --by stack", files));
    line(fmt::format("  headroom diff {} --json", files));
    if (!report_.choice.add_others && !(report_.before.others.empty() && report_.after.others.empty()))
      line(fmt::format("  headroom diff {} --all", files));
  }

  const DiffReport& report_;
  const RecordingAnalysis &a_, &b_;
  bool color_;
  int width_;
  std::string text_;
};

}  // namespace

std::string diff_to_terminal(const DiffReport& report, bool color, int width) {
  return RecordingScreen(report, color, width).draw();
}

}  // namespace headroom::report
