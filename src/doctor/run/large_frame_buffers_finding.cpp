#include <fmt/format.h>

#include "doctor/new_finding.h"
#include "doctor/run/model_cures.h"
#include "doctor/run/run_finding.h"

namespace headroom::doctor {

std::optional<Finding> large_frame_buffers(const ModelResult& model) {
  const auto &frames = model.memory.frames, &peak = model.memory.run_peak;
  if (!frames || !peak || frames->count < 4 * kWorthTelling || frames->count * 4 < peak->count)
    return std::nullopt;
  Finding finding =
      new_finding("large-frame-buffers", Severity::note,
                  fmt::format("{} of the {} of {} are decoded frames", format_bytes(*frames),
                              format_bytes(*peak), model.name),
                  "Frames are kept in memory, larger or more of them than the model needs at once.");
  finding.figures = {{"frames_bytes", frames->count}, {"run_peak_bytes", peak->count}};
  constexpr std::int64_t kFewer = 8;
  Cure fewer{"keep fewer of them", fmt::format("--max-frames-in-mem {}", kFewer), Bytes{frames->count / 2}};
  fewer.settings = CureSettings{model.name, ""};
  fewer.settings->max_frames_in_memory = kFewer;
  finding.cures = {std::move(fewer)};
  return finding;
}

}  // namespace headroom::doctor
