#include "tui/top_view.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "base/utf8.h"
#include "tui/panels.h"
#include "tui/top_keys.h"
#include "types/enum_names.h"

namespace headroom::tui {

namespace {

// The maximum rows of each panel.
struct PanelRows {
  int chart_height = 0;
  int lines = 1;  // for each kind of sensor
  int gpus = 2;
  int alerts = 1;
};

PanelRows panel_rows(int height) {
  if (height >= 45) return {9, 3, 8, 4};
  if (height >= 32) return {6, 2, 4, 2};
  if (height >= 24) return {4, 1, 2, 1};
  return {height >= 20 ? 3 : 0, 1, 1, 1};
}

void draw_title(Canvas& canvas, const TopPicture& picture) {
  canvas.put(0, 0, {{"headroom top ", {Ink::title, true}}, {picture.source, {}}});
  canvas.put_right(0, " " + picture.pace + (picture.clock.empty() ? "" : "  " + picture.clock), {Ink::dim});
}

// Draws everything above the processes. Returns the next free row.
int draw_upper(Canvas& canvas, const TopPicture& picture, const TopChoice& choice, int height) {
  const PanelRows rows = panel_rows(height);
  draw_title(canvas, picture);
  int row = 1;
  if (choice.show_memory) {
    row = draw_memory(canvas, row, picture, choice);
    row = draw_gpus(canvas, row, picture, choice, rows.gpus);
  }
  if (choice.show_machine) row = draw_machine(canvas, row, picture, choice, rows.lines);
  row = draw_alerts(canvas, row, picture, rows.alerts);
  if (choice.show_charts && rows.chart_height > 0 && picture.history != nullptr)
    row = draw_charts(canvas, row, picture, choice, rows.chart_height);
  return row;
}

// The table of processes, the row of keys, and the help page.

constexpr int kUserWidth = 8;

std::string size_text(const std::optional<Bytes>& size) { return size ? short_size(*size) : "-"; }

bool matches_filter(const ProcessSample& process, const std::string& filter) {
  if (filter.empty()) return true;
  return to_lower(process.name).find(to_lower(filter)) != std::string::npos ||
         std::to_string(process.pid) == filter || process.user == filter;
}

// Absent values (±2) sort last in both directions. Equal processes are sorted by number.
template <class Value>
int compare(const std::optional<Value>& a, const std::optional<Value>& b) {
  if (!a || !b) return a ? -2 : b ? 2 : 0;
  return *a > *b ? -1 : *a < *b ? 1 : 0;
}

int compare(const ProcessSample& a, const ProcessSample& b, ProcessColumn column) {
  const bool has_shares = a.pss && b.pss;
  if (column == ProcessColumn::memory) return has_shares ? compare(a.pss, b.pss) : compare(a.rss, b.rss);
  if (column == ProcessColumn::gpu) return compare(a.gpu, b.gpu);
  if (column == ProcessColumn::cpu) return compare(a.cpu_percent, b.cpu_percent);
  if (column == ProcessColumn::swap) return compare(a.swapped, b.swapped);
  if (column == ProcessColumn::oom_score) return compare(a.oom_score, b.oom_score);
  if (column == ProcessColumn::pid) return a.pid < b.pid ? -1 : a.pid > b.pid ? 1 : 0;
  return a.name.compare(b.name) < 0 ? -1 : a.name == b.name ? 0 : 1;
}

struct HelpLine {
  const char *keys, *what;
};

// Draws the rows from `row` to before `end`. The first is the header.
void draw_processes(Canvas& canvas, int row, int end, const TopPicture& picture, const TopChoice& choice) {
  if (end - row < 2) return;
  const auto any_has = [&](auto has) { return std::ranges::any_of(picture.sample->processes, has); };
  const bool pss = any_has([](const ProcessSample& process) { return process.pss.has_value(); });
  const bool user = any_has([](const ProcessSample& process) { return !process.user.empty(); }) &&
                    canvas.width() >= (pss ? 90 : 80);
  const bool threads = canvas.width() >= 100;
  struct Column {
    std::string name;
    int width;
    std::optional<ProcessColumn> sort;
  };
  std::vector<Column> columns{{"PID", 7, ProcessColumn::pid},
                              {"CPU %", 7, ProcessColumn::cpu},
                              {"RSS", 9, pss ? std::nullopt : std::optional(ProcessColumn::memory)}};
  if (pss) columns.push_back({"PSS", 9, ProcessColumn::memory});
  columns.push_back({"GPU", 9, ProcessColumn::gpu});
  columns.push_back({"SWAP", 9, ProcessColumn::swap});
  columns.push_back({"OOM", 5, ProcessColumn::oom_score});
  if (threads) columns.push_back({"THR", 5, std::nullopt});
  const char* const down = choice.ascii ? "v" : "▼";
  const char* const up = choice.ascii ? "^" : "▲";
  const auto title_of = [&](const std::string& name, std::optional<ProcessColumn> sort) {
    if (!sort || *sort != choice.sort) return name;
    return name + (choice.reversed ? up : down);
  };
  int column = 0;
  for (const Column& each : columns) {
    const std::string title = title_of(each.name, each.sort);
    canvas.put(column + each.width - display_width(title), row, title,
               {Ink::title, each.sort && *each.sort == choice.sort});
    column += each.width;
  }
  const int user_column = column + 1, name_column = user_column + (user ? kUserWidth + 1 : 0);
  const auto rows = rows_of(*picture.sample, choice);
  const std::size_t known = picture.processes.value_or(picture.sample->processes.size());
  if (user) canvas.put(user_column, row, "USER", {Ink::title});
  canvas.put(name_column, row, title_of("NAME", ProcessColumn::name), {Ink::title});
  if (known > 0)
    canvas.put_right(row,
                     choice.filter.empty()
                         ? fmt::format("{} processes", known)
                         : fmt::format("{} of {} with \"{}\"", rows.size(), known, choice.filter),
                     {Ink::dim});
  if (rows.empty()) {
    canvas.put(0, row + 1,
               choice.filter.empty() ? "No process list in this sample." : "No process matches the filter.",
               {Ink::dim});
    return;
  }
  const int visible_rows = end - row - 1;
  std::size_t selected = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i]->pid == choice.selected) selected = i;
  const std::size_t first = selected >= static_cast<std::size_t>(visible_rows)
                                ? selected - static_cast<std::size_t>(visible_rows) + 1
                                : 0;
  for (std::size_t i = first; i < rows.size() && static_cast<int>(i - first) < visible_rows; ++i) {
    const ProcessSample& process = *rows[i];
    const int y = row + 1 + static_cast<int>(i - first);
    int x = 0;
    const auto cell = [&](const std::string& text, int width, Style style = {}) {
      canvas.put(x + std::max(0, width - display_width(text)), y, text, style);
      x += width;
    };
    cell(std::to_string(process.pid), 7);
    cell(process.cpu_percent ? fmt::format("{:.1f}", *process.cpu_percent) : "-", 7,
         {process.cpu_percent.value_or(0) >= 1 ? Ink::cpu : Ink::dim});
    cell(size_text(process.rss), 9);
    if (pss) cell(size_text(process.pss), 9);
    cell(size_text(process.gpu), 9, {process.gpu ? Ink::gpu : Ink::dim});
    cell(size_text(process.swapped), 9, {process.swapped.value_or(Bytes{}).count > 0 ? Ink::swap : Ink::dim});
    cell(process.oom_score ? std::to_string(*process.oom_score) : "-", 5, {Ink::dim});
    if (threads) cell(process.threads ? std::to_string(*process.threads) : "-", 5, {Ink::dim});
    if (user) canvas.put(user_column, y, fit_to_width(process.user, kUserWidth), {Ink::dim});
    canvas.put(name_column, y, fit_to_width(process.name, std::max(1, canvas.width() - name_column)));
    if (choice.interactive && process.pid == choice.selected) canvas.reverse_row(y);
  }
}

