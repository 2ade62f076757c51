#include "report/evaluation/evaluation_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "base/text.h"
#include "base/utf8.h"
#include "report/text_layout.h"
#include "report/words.h"

namespace headroom::report {
namespace {

using evaluation::Evaluation;
using evaluation::MeanScore;
using evaluation::ObjectEvaluation;
using evaluation::ObjectScore;

constexpr std::size_t kMostNotes = 6;
constexpr int kNarrowestName = 16;

// Never "-0.000".
std::string score_words(double score) { return fmt::format("{:.3f}", std::abs(score) < 0.0005 ? 0 : score); }

// The cells behind the object's name. `Score` is of one object, or the mean.
template <class Score>
std::vector<std::string> score_cells(std::string name, std::string frames, const Score& score,
                                     const std::optional<Score>& reference) {
  std::vector<std::string> cells{std::move(name), std::move(frames), score_words(score.j_and_f()),
                                 score_words(score.j.mean), score_words(score.f.mean)};
  for (const double figure : {score.j.recall, score.j.decay, score.f.recall, score.f.decay})
    cells.push_back(score_words(figure));
  cells.emplace_back(reference ? score_words(reference->j.mean) : kAbsent);
  cells.emplace_back(reference ? score_words(reference->f.mean) : kAbsent);
  return cells;
}

std::vector<Column> score_columns(const Evaluation& evaluation) {
  std::vector<Column> columns{
      {"OBJECT", 0, false}, {"FRAMES", 2},  {"J&F"},         {"J"},          {"F"},
      {"J RECALL", 4},      {"J DECAY", 5}, {"F RECALL", 4}, {"F DECAY", 5}, {"REF J", 3},
      {"REF PROXY F", 3}};
  for (const ObjectEvaluation& object : evaluation.objects)
    add_row(columns, score_cells(fmt::format("{} {}", object.video, object.object),
                                 fmt::format("{}", object.score.frames), object.score, object.reference));
  const MeanScore reference = evaluation::mean_reference_score(evaluation.objects);
  add_row(columns, score_cells("mean", "", evaluation::mean_score(evaluation.objects),
                               reference.objects > 0 ? std::optional(reference) : std::nullopt));
  for (Column& column : columns) {
    column.paints.assign(column.cells.size(), {});
    column.paints.back() = kBold;
  }
  return columns;
}

// One table, or as many as a narrow terminal needs to show all columns. Related figures stay together.
std::vector<std::vector<Column>> tables_of(const Evaluation& evaluation, int width) {
  const std::vector<Column> all = score_columns(evaluation);
  const std::vector<Column> name{all.front()};
  std::vector<std::vector<Column>> tables;
  auto first = all.begin() + 1;
  for (const std::ptrdiff_t count : {4, 4, 2}) {  // scores, recall and decay, the reference's scores
    std::vector<Column> wider = tables.empty() ? name : tables.back();
    wider.insert(wider.end(), first, first + count);
    if (tables.empty() || !all_columns_fit(wider, width, kNarrowestName)) {
      wider = name;
      wider.insert(wider.end(), first, first + count);
      tables.emplace_back();
    }
    tables.back() = std::move(wider);
    first += count;
  }
  return tables;
}

std::vector<std::string> score_notes(const Evaluation& evaluation) {
  std::vector<std::string> notes;
  const bool is_reference = evaluation.protocol == evaluation::Protocol::reference;
  for (const ObjectEvaluation& object : evaluation.objects) {
    const std::int64_t missing = object.score.missing_frames;
    if (missing == 0) continue;
    const std::string_view one =
        is_reference ? "has no prediction and counts as 0" : "has no prediction and counts as an empty mask";
    const std::string_view several =
        is_reference ? "have no prediction and count as 0" : "have no prediction and count as empty masks";
    notes.push_back(fmt::format("{} {}: {} of {} {}", object.video, object.object, missing,
                                counted(object.score.frames, "frame"), missing == 1 ? one : several));
  }
  for (const VosLeftOut& item : evaluation.left_out)
    notes.push_back(fmt::format("{}{}{} left out: {}", item.video.empty() ? "object" : item.video,
                                item.object.empty() ? "" : " ", item.object, item.why));
  return notes;
}

}  // namespace

std::string evaluation_to_terminal(const Evaluation& evaluation, bool color, int width) {
  ScreenLines lines(color, width);
  lines.title(fmt::format("{}, protocol {}", counted(std::ssize(evaluation.objects), "object"),
                          name_of(evaluation.protocol)));
  constexpr int kIndent = 15;
  lines.line("  data set     " + wrap(evaluation.dataset, lines.width() - kIndent, kIndent));
  lines.line("  predictions  " + wrap(evaluation.predictions, lines.width() - kIndent, kIndent));
  lines.line("");
  std::vector<std::string> left_out;
  bool is_first = true;
  for (std::vector<Column>& columns : tables_of(evaluation, lines.width())) {
    if (!is_first) lines.line("");
    is_first = false;
    const auto less = fit_columns(columns, lines.width(), kNarrowestName, TooLong::goes_on_below);
    left_out.insert(left_out.end(), less.begin(), less.end());
    lines.table(columns);
  }
  if (const std::string wider = wider_terminal_words(left_out); !wider.empty()) {
    lines.line("");
    lines.wrapped(wider);
  }
  const std::vector<std::string> notes = score_notes(evaluation);
  if (!notes.empty()) lines.line("");
  for (const std::string& note : first_of(notes, kMostNotes)) lines.sentence("!", kYellow, note);
  if (notes.size() > kMostNotes) lines.line(fmt::format("  and {} more (--json)", notes.size() - kMostNotes));
  return std::move(lines).text();
}

std::string evaluation_to_csv(const Evaluation& evaluation) {
  std::string text =
      "video,object,frames,missing_frames,j_and_f,j_mean,j_recall,j_decay,f_mean,f_recall,f_decay,"
      "reference_j_mean,reference_f_mean\n";
  for (const ObjectEvaluation& object : evaluation.objects) {
    const ObjectScore& score = object.score;
    text +=
        fmt::format("{},{},{},{},{},{},{},{},{},{},{},", csv_field(object.video), csv_field(object.object),
                    score.frames, score.missing_frames, score.j_and_f(), score.j.mean, score.j.recall,
                    score.j.decay, score.f.mean, score.f.recall, score.f.decay);
    text += object.reference ? fmt::format("{},{}\n", object.reference->j.mean, object.reference->f.mean)
                             : std::string(",\n");
  }
  return text;
}

}  // namespace headroom::report
