#include "evaluation/predictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"
#include "media/source_scan.h"
#include "media/vos/masks.h"

namespace headroom::evaluation {
namespace {
namespace fs = std::filesystem;
using media::LabelPicture;

constexpr int kVoid = 255;

bool exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::string reason_in(const Error& error) { return error.why.empty() ? error.what : error.why; }

// Reads mask files. Keeps the last one, because the objects of an indexed file follow one another.
class LabelReader {
 public:
  explicit LabelReader(media::MediaEngine& engine) : engine_(engine) {}

  Result<const LabelPicture*> read(const std::string& path) {
    if (path != path_) {
      path_.clear();
      auto labels = engine_.read_labels(path);
      if (!labels)
        return input_error(
            fmt::format("{}: {}", fs::path(path).filename().string(), reason_in(labels.error())));
      labels_ = std::move(*labels);
      path_ = path;
    }
    return &labels_;
  }

 private:
  media::MediaEngine& engine_;
  std::string path_;
  LabelPicture labels_;
};

// Where the predictions of an object are.
struct PredictedObject {
  fs::path folder;
  bool is_indexed = false;  // several objects share a file
};

// An object, while its frames are scored.
struct ScoredObject {
  const VosObject* object = nullptr;
  PredictedObject predicted;
  ObjectScorer official, reference;
  std::int64_t frames = 0, predicted_frames = 0;
  std::string problem{};
};

// The folder of an object's own predictions: of its name, or of its number.
std::optional<fs::path> object_folder(const fs::path& video, const std::vector<std::string>& folders,
                                      const std::string& id) {
  const auto number = parse_number<int>(id);
  const auto same = [&](const std::string& name) {
    return name == id || (number && parse_number<int>(name) == number);
  };
  const auto exact = std::ranges::find(folders, id);
  const auto found = exact != folders.end() ? exact : std::ranges::find_if(folders, same);
  if (found == folders.end()) return std::nullopt;
  return video / *found;
}

// The value of an object's pixels in an indexed prediction.
int predicted_value(const VosObject& object) {
  return object.value != 0 ? object.value : parse_number<int>(object.id).value_or(0);
}

// A ground truth of 0 and 255 (DAVIS 2016) has one object, which programs write as 1 or as 255.
BinaryMask predicted_mask(const LabelPicture& labels, const ScoredObject& scored) {
  if (!scored.predicted.is_indexed) return media::vos::mask_of(labels, 0);
  const int value = predicted_value(*scored.object);
  BinaryMask mask = media::vos::mask_of(labels, value);
  if (scored.object->value == 0 && value == 1)
    for (std::size_t i = 0; i < mask.pixels.size(); ++i)
      if (labels.values[i] == kVoid) mask.pixels[i] = 1;
  return mask;
}

class PredictionScan {
 public:
  PredictionScan(media::MediaEngine& engine, const VosDataset& dataset, const fs::path& folder,
                 Protocol protocol)
      : dataset_(dataset), folder_(folder), truths_(engine), predictions_(engine) {
    evaluation_.dataset = dataset.folder;
    evaluation_.predictions = folder.string();
    evaluation_.layout = dataset.layout;
    evaluation_.protocol = protocol;
    evaluation_.left_out = dataset.left_out;
  }

  Result<Evaluation> run(const OnVideo& on_video) {
    if (auto listing = media::list_folder(folder_); !listing) return forward_error(listing);
    for (std::size_t i = 0; i < dataset_.videos.size(); ++i) {
      const VosVideo& video = dataset_.videos[i];
      if (on_video) on_video(video.id, static_cast<double>(i) / static_cast<double>(dataset_.videos.size()));
      score_video(video);
    }
    if (evaluation_.objects.empty()) return nothing_scored();
    return std::move(evaluation_);
  }

 private:
  void score_video(const VosVideo& video) {
    fs::path folder = folder_ / video.id;
    if (!is_folder(folder)) {
      if (dataset_.videos.size() > 1)
        return leave_out(video.id, {}, fmt::format("it has no predictions: there is no {}", folder.string()));
      folder = folder_;
    }
    const auto listing = media::list_folder(folder);
    if (!listing) return leave_out(video.id, {}, reason_in(listing.error()));
    std::vector<ScoredObject> objects = find_objects(video, folder, *listing);
    for (std::int64_t frame = 0; frame < std::ssize(video.frames); ++frame)
      for (ScoredObject& scored : objects) score_frame(scored, frame);
    for (const ScoredObject& scored : objects) finish(video, scored);
  }

  std::vector<ScoredObject> find_objects(const VosVideo& video, const fs::path& folder,
                                         const media::FolderListing& listing) {
    std::vector<ScoredObject> objects;
    const bool is_indexed = !listing.images.empty();
    for (const VosObject& object : video.objects) {
      if (object.masks.empty()) {
        leave_out(video.id, object.id, "it has no ground truth");
        continue;
      }
      PredictedObject predicted{folder, is_indexed};
      if (auto own = object_folder(folder, listing.folders, object.id)) {
        predicted = {std::move(*own), false};
      } else if (!is_indexed) {
        leave_out(video.id, object.id,
                  fmt::format("it has no predictions: there is no {}", (folder / object.id).string()));
        continue;
      } else if (const int value = predicted_value(object); value < 1 || value > kVoid) {
        leave_out(video.id, object.id, "an indexed PNG cannot hold it; write a folder for each object");
        continue;
      }
      objects.push_back({.object = &object,
                         .predicted = std::move(predicted),
                         .official = ObjectScorer(evaluation_.protocol),
                         .reference = ObjectScorer(Protocol::reference)});
    }
    return objects;
  }

