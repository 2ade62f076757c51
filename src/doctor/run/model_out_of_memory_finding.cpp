#include <fmt/format.h>

#include "base/text.h"
#include "doctor/new_finding.h"
#include "doctor/run/model_cures.h"
#include "doctor/run/run_finding.h"
#include "report/words.h"

namespace headroom::doctor {

namespace {

// Whether the weights can be most of it: as they are read, re-packed, and while they are converted.
bool may_be_weights(const ModelResult& model) {
  constexpr std::int64_t kMostCopies = 3;
  if (!model.file_size || !model.memory.load_peak) return true;
  return kMostCopies * model.file_size->count * 4 >= model.memory.load_peak->count;
}

std::string cause_of(const ModelResult& model, bool while_loading) {
  if (!while_loading) return "The memory that a run needs besides the weights did not fit.";
  if (may_be_weights(model))
    return "Loading needs more memory than running: it holds the file, the weights and their re-packed "
           "copies at once.";
  return fmt::format(
      "The runtime and its structures for the model need most of the memory: the model file has {}, but {} "
      "were resident{}.",
      format_bytes(*model.file_size), format_bytes(*model.memory.load_peak),
      model.memory.runtime ? fmt::format(", {} of them before loading", format_bytes(*model.memory.runtime))
                           : "");
}

}  // namespace

std::optional<Finding> model_out_of_memory(const ModelResult& model, const BenchResult& run) {
  if (model.status != ModelStatus::oom) return std::nullopt;
  const bool while_loading = model.died_in && *model.died_in < Phase::model_loaded;
  const auto limit =
      run.limit && model.settings.device == "cpu" ? std::optional(run.limit->bytes) : std::nullopt;
  Finding finding =
      new_finding("model-out-of-memory", Severity::severe,
                  fmt::format("{} ran out of memory{}{}", model.name,
                              model.died_in ? fmt::format(" {}", report::activity_after(*model.died_in)) : "",
                              limit ? fmt::format(", under a limit of {}", format_bytes(*limit)) : ""),
                  cause_of(model, while_loading), Confidence::likely);
  finding.evidence = {{"", 0, model.error}};
  const auto add_figure = [&finding](const char* name, const std::optional<Bytes>& bytes) {
    if (bytes) finding.figures.push_back({name, bytes->count});
  };
  add_figure("limit_bytes", limit);
  if (limit) add_figure("limit_peak_bytes", limit_peak(model.memory, run.limit));
  add_figure("runtime_bytes", model.memory.runtime);
  add_figure("load_peak_bytes", model.memory.load_peak);  // as far as it came
  add_figure("run_peak_bytes", model.memory.run_peak);
  add_figure("file_bytes", model.file_size);
  const Cure measure{"measure how much memory it needs without a limit", "headroom bench", {}};
  const bool weights_matter = !while_loading || may_be_weights(model);
  if (!weights_matter) finding.cures.push_back(measure);
  if (while_loading && can_map(model))
    finding.cures.push_back(with_settings(
        model, "map the weights from a file that is prepared once, without the limit or on a larger machine",
        "mapped=on,prepack=off", model.file_size));
  finding.cures.push_back({"search for settings that fit", "headroom bench --tune", {}});
  add_leaner_settings(finding, model);
  finding.cures.push_back(smaller_input());
  if (weights_matter) finding.cures.push_back(measure);
  finding.cures.push_back({"see which layers hold the memory", "headroom bench --layers", {}});
  return finding;
}

}  // namespace headroom::doctor
