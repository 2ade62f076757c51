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

std::vector<std::string> score_notes(const Evaluation& evaluation) {
  std::vector<std::string> notes;
  for (const ObjectEvaluation& object : evaluation.objects)
    if (object.score.missing_frames > 0)
      notes.push_back(
          fmt::format("{} {}: {} of {} frames have no prediction and count as {}", object.video,
                      object.object, object.score.missing_frames, object.score.frames,
                      evaluation.protocol == evaluation::Protocol::reference ? "0" : "empty masks"));
  for (const VosLeftOut& item : evaluation.left_out)
    notes.push_back(fmt::format("{}{}{} left out: {}", item.video, item.object.empty() ? "" : " ",
                                item.object, item.why));
  return notes;
}

}  // namespace

std::string evaluation_to_terminal(const Evaluation& evaluation, bool color, int width) {
  ScreenLines lines(color, width);
  lines.title(fmt::format("{}, protocol {}", counted(std::ssize(evaluation.objects), "object"),
                          name_of(evaluation.protocol)));
  lines.indented(fmt::format("data set     {}", evaluation.dataset));
  lines.indented(fmt::format("predictions  {}", evaluation.predictions));
  lines.line("");
  std::vector<Column> columns = score_columns(evaluation);
  constexpr int kNarrowestName = 16;
  const auto left_out = fit_columns(columns, lines.width(), kNarrowestName);
  lines.table(columns);
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
