#include "bench/vos/scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "bench/processes.h"
#include "bench/vos/mask_lines.h"
#include "bench/vos/videos.h"
#include "evaluation/object_scorer.h"
#include "media/vos/masks.h"
#include "types/detection.h"

namespace headroom::bench {
namespace fs = std::filesystem;
namespace {

using evaluation::ObjectScorer;
using evaluation::Protocol;

// One object of the current video.
struct ScoredObject {
  ObjectScorer official, reference;
  std::map<std::int64_t, std::string>::const_iterator next;  // the next mask of the ground truth
  bool is_damaged = false;                                   // a mask could not be read: no score
};

class MaskScorer {
 public:
  MaskScorer(media::MediaEngine& engine, const ScoreJob& job)
      : engine_(engine), job_(job), finished_(job.finished.begin(), job.finished.end()) {}

  bool is_finished(const std::string& video) const { return finished_.contains(video); }
  bool is_finished(const std::string& video, const std::string& object) const {
    return is_finished(video) || finished_.contains(video + "/" + object);
  }

  void begin(PreparedVideo prepared) {
    prepared_ = std::move(prepared);
    objects_.clear();
    for (const VosObject& object : prepared_.video.objects)
      objects_.push_back({ObjectScorer(job_.layout == VosLayout::davis ? Protocol::davis : Protocol::sav),
                          ObjectScorer(Protocol::reference), object.masks.begin()});
    has_masks_.assign(objects_.size(), false);
    findings_.clear();
    const auto frames = std::min(job_.max_frames, static_cast<std::int64_t>(prepared_.video.frames.size()));
    middle_ = frames / 2;
  }

  Status add(VosScores& scores, const MaskLine& line, bool is_drawn) {
    if (line.object >= objects_.size()) return input_error("a predicted mask is of an unknown object");
    if (!is_finished(prepared_.video.id, prepared_.video.objects[line.object].id)) return {};
    has_masks_[line.object] = true;
    if (is_drawn && line.frame == middle_) keep_for_drawing(line);
    ScoredObject& object = objects_[line.object];
    const auto& truths = prepared_.video.objects[line.object].masks;
    for (; object.next != truths.end() && object.next->first <= line.frame; ++object.next)
      add_frame(scores, line.object, object.next->first == line.frame ? &line.mask : nullptr);
    return {};
  }

  // The rest of the ground truth has no prediction.
  void end(VosScores& scores) {
    for (std::size_t i = 0; i < objects_.size(); ++i) {
      const VosObject& object = prepared_.video.objects[i];
      if (object.masks.empty() || !has_masks_[i]) continue;
      for (; objects_[i].next != object.masks.end(); ++objects_[i].next) add_frame(scores, i, nullptr);
      if (objects_[i].is_damaged) continue;
      VosObjectScore score{prepared_.video.id, object.id};
      if (const auto official = objects_[i].official.score()) {
        score.frames = official->frames;
        score.j = official->j.mean;
        score.f = official->f.mean;
        score.j_and_f = official->j_and_f();
      } else {
        note(scores, i, official.error());
      }
      if (const auto reference = objects_[i].reference.score()) {
        score.reference_j = reference->j.mean;
        score.reference_j_and_f = reference->j_and_f();
      }
      scores.scores.push_back(std::move(score));
    }
    // A picture that fails costs no score.
    if (const auto drawn = draw(scores); !drawn && scores.problem.empty())
      scores.problem = fmt::format("no picture of {}: {}", prepared_.video.id, drawn.error().sentence());
  }

 private:
  void add_frame(VosScores& scores, std::size_t index, const BinaryMask* prediction) {
    ScoredObject& object = objects_[index];
    if (object.is_damaged) return;
    auto truth = media::vos::read_mask(engine_, object.next->second, prepared_.video.objects[index].value);
    Status added = truth ? object.official.add(*truth, prediction, scratch_) : Status(forward_error(truth));
    if (added) added = object.reference.add(*truth, prediction, scratch_);
    object.is_damaged = !added;
    if (!added) note(scores, index, added.error());
  }

