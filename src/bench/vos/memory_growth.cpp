#include "bench/vos/memory_growth.h"

#include <algorithm>

#include "monitoring/series_growth.h"

namespace headroom::bench {
namespace {

// Less is noise of the allocator: its heap keeps some freed pages.
constexpr double kLeastLeak = 64 << 10, kLeastLoadLeak = 1 << 20, kLeastFrameLeak = 16 << 10;

std::optional<GrowthSlope> slope_of(std::span<const double> x, std::span<const double> y) {
  const auto slope = monitoring::slope_with_interval(x, y);
  if (!slope) return std::nullopt;
  return GrowthSlope{slope->slope, slope->low, slope->high, static_cast<std::int64_t>(x.size())};
}

// What remained after each cleaning, summed from step to step.
class Remains {
 public:
  void add(double step) { sums_.push_back((sums_.empty() ? 0 : sums_.back()) + step); }
  // The leak if it grows at nearly each step.
  std::optional<VosLeak> leak(const char* level, const char* memory) const {
    std::vector<std::int64_t> steps, bytes;
    std::vector<double> x;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      steps.push_back(static_cast<std::int64_t>(i + 1));
      x.push_back(static_cast<double>(i + 1));
      bytes.push_back(static_cast<std::int64_t>(sums_[i]));
    }
    const auto slope = slope_of(x, sums_);
    if (!slope || slope->low < kLeastLeak) return std::nullopt;
    if (monitoring::growth_of(steps, bytes, kLeastLeak).growth != monitoring::Growth::leak)
      return std::nullopt;
    return VosLeak{level, memory, *slope};
  }

 private:
  std::vector<double> sums_;
};

// A step within a video is an object's; a step to the next video's first clip is that video's. Several
// objects that ran together leave more than one that ran alone, so only runs of the same kind are compared.
void add_leaks(VosResult& result, const char* memory, std::optional<Bytes> VosClip::*after,
               std::optional<Bytes> VosObjectEnd::*after_object) {
  Remains objects, videos;
  std::int64_t steps = 0, objects_in_steps = 0;  // to the next video
  const VosClip* earlier = nullptr;
  std::int64_t ran_alone = 0;  // objects after the earlier clip
  auto end = result.object_ends.begin();
  for (const VosClip& clip : result.clips) {
    if (!(clip.*after)) return;
    if (earlier != nullptr) {
      const auto step = static_cast<double>((*(clip.*after) - *(earlier->*after)).count);
      const bool begins_video = earlier->video != clip.video;
      (begins_video ? videos : objects).add(step);
      steps += begins_video ? 1 : 0;
      objects_in_steps += begins_video ? ran_alone + std::max<std::int64_t>(1, clip.objects) : 0;
    }
    earlier = &clip;
    ran_alone = 0;
    const Bytes* last = clip.objects == 1 ? &*(clip.*after) : nullptr;
    for (; end != result.object_ends.end() && end->video == clip.video; ++end, ++ran_alone) {
      const std::optional<Bytes>& now = (*end).*after_object;
      if (!now) return;
      if (last != nullptr) objects.add(static_cast<double>((*now - *last).count));
      last = &*now;
    }
  }
  const auto of_objects = objects.leak("object", memory);
  if (of_objects) result.leaks.push_back(*of_objects);
  auto of_videos = videos.leak("video", memory);
  if (!of_videos) return;
  // The step to the next video also has what objects left.
  if (of_objects) {
    const double each = static_cast<double>(objects_in_steps) / static_cast<double>(steps);
    for (double GrowthSlope::*figure : {&GrowthSlope::slope, &GrowthSlope::low, &GrowthSlope::high})
      of_videos->growth.*figure -= each * of_objects->growth.slope;
    if (of_videos->growth.low < kLeastLeak) return;
  }
  result.leaks.push_back(*of_videos);
}

// The first unloading also leaves what a runtime allocates once, so later ones are compared with it.
void add_load_leak(VosResult& result, const char* memory, const std::vector<Bytes>& loads) {
  if (loads.size() < 3) return;
  double least = 1e300, most = -1e300;
  for (std::size_t i = 1; i < loads.size(); ++i) {
    const auto step = static_cast<double>((loads[i] - loads[i - 1]).count);
    least = std::min(least, step);
    most = std::max(most, step);
  }
  if (least < kLeastLoadLeak) return;
  const double mean =
      static_cast<double>((loads.back() - loads.front()).count) / static_cast<double>(loads.size() - 1);
  result.leaks.push_back({"model", memory, {mean, least, most, static_cast<std::int64_t>(loads.size())}});
}

// Any clip may leak, not the longest one alone: the one that surely grows most is named.
void add_frame_leak(VosResult& result, const char* memory, std::optional<GrowthSlope> VosClip::*growth) {
  const GrowthSlope* worst = nullptr;
  for (const VosClip& clip : result.clips)
    if (clip.*growth && (worst == nullptr || (clip.*growth)->low > worst->low)) worst = &*(clip.*growth);
  if (worst != nullptr && worst->low > kLeastFrameLeak) result.leaks.push_back({"frame", memory, *worst});
}

}  // namespace

