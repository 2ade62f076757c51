#include <fmt/format.h>

#include <algorithm>

#include "doctor/new_finding.h"
#include "doctor/run/model_cures.h"
#include "doctor/run/run_finding.h"

namespace headroom::doctor {
namespace {

const ModelResult* with_most_frames(const BenchResult& result) {
  const ModelResult* most = nullptr;
  for (const ModelResult& model : result.models) {
    const auto &frames = model.memory.frames, &peak = model.memory.run_peak;
    if (!frames || !peak || frames->count < 4 * kWorthTellingOfModels || frames->count * 4 < peak->count)
      continue;
    if (most == nullptr || *most->memory.frames < *frames) most = &model;
  }
  return most;
}

// Frames that were held at once: the buffers have the size of the source's largest.
std::int64_t frames_held(const BenchResult& result, Bytes buffers) {
  if (!result.source || result.source->largest_frame.count <= 0) return 0;
  return buffers.count / result.source->largest_frame.count;
}

}  // namespace

// All models read the frames of one source.
std::vector<Finding> large_frame_buffers(const BenchResult& result) {
  const ModelResult* model = with_most_frames(result);
  if (model == nullptr) return {};
  const Bytes frames = *model->memory.frames, peak = *model->memory.run_peak;
  Finding finding =
      new_finding("large-frame-buffers", Severity::note,
                  fmt::format("{} of the {} peak of {} are decoded frames", format_bytes(frames),
                              format_bytes(peak), model->name),
                  "The run keeps more or larger frames in memory than the model needs at once.");
  finding.figures = {{"frames_bytes", frames.count}, {"run_peak_bytes", peak.count}};
  constexpr std::int64_t kEnough = 8;
  const std::int64_t held = frames_held(result, frames), fewer = std::min(kEnough, held / 2);
  if (held > 0) finding.figures.push_back({"frames_held", held});
  if (fewer > 0) {
    Cure cure{fmt::format("keep {} frames in memory instead of {}", fewer, held),
              fmt::format("--max-frames-in-mem {}", fewer), Bytes{frames.count / held * (held - fewer)}};
    cure.settings = CureSettings{model->name, ""};
    cure.settings->max_frames_in_memory = fewer;
    finding.cures.push_back(std::move(cure));
  }
  finding.cures.push_back(
      {"use pictures of the model's input size: a picture is decoded whole and scaled down afterwards",
       "",
       {}});
  return {finding};
}

}  // namespace headroom::doctor