  void score_frame(ScoredObject& scored, std::int64_t frame) {
    const auto truth_file = scored.object->masks.find(frame);
    if (truth_file == scored.object->masks.end() || !scored.problem.empty()) return;
    const auto truth = truths_.read(truth_file->second);
    if (!truth) {
      scored.problem = "ground truth " + truth.error().what;
      return;
    }
    const BinaryMask truth_mask = media::vos::mask_of(**truth, scored.object->value);
    const fs::path name = fs::path(truth_file->second).filename();
    const std::string file = (scored.predicted.folder / name).string();
    BinaryMask mask;
    const bool is_there = exists(file);
    ++scored.frames;
    scored.predicted_frames += is_there ? 1 : 0;
    if (is_there) {
      const auto labels = predictions_.read(file);
      if (!labels) {
        scored.problem = "prediction " + labels.error().what;
        return;
      }
      mask = predicted_mask(**labels, scored);
    }
    for (ObjectScorer* scorer : {&scored.official, &scored.reference})
      if (auto added = scorer->add(truth_mask, is_there ? &mask : nullptr, scratch_); !added) {
        scored.problem = fmt::format("{}: {}", name.string(), added.error().what);
        return;
      }
  }

  void finish(const VosVideo& video, const ScoredObject& scored) {
    if (!scored.problem.empty()) return leave_out(video.id, scored.object->id, scored.problem);
    if (scored.predicted_frames == 0)
      return leave_out(
          video.id, scored.object->id,
          fmt::format("none of its {} frames has a prediction, such as {}", scored.frames,
                      (scored.predicted.folder / fs::path(scored.object->masks.begin()->second).filename())
                          .string()));
    auto score = scored.official.score();
    if (!score) return leave_out(video.id, scored.object->id, score.error().sentence());
    ObjectEvaluation evaluation{video.id, scored.object->id, *score, {}};
    if (auto reference = scored.reference.score()) evaluation.reference = *reference;
    evaluation_.objects.push_back(std::move(evaluation));
  }

  void leave_out(std::string video, std::string object, std::string why) {
    evaluation_.left_out.push_back({std::move(video), std::move(object), std::move(why)});
  }

  tl::unexpected<Error> nothing_scored() const {
    const VosLeftOut& last = evaluation_.left_out.back();
    return input_error(
        fmt::format("cannot score the predictions {}", folder_.string()),
        fmt::format("video {}{}: {}", last.video,
                    last.object.empty() ? "" : fmt::format(", object {}", last.object), last.why),
        evaluation_.layout == VosLayout::folder
            ? "use a data set with masks, such as SA-V or DAVIS (docs/evaluate.md)"
            : "write VIDEO/FRAME.png or VIDEO/OBJECT/FRAME.png (docs/evaluate.md)");
  }

  const VosDataset& dataset_;
  const fs::path& folder_;
  LabelReader truths_, predictions_;
  MetricScratch scratch_;
  Evaluation evaluation_;
};

// The mean over objects of what `score_of` gives; null is left out.
template <class ScoreOf>
MeanScore mean_over(const std::vector<ObjectEvaluation>& objects, const ScoreOf& score_of) {
  MeanScore mean;
  const auto add = [](Statistics& sum, const Statistics& more) {
    sum.mean += more.mean;
    sum.recall += more.recall;
    sum.decay += more.decay;
  };
  for (const ObjectEvaluation& object : objects) {
    const ObjectScore* score = score_of(object);
    if (score == nullptr) continue;
    ++mean.objects;
    add(mean.j, score->j);
    add(mean.f, score->f);
  }
  if (mean.objects == 0) return mean;
  for (Statistics* sum : {&mean.j, &mean.f})
    for (double Statistics::*figure : {&Statistics::mean, &Statistics::recall, &Statistics::decay})
      sum->*figure /= static_cast<double>(mean.objects);
  return mean;
}

}  // namespace

Protocol protocol_of(VosLayout layout) { return layout == VosLayout::sav ? Protocol::sav : Protocol::davis; }

MeanScore mean_score(const std::vector<ObjectEvaluation>& objects) {
  return mean_over(objects, [](const ObjectEvaluation& object) { return &object.score; });
}

MeanScore mean_reference_score(const std::vector<ObjectEvaluation>& objects) {
  return mean_over(objects, [](const ObjectEvaluation& object) -> const ObjectScore* {
    return object.reference ? &*object.reference : nullptr;
  });
}

Result<Evaluation> evaluate_predictions(media::MediaEngine& engine, const VosDataset& dataset,
                                        const fs::path& folder, Protocol protocol, const OnVideo& on_video) {
  return PredictionScan(engine, dataset, folder, protocol).run(on_video);
}

}  // namespace headroom::evaluation