GrowthPoints::GrowthPoints(std::int64_t first) : first_(first) {
  frames_.reserve(kMostPoints);
  bytes_.reserve(kMostPoints);
}

void GrowthPoints::add(std::int64_t frame, Bytes bytes) {
  if (!wants(frame)) return;
  if (frames_.size() == kMostPoints) {
    for (std::size_t i = 0; 2 * i < kMostPoints; ++i) {
      frames_[i] = frames_[2 * i];
      bytes_[i] = bytes_[2 * i];
    }
    frames_.resize(kMostPoints / 2);
    bytes_.resize(kMostPoints / 2);
    stride_ *= 2;
    if (!wants(frame)) return;
  }
  frames_.push_back(static_cast<double>(frame));
  bytes_.push_back(static_cast<double>(bytes.count));
}

std::optional<GrowthSlope> GrowthPoints::slope() const { return slope_of(frames_, bytes_); }

void add_growth(VosResult& result) {
  const VosClip* longest = nullptr;
  for (const VosClip& clip : result.clips)
    if (clip.growth && (longest == nullptr || clip.frames > longest->frames)) longest = &clip;
  if (longest != nullptr) {
    result.per_frame = longest->growth;
    result.gpu_per_frame = longest->gpu_growth;
  }
  result.leaks.clear();
  add_frame_leak(result, "host", &VosClip::growth);
  add_frame_leak(result, "gpu", &VosClip::gpu_growth);
  add_leaks(result, "host", &VosClip::after, &VosObjectEnd::after);
  add_leaks(result, "gpu", &VosClip::gpu_after, &VosObjectEnd::gpu_after);
  add_load_leak(result, "host", result.loads);
  add_load_leak(result, "gpu", result.gpu_loads);
}

std::optional<Bytes> estimate_peak(const VosResult& trial, const ClipSize& clip, bool is_gpu) {
  const auto peak = is_gpu ? &VosTrial::gpu_peak : &VosTrial::peak;
  if (trial.trials.empty() || !(trial.trials.front().*peak)) return std::nullopt;
  const VosTrial& one = trial.trials.front();
  Bytes needed = *(one.*peak);
  if (trial.trials.size() > 1 && trial.trials.back().*peak && clip.objects > 1) {
    const VosTrial& many = trial.trials.back();
    const std::int64_t together = std::min(clip.objects, many.objects);
    const Bytes more = std::max(Bytes{}, *(many.*peak) - *(one.*peak));
    needed += Bytes{more.count * (together - 1) / std::max<std::int64_t>(1, many.objects - 1)};
    if (!is_gpu) needed += Bytes{many.bank.count / many.objects * (clip.objects - together)};
  }
  if (is_gpu) return needed;
  const std::int64_t larger = std::max<std::int64_t>(
      0, std::int64_t{clip.width} * clip.height - std::int64_t{trial.side} * trial.side);
  return needed + Bytes{larger * clip.objects} + clip.frames;
}

}  // namespace headroom::bench