  // The first object without a score is named.
  void note(VosScores& scores, std::size_t index, const Error& error) const {
    if (scores.problem.empty())
      scores.problem = fmt::format("{}/{} has no score: {}", prepared_.video.id,
                                   prepared_.video.objects[index].id, error.sentence());
  }

  void keep_for_drawing(const MaskLine& line) {
    Mask& mask = findings_.add_mask();
    mask.width = line.mask.width;
    mask.height = line.mask.height;
    mask.values.assign(line.mask.pixels.size(), 0);
    std::ranges::transform(line.mask.pixels, mask.values.begin(), [](std::uint8_t pixel) {
      return static_cast<std::uint8_t>(pixel != 0 ? 255 : 0);
    });
    mask.left = mask.top = 0;
    mask.right = static_cast<float>(mask.width);
    mask.bottom = static_cast<float>(mask.height);
    mask.class_id = static_cast<std::int32_t>(line.object);
  }

  Status draw(VosScores& scores) {
    if (findings_.masks.empty()) return {};
    media::Picture picture;
    const std::string& frame = prepared_.video.frames[static_cast<std::size_t>(middle_)];
    if (auto decoded = engine_.decode_image(frame, picture); !decoded) return decoded;
    std::vector<std::string> names;
    for (const VosObject& object : prepared_.video.objects) names.push_back(object.id);
    const fs::path folder = fs::path(job_.run_folder) / "samples";
    if (auto made = make_folder(folder); !made) return made;
    const std::string name = fmt::format("{}_{}.jpg", file_name_of(job_.model), scores.images.size() + 1);
    if (auto drawn = engine_.write_annotated(picture, findings_, names, (folder / name).string()); !drawn)
      return drawn;
    scores.images.push_back("samples/" + name);
    return {};
  }

