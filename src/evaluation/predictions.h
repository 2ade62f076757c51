// Scores the masks that any program wrote against the ground truth of a data set (headroom evaluate,
// docs/evaluate.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "evaluation/object_scorer.h"
#include "media/media_engine.h"
#include "types/vos.h"

namespace headroom::evaluation {

struct ObjectEvaluation {
  std::string video{}, object{};
  ObjectScore score{};
  std::optional<ObjectScore> reference{};  // by the reference benchmark's protocol; absent if it skips it
};

// Means over objects.
struct MeanScore {
  std::int64_t objects = 0;
  Statistics j{}, f{};
  double j_and_f() const { return (j.mean + f.mean) / 2; }
};

struct Evaluation {
  std::string dataset{}, predictions{};
  VosLayout layout = VosLayout::davis;
  Protocol protocol = Protocol::davis;
  std::vector<ObjectEvaluation> objects{};
  std::vector<VosLeftOut> left_out{};  // by the data set, or because they cannot be scored
};

// The official protocol of a layout.
Protocol protocol_of(VosLayout layout);

MeanScore mean_score(const std::vector<ObjectEvaluation>& objects);
// Of the objects that the reference protocol does not skip.
MeanScore mean_reference_score(const std::vector<ObjectEvaluation>& objects);

// Called before each video with the share of videos that are done.
using OnVideo = std::function<void(const std::string& video, double done)>;

// The predictions of a video are in FOLDER/VIDEO, or in FOLDER itself if the data set has one video:
//   OBJECT/FRAME.png   every pixel that is not 0; "001" is also object 1
//   FRAME.png          pixels of the object's number; for a DAVIS 2016 object, of 1 or 255
// FRAME is the name of the ground truth's file. A video without predictions, and an object with a damaged
// mask or one of another size, go into `left_out`. Fails if no object can be scored.
Result<Evaluation> evaluate_predictions(media::MediaEngine& engine, const VosDataset& dataset,
                                        const std::filesystem::path& folder, Protocol protocol,
                                        const OnVideo& on_video = {});

}  // namespace headroom::evaluation
