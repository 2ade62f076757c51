// The table at the end of `headroom bench`: the few figures that decide, at most 80 columns wide. Columns are
// as wide as their content; the names get what is left. Where that is too little, the least important columns
// go first.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "report/display_width.h"
#include "report/verdict.h"
#include "report/views.h"
#include "report/words.h"

namespace headroom::report {
namespace {

constexpr int kNarrowest = 40;  // narrower terminals get lines that the terminal wraps
constexpr int kShortestName = 10;
constexpr int kRounds = 4;  // of leaving out a column
constexpr std::string_view kGap = "  ";

constexpr std::string_view kRed = "\033[31m", kGreen = "\033[32m", kYellow = "\033[33m", kBold = "\033[1m",
                           kPlain = "\033[0m";

std::string painted(std::string_view text, std::string_view paint, bool color) {
  return color ? fmt::format("{}{}{}", paint, text, kPlain) : std::string(text);
}

struct Column {
  std::string title;
  std::vector<std::string> cells;
  bool to_the_right = true;
  int goes = 0;  // order in which columns are left out when the table is too wide; 0: never
  int width() const {
    int widest = display_width(title);
    for (const std::string& cell : cells) widest = std::max(widest, display_width(cell));
    return widest;
  }
};

std::string share_of_limit(const ModelResult& model, const Limit& limit) {
  const auto peak = peak_of(model);
  if (!peak || limit.bytes.count <= 0) return std::string(kAbsent);
  return words_for_share(static_cast<double>(peak->count) / static_cast<double>(limit.bytes.count));
}

// One unit for a whole column, named above the table: figures compare down it, and names get the space.
std::string in_milliseconds(Nanoseconds time) {
  const double ms = time.milliseconds();
  return fmt::format("{:.{}f}", ms, ms < 9.9995 ? 3 : ms < 99.995 ? 2 : 1);
}
std::string in_mebibytes(const std::optional<Bytes>& bytes) {
  if (!bytes) return std::string(kAbsent);
  return fmt::format("{:.1f}", static_cast<double>(bytes->count) / (1 << 20));
}

std::string status_of(const ModelResult& model) {
  if (model.status == ModelStatus::ok && exceeded_limit(model)) return "over";
  return std::string(name_of(model.status));
}

std::vector<Column> columns_of(const BenchResult& result) {
  std::vector<Column> columns{{"MODEL", {}, false, 0}, {"STATUS", {}, false, 0}, {"FPS", {}, true, 0},
                              {"P50", {}, true, 4},    {"P99", {}, true, 2},     {"LOAD", {}, true, 1},
                              {"RUN", {}, true, 0}};
  if (result.limit) columns.push_back({"LIMIT", {}, true, 3});
  for (const ModelResult& model : result.models) {
    const auto latency = [&](auto pick) {
      return model.inference ? in_milliseconds(pick(*model.inference)) : std::string(kAbsent);
    };
    std::size_t next = 0;
    const auto add = [&](std::string text) { columns[next++].cells.push_back(std::move(text)); };
    add(model.name);
    add(status_of(model));
    add(words_for_rate(model.fps));
    add(latency([](const LatencySummary& l) { return l.p50; }));
    add(latency([](const LatencySummary& l) { return l.p99; }));
    add(in_mebibytes(model.memory.load_peak));
    add(in_mebibytes(model.memory.run_peak));
    if (result.limit) add(share_of_limit(model, *result.limit));
  }
  return columns;
}

// Leaves out columns until the names have room; returns that room.
int make_room(std::vector<Column>& columns, int width) {
  const int names = columns.front().width();
  for (int round = 1;; ++round) {
    int room = width;
    for (std::size_t i = 1; i < columns.size(); ++i)
      room -= columns[i].width() + static_cast<int>(kGap.size());
    if (room >= std::min(names, kShortestName) || round > kRounds) return std::clamp(room, 1, names);
    std::erase_if(columns, [&](const Column& column) { return column.goes == round; });
  }
}

std::string_view paint_of(const ModelResult& model) {
  if (model.status == ModelStatus::skipped) return kYellow;
  return model.status == ModelStatus::ok && !exceeded_limit(model) ? kGreen : kRed;
}

std::string padded(const std::string& text, int width, bool to_the_right) {
  const std::string space(static_cast<std::size_t>(std::max(0, width - display_width(text))), ' ');
  return to_the_right ? space + text : text + space;
}

std::string table(const BenchResult& result, bool color, int width) {
  std::vector<Column> columns = columns_of(result);
  const int name_width = make_room(columns, width);
  for (std::string& name : columns.front().cells) name = fit_to_width(name, name_width);

  std::string text;
  for (std::size_t row = 0; row <= result.models.size(); ++row) {  // row 0 is the header
    std::string line;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const Column& column = columns[i];
      const std::string& cell = row == 0 ? column.title : column.cells[row - 1];
      std::string shown =
          padded(cell, i == 0 ? std::max(name_width, 5) : column.width(), column.to_the_right);
      if (row == 0) shown = painted(shown, kBold, color);
      if (row > 0 && i == 1) shown = painted(shown, paint_of(result.models[row - 1]), color);
      line += (i == 0 ? "" : std::string(kGap)) + shown;
    }
    text += line + "\n";
  }
  return text;
}

// A sign and a sentence with one full stop; a runtime's error message may bring its own.
std::string sentence(std::string_view sign, std::string_view paint, const std::string& text, bool color,
                     int width) {
  const std::string_view end = text.ends_with('.') || text.ends_with(':') ? "" : ".";
  return fmt::format("{} {}\n", sign == " " ? " " : painted(sign, paint, color),
                     wrap(fmt::format("{}{}", text, end), width - 2, 2));
}

}  // namespace