  media::MediaEngine& engine_;
  const ScoreJob& job_;
  const std::set<std::string> finished_;
  evaluation::MetricScratch scratch_;
  PreparedVideo prepared_;
  std::vector<ScoredObject> objects_;
  std::vector<bool> has_masks_;
  FrameFindings findings_;
  std::int64_t middle_ = 0;
};

// The indices of videos with a finished clip.
Result<std::vector<std::size_t>> finished_videos(const std::string& path, const MaskScorer& scorer) {
  auto lines = VideoLines::open(path);
  if (!lines) return forward_error(lines);
  std::vector<std::size_t> finished;
  for (std::size_t index = 0;; ++index) {
    auto video = lines->next();
    if (!video) return forward_error(video);
    if (!*video) return finished;
    const VosVideo& read = (*video)->video;
    if (std::ranges::any_of(read.objects,
                            [&](const VosObject& object) { return scorer.is_finished(read.id, object.id); }))
      finished.push_back(index);
  }
}

// The middles of `pictures` equal parts of the videos.
std::vector<std::size_t> drawn_videos(const std::vector<std::size_t>& videos, std::size_t pictures) {
  std::vector<std::size_t> drawn;
  const std::size_t parts = std::min(videos.size(), pictures);
  for (std::size_t i = 0; i < parts; ++i) drawn.push_back(videos[(2 * i + 1) * videos.size() / (2 * parts)]);
  return drawn;
}

}  // namespace

Result<VosScores> score_masks(media::MediaEngine& engine, const ScoreJob& job,
                              const std::function<void()>& on_mask) {
  MaskScorer scorer(engine, job);
  auto videos = finished_videos(job.videos, scorer);
  if (!videos) return forward_error(videos);
  const auto drawn = drawn_videos(*videos, static_cast<std::size_t>(std::max(0, job.pictures)));
  auto lines = VideoLines::open(job.videos);
  if (!lines) return forward_error(lines);
  std::ifstream masks(job.masks);
  if (!masks) return input_error(fmt::format("cannot read {}", job.masks));
  VosScores scores;
  std::optional<std::size_t> current;
  std::size_t next = 0;  // number of videos read
  while (const auto line = read_mask_line(masks)) {
    if (on_mask) on_mask();
    if (current != line->video) {
      if (current) scorer.end(scores);
      std::optional<PreparedVideo> video;
      for (; next <= line->video; ++next) {
        auto read = lines->next();
        if (!read) return forward_error(read);
        video = std::move(*read);
      }
      if (!video) return input_error("the predicted masks are of other videos");
      current = line->video;
      scorer.begin(std::move(*video));
    }
    const bool is_drawn = std::ranges::find(drawn, line->video) != drawn.end();
    if (auto added = scorer.add(scores, *line, is_drawn); !added) return forward_error(added);
  }
  if (current) scorer.end(scores);
  return scores;
}

std::vector<std::string> finished_clips(const VosResult& result) {
  std::vector<std::string> finished;
  for (std::size_t i = 0; i < result.clips.size(); ++i) {
    if (std::ranges::find(result.unscored, i) != result.unscored.end()) continue;
    const VosClip& clip = result.clips[i];
    finished.push_back(clip.object.empty() ? clip.video : clip.video + "/" + clip.object);
  }
  return finished;
}

void add_scores(VosResult& result, std::vector<VosObjectScore> scores) {
  result.scores = std::move(scores);
  const auto mean_of = [&](std::optional<double> VosObjectScore::*figure) -> std::optional<double> {
    double sum = 0;
    std::int64_t count = 0;
    for (const VosObjectScore& score : result.scores)
      if (score.*figure) {
        sum += *(score.*figure);
        ++count;
      }
    return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
  };
  result.j = mean_of(&VosObjectScore::j);
  result.f = mean_of(&VosObjectScore::f);
  result.j_and_f = mean_of(&VosObjectScore::j_and_f);
  result.reference_j = mean_of(&VosObjectScore::reference_j);
  result.reference_j_and_f = mean_of(&VosObjectScore::reference_j_and_f);
}

namespace {

constexpr Nanoseconds kScoreSign{500'000'000};

Result<Json> score(const Json& message) {
  ScoreJob job;
  job.model = get_text(message, "model");
  job.videos = get_text(message, "videos");
  job.masks = get_text(message, "masks");
  job.run_folder = get_text(message, "run_folder");
  job.layout = get_text(message, "layout") == name_of(VosLayout::davis) ? VosLayout::davis : VosLayout::sav;
  job.max_frames = get_integer(message, "max_frames").value_or(job.max_frames);
  job.pictures = static_cast<int>(get_integer(message, "pictures").value_or(0));
  for (const Json& clip : get_member(message, "finished"))
    if (clip.is_string()) job.finished.push_back(clip.get<std::string>());
  auto engine = media::load_media_engine();
  if (!engine) return forward_error(engine);
  Nanoseconds last = monotonic_now();
  auto scores = score_masks(**engine, job, [&] {
    if (monotonic_now() - last < kScoreSign) return;
    last = monotonic_now();
    send_helper_event("alive");
  });
  if (!scores) return forward_error(scores);
  return message_to_json(*scores);
}

}  // namespace

Result<VosScores> score_in_child(const ScoreJob& job, Nanoseconds timeout, Interrupt& interrupt) {
  const Json message{
      {"model", job.model},           {"videos", job.videos},          {"masks", job.masks},
      {"run_folder", job.run_folder}, {"layout", name_of(job.layout)}, {"max_frames", job.max_frames},
      {"pictures", job.pictures},     {"finished", job.finished}};
  auto answer =
      run_helper({.verb = "_score", .purpose = "scoring the masks of " + job.model, .timeout = timeout},
                 message, interrupt);
  std::error_code ignored;
  fs::remove(job.masks, ignored);
  if (!answer) return forward_error(answer);
  return message_from_json<VosScores>(*answer);
}

int run_score_process() { return serve_helper(score); }

}  // namespace headroom::bench