// Draws the list of keys in the last row.
void draw_keys(Canvas& canvas, const TopChoice& choice) {
  const int row = canvas.height() - 1;
  if (choice.to_signal) {
    Spans spans{
        {fmt::format("Signal {} {}: ", choice.to_signal->pid, choice.to_signal->name), {Ink::warning, true}}};
    for (const ProcessSignal& signal : process_signals()) {
      spans.push_back({std::string(1, signal.key), {Ink::title, true}});
      spans.push_back({fmt::format(" {}  ", signal.name), {}});
    }
    spans.push_back({"any other key: cancel", {}});
    canvas.put(0, row, spans);
    return;
  }
  if (choice.typing_filter) {
    canvas.put(0, row,
               {{"Filter: ", {Ink::title, true}},
                {choice.filter, {}},
                {"_", {Ink::plain, false, true}},
                {"  Enter: keep, Esc: clear", {Ink::dim}}});
    return;
  }
  if (!choice.message.empty()) {
    canvas.put(0, row, fit_to_width(choice.message, canvas.width()), {Ink::warning});
    return;
  }
  std::vector<Spans> keys;
  const auto add = [&keys](const char* key, const std::string& what) {
    keys.push_back({{key, {Ink::title, true}}, {" " + what, {}}});
  };
  add("?", "help");
  add("/", "filter");
  add("s", "sort: " + std::string(name_of(choice.sort)));
  if (!choice.is_replay) add("x", "signal");
  add("u", choice.paused ? "go on" : "pause");
  if (choice.is_replay)
    add("[ ]", "speed");
  else
    add("+ -", "interval");
  add("q", "quit");
  put_flow(canvas, row, keys, 1);
  if (choice.paused) canvas.put_right(row, "paused", {Ink::warning, true});
}