std::string to_terminal(const BenchResult& result, bool color, int width) {
  width = std::max(width, kNarrowest);
  std::string text;
  if (!result.complete)
    text += sentence("!", kYellow, "This run was interrupted; what was measured until then:", color, width);
  if (!result.models.empty()) {
    text += wrap(result.limit ? fmt::format("Latency in ms, peaks in MiB and as a share of the limit of {}",
                                            format_bytes(result.limit->bytes))
                              : std::string("Latency in ms, peaks in MiB"),
                 width, 0) +
            "\n\n" + table(result, color, width) + "\n";
  }

  const Verdict verdict = verdict_of(result);
  constexpr std::array<std::string_view, 3> kSigns{"✓", "·", "✗"};
  constexpr std::array<std::string_view, 3> kPaints{kGreen, kYellow, kRed};
  const auto tone = static_cast<std::size_t>(verdict.tone);
  text += sentence(kSigns.at(tone), kPaints.at(tone), verdict.sentence, color, width);
  for (const std::string& detail : verdict.details) text += sentence(" ", "", detail, color, width);

  if (result.parallel && result.parallel->joint_peak)
    text += sentence(
        "·", kYellow,
        fmt::format("All at once: joint peak {}, sum of the peaks alone {}.",
                    format_bytes(*result.parallel->joint_peak), words_for(result.parallel->sum_of_peaks)),
        color, width);
  if (result.pipeline && result.pipeline->peak)
    text += sentence("·", kYellow,
                     fmt::format("Pipeline of {}: {} FPS, peak {}.",
                                 counted(static_cast<std::int64_t>(result.pipeline->models.size()), "model"),
                                 words_for_rate(result.pipeline->fps), format_bytes(*result.pipeline->peak)),
                     color, width);
  const auto warn = [&](const std::string& warning) {
    text += sentence("!", kYellow, warning, color, width);
  };
  for (const std::string& warning : result.warnings) warn(warning);
  for (const ModelResult& model : result.models)
    for (const std::string& warning : model.warnings) warn(model.name + ": " + warning);
  if (result.source && !result.source->skipped.empty())
    warn(fmt::format("{} of the source could not be used; the report names them.",
                     counted(static_cast<std::int64_t>(result.source->skipped.size()), "item")));
  return text;
}

}  // namespace headroom::report
