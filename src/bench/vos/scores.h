// Scores the masks of a measured model and draws some of them, in a child process with the image libraries,
// after the measurement.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/conductor/child_process.h"
#include "bench/protocol.h"
#include "media/media_engine.h"
#include "types/vos.h"

namespace headroom::bench {

struct ScoreJob {
  std::string model;   // its name, for the names of pictures
  std::string videos;  // file of prepared videos (vos/videos.h)
  std::string masks;   // file of predicted masks (vos/mask_lines.h)
  std::string run_folder;
  VosLayout layout = VosLayout::sav;  // davis: DAVIS's protocol; else SA-V's
  std::int64_t max_frames = 300;
  // Videos, or "VIDEO/OBJECT", that the worker finished. The masks of others may be incomplete.
  std::vector<std::string> finished{};
  int pictures = 0;  // of the middle frames of so many videos, spread over those that are finished
};

// The clips of `result` for ScoreJob::finished.
std::vector<std::string> finished_clips(const VosResult& result);

// Reads one video at a time, mask by mask. Objects whose protocol gives no score have none, and `problem`
// says why for the first of them. Objects without ground truth, and those
// of unfinished clips, are left out.
Result<VosScores> score_masks(media::MediaEngine& engine, const ScoreJob& job,
                              const std::function<void()>& on_mask = {});

// Fills scores and their means.
void add_scores(VosResult& result, std::vector<VosObjectScore> scores);

// The conductor's side: runs the child. Removes the file of masks.
Result<VosScores> score_in_child(const ScoreJob& job, Nanoseconds timeout, Interrupt& interrupt);

}  // namespace headroom::bench