void draw_help(Canvas& canvas) {
  static constexpr HelpLine kLines[]{
      {"q, Ctrl-C", "quit"},
      {"?, h, F1", "show or hide this page"},
      {"1 2 3 4", "show or hide memory, machine, charts, processes"},
      {"arrows PgUp PgDn Home End j k", "select a process"},
      {"/", "filter by process name, number or user"},
      {"s, F6, r", "sort by the next column; reverse the order"},
      {"x, F9", "send a signal to the selected process"},
      {"p", "show or hide PSS (reads page tables)"},
      {"+ -", "longer interval, shorter interval"},
      {"z", "samples per chart column: 1, 4, 16, 60"},
      {"u, Space", "pause or go on"},
      {"left right", "replay: previous or next sample (pauses)"},
      {"[ ] Backspace", "replay: slower, faster; restart"},
  };
  canvas.put(0, 0, "headroom top: keys", {Ink::title, true});
  int row = 2;
  for (const HelpLine& line : kLines) {
    canvas.put(1, row, line.keys, {Ink::title, true});
    canvas.put(32, row++, fit_to_width(line.what, std::max(1, canvas.width() - 32)));
  }
  ++row;
  canvas.put(1, row++, "The bar counts every byte of memory once: its parts add up to MemTotal.", {Ink::dim});
  canvas.put(1, row++, "RSS, PSS and GPU of a process overlap. \"-\" means unknown, not 0.", {Ink::dim});
  canvas.put(1, row++, "OOM: the kernel kills the highest score first. Stalls: tasks wait for memory.",
             {Ink::dim});
}

}  // namespace

std::string short_size(Bytes bytes) {
  static constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes.count);
  std::size_t unit = 0;
  // 999.5 would be printed with four digits.
  while (std::abs(value) >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes.count);
  const double size = std::abs(value);
  return fmt::format("{:.{}f} {}", value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2, kUnits[unit]);
}

Ink ink_of_percent(double percent, Ink usual) {
  return percent >= 90 ? Ink::critical : percent >= 80 ? Ink::warning : usual;
}

std::string bar_text(double share, int columns, bool ascii) {
  static constexpr std::array kEighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * columns * 8));
  std::string text;
  int used = 0;
  for (; used < eighths / 8; ++used) text += ascii ? "#" : "█";
  if (!ascii && eighths % 8 != 0) {
    text += kEighths[static_cast<std::size_t>(eighths % 8)];
    ++used;
  }
  for (; used < columns; ++used) text += ascii ? "." : "░";
  return text;
}

int put_flow(Canvas& canvas, int row, const std::vector<Spans>& pieces, int lines) {
  int column = 0, line = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const int width = width_of(pieces[i]);
    const std::string rest = fmt::format(" +{}", pieces.size() - i);
    // On the last line, keep space for the count of the remaining pieces, unless this is the last piece.
    const int kept = line + 1 == lines && i + 1 < pieces.size() ? display_width(rest) : 0;
    if (column > 0 && column + 2 + width + kept > canvas.width()) {
      if (line + 1 == lines) {
        canvas.put(column, row + line, rest, {Ink::dim});
        return row + lines;
      }
      ++line;
      column = 0;
    }
    column = canvas.put(column == 0 ? 0 : column + 2, row + line, pieces[i]);
  }
  return row + line + 1;
}

int process_rows(const TopPicture& picture, const TopChoice& choice, int width, int height) {
  Canvas canvas(width, height);
  return std::max(1, height - draw_upper(canvas, picture, choice, height) - 2);
}

Canvas draw_top(const TopPicture& picture, const TopChoice& choice, int width, int height) {
  Canvas canvas(width, height);
  if (choice.help) {
    draw_help(canvas);
    return canvas;
  }
  const int row = draw_upper(canvas, picture, choice, height);
  if (choice.show_processes) draw_processes(canvas, row, height - 1, picture, choice);
  if (choice.interactive) draw_keys(canvas, choice);
  return canvas;
}

Canvas draw_top_once(const TopPicture& picture, const TopChoice& choice, int width, int processes) {
  constexpr int kHigh = 200;  // more than the upper panels ever need
  Canvas probe(width, kHigh);
  const int row = draw_upper(probe, picture, choice, kHigh);
  const int shown = std::clamp(static_cast<int>(rows_of(*picture.sample, choice).size()), 1, processes);
  Canvas canvas(width, row + shown + 1);
  draw_upper(canvas, picture, choice, kHigh);
  draw_processes(canvas, row, row + shown + 1, picture, choice);
  return canvas;
}

std::string_view name_of(ProcessColumn column) {
  return name_in({"memory", "gpu", "cpu", "swap", "oom", "pid", "name"}, column);
}

std::optional<ProcessColumn> process_column_by_name(std::string_view name) {
  return find_named(name, ProcessColumn::name);
}

std::vector<const ProcessSample*> rows_of(const SystemSample& sample, const TopChoice& choice) {
  std::vector<const ProcessSample*> rows;
  for (const ProcessSample& process : sample.processes)
    if (matches_filter(process, choice.filter)) rows.push_back(&process);
  std::ranges::stable_sort(rows, [&](const ProcessSample* a, const ProcessSample* b) {
    const int order = compare(*a, *b, choice.sort);
    if (order == 2 || order == -2) return order < 0;
    if (order == 0) return a->pid < b->pid;
    return choice.reversed ? order > 0 : order < 0;
  });
  return rows;
}

}  // namespace headroom::tui
