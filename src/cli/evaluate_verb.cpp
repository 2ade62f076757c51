#include "cli/verbs.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/files.h"
#include "base/json.h"
#include "base/terminal.h"
#include "cli/common_flags.h"
#include "evaluation/evaluation_json.h"
#include "evaluation/predictions.h"
#include "media/vos/dataset.h"
#include "report/evaluation/evaluation_views.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

Result<int> run_evaluate(const FlagValues& values) {
  if (!values.positionals().empty())
    return usage_error(fmt::format("unexpected argument '{}'", values.positionals().front()), "",
                       "write headroom evaluate --dataset DIR --predictions DIR");
  for (const char* flag : {"dataset", "predictions"})
    if (!values.has(flag))
      return usage_error(fmt::format("headroom evaluate needs --{} DIR", flag), "",
                         "write headroom evaluate --dataset DIR --predictions DIR");
  auto engine = media::load_media_engine();
  if (!engine) return forward_error(engine);
  auto dataset =
      media::vos::scan_dataset(**engine, fs::path(values.text("dataset")), {.check_first_masks = false});
  if (!dataset) return forward_error(dataset);
  const auto protocol = values.has("protocol")
                            ? *find_named(values.text("protocol"), evaluation::Protocol::reference)
                            : evaluation::protocol_of(dataset->layout);
  ProgressLine progress;
  const auto evaluated = evaluation::evaluate_predictions(
      **engine, *dataset, fs::path(values.text("predictions")), protocol,
      [&progress](const std::string& video, double done) { progress.update("evaluate", done, video); });
  progress.clear();
  if (!evaluated) return tl::unexpected<Error>(evaluated.error());
  if (values.has("csv"))
    if (auto written = write_file_atomically(values.text("csv"), report::evaluation_to_csv(*evaluated));
        !written)
      return forward_error(written);
  return print_views(values, {.terminal =
                                  [&](bool color, int width) {
                                    return report::evaluation_to_terminal(*evaluated, color, width);
                                  },
                              .json = [&] { return to_text(evaluation::evaluation_to_json(*evaluated)); }});
}

}  // namespace

const Verb& evaluate_verb() {
  static const Verb kVerb{
      .name = "evaluate",
      .summary = "Score predicted masks against the ground truth of a data set",
      .usage = "headroom evaluate --dataset DIR --predictions DIR [FLAGS]",
      .description =
          "Scores masks that any program wrote (docs/evaluate.md): J (region), F (boundary), their mean, "
          "recall and decay, by the official protocols of DAVIS and SA-V. Next to them stand the values of "
          "the reference benchmark's protocol. Predictions are DIR/VIDEO/FRAME.png with the numbers of "
          "objects, or DIR/VIDEO/OBJECT/FRAME.png. Objects that cannot be scored are named and left out. "
          "Exits with 2 if there is none to score.",
      .examples = {"headroom evaluate --dataset DAVIS --predictions masks",
                   "headroom evaluate --dataset sav_val --predictions masks --protocol sav --json",
                   "headroom evaluate --dataset DAVIS --predictions masks --csv scores.csv"},
      .flags = {choice_flag("task", {"vos"}, "task; vos is video object segmentation"),
                text_flag("dataset", "DIR", "folder of SA-V or DAVIS, or of frames/ and gt/"),
                text_flag("predictions", "DIR", "folder with a folder of masks for each video"),
                choice_flag("protocol", {"davis", "sav", "reference"}, "frames that count, and how")
                    .with_default("by the data set"),
                toggle_flag("json", "print all figures as JSON"),
                text_flag("csv", "FILE", "also write a line for each object to FILE"), color_flag()},
      .run = run_with_flags<evaluate_verb, run_evaluate>,
  };
  return kVerb;
}

}  // namespace headroom::cli
