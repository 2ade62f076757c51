#include "bench/vos/setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "media/vos/dataset.h"
#include "media/vos/mask_prompts.h"
#include "media/vos/masks.h"
#include "media/vos/planes.h"

namespace headroom::bench {
namespace fs = std::filesystem;
namespace {

constexpr PromptKind kKinds[] = {PromptKind::points, PromptKind::box, PromptKind::mask};

std::int64_t measured_frames(const VosVideo& video, std::int64_t most) {
  return std::min(most, static_cast<std::int64_t>(video.frames.size()));
}

// Makes the prompts of one object. The error is the reason to leave it out.
Result<std::vector<VosPrompt>> make_prompts(media::MediaEngine& engine, const VosVideo& video,
                                            const VosObject& object, const BenchOptions& options) {
  std::vector<VosPrompt> made;
  const std::int64_t frames = measured_frames(video, options.max_frames);
  const bool is_prompted = !object.prompts.empty();
  if (!is_prompted && object.masks.empty()) return input_error("no prompt", "it has no mask and no prompt");
  const std::int64_t first = is_prompted ? object.prompts.front().frame : object.masks.begin()->first;
  if (first >= frames)
    return input_error("no prompt", fmt::format("its first {} is for frame {}, and --max-frames is {}",
                                                is_prompted ? "prompt" : "mask", first, options.max_frames));
  if (is_prompted) return made;
  auto mask = media::vos::read_mask(engine, object.masks.begin()->second, object.value);
  if (!mask) return forward_error(mask);
  const auto rule =
      options.vos->reference_point ? media::vos::PointRule::reference : media::vos::PointRule::inside;
  for (const PromptKind kind : kKinds) {
    auto prompt = media::vos::prompt_from_mask(*mask, kind, rule, first);
    if (!prompt) return input_error("no prompt", "its first mask is empty");
    made.push_back(std::move(*prompt));
  }
  return made;
}

SourceSequence sequence_of(const VosVideo& video, std::int64_t max_frames) {
  SourceSequence sequence;
  sequence.name = video.id;
  sequence.path = fs::path(video.frames.front()).parent_path().string();
  sequence.frames = measured_frames(video, max_frames);
  sequence.width = video.width;
  sequence.height = video.height;
  for (const VosObject& object : video.objects) sequence.objects.push_back({object.id, {}});
  return sequence;
}

}  // namespace

std::string name_of(const VosLeftOut& item) {
  if (item.video.empty()) return item.object.empty() ? "the data set" : "object " + item.object;
  return item.object.empty() ? item.video : fmt::format("{}/{}", item.video, item.object);
}

media::vos::PlanesFormat planes_format_of(const VosResult& model, PlaneType type) {
  media::vos::PlanesFormat format{model.side, type};
  if (model.pixel_mean.size() != format.mean.size() || model.pixel_std.size() != format.std.size())
    return format;
  for (std::size_t i = 0; i < format.mean.size(); ++i) {
    format.mean[i] = static_cast<float>(model.pixel_mean[i]);
    format.std[i] = static_cast<float>(model.pixel_std[i]);
  }
  return format;
}

fs::path planes_folder(const fs::path& prepared_folder) { return prepared_folder / "planes"; }

Result<ScannedVideos> scan_videos(media::MediaEngine& engine, const BenchOptions& options,
                                  const std::function<void(const std::string&)>& on_item) {
  const VosOptions& vos = *options.vos;
  // With a largest size, the limit counts the videos that are small enough.
  const std::int64_t limit = vos.max_video_pixels ? 0 : options.limit_videos;
  auto dataset =
      media::vos::scan_dataset(engine, vos.dataset, {vos.prompts, limit, options.limit_objects, true});
  if (!dataset) return forward_error(dataset);
  auto fingerprint = folder_fingerprint(vos.dataset);
  if (!fingerprint) return forward_error(fingerprint);
  ScannedVideos scanned{{vos.dataset, dataset->layout}, {}, {}};
  SourceMetadata& metadata = scanned.metadata;
  metadata.spec.path = vos.dataset;
  metadata.fingerprint = std::move(*fingerprint);
  std::vector<VosLeftOut> left_out = std::move(dataset->left_out);
  for (VosVideo& video : dataset->videos) {
    if (options.limit_videos > 0 && static_cast<std::int64_t>(scanned.videos.size()) >= options.limit_videos)
      break;
    if (on_item) on_item(video.id);
    const std::int64_t pixels = std::int64_t{video.width} * video.height;
    if (vos.max_video_pixels && pixels > *vos.max_video_pixels) {
      left_out.push_back({video.id,
                          {},
                          fmt::format("{} × {} are more than --max-video-pixels {}", video.width,
                                      video.height, *vos.max_video_pixels)});
      continue;
    }
    PreparedVideo prepared;
    for (VosObject& object : video.objects) {
      auto made = make_prompts(engine, video, object, options);
      if (!made) {
        left_out.push_back(
            {video.id, object.id, made.error().why.empty() ? made.error().what : made.error().why});
        continue;
      }
      ++(object.prompts.empty() ? metadata.prompted_by_mask : metadata.prompted_by_file);
      std::erase_if(object.masks, [&](const auto& mask) { return mask.first >= options.max_frames; });
      prepared.video.objects.push_back(std::move(object));
      prepared.made.push_back(std::move(*made));
    }
    if (prepared.video.objects.empty()) continue;
    prepared.video.id = video.id;
    prepared.video.frames = std::move(video.frames);
    prepared.video.width = video.width;
    prepared.video.height = video.height;
    metadata.sequences.push_back(sequence_of(prepared.video, options.max_frames));
    metadata.total_frames += metadata.sequences.back().frames;
    metadata.largest_frame = std::max(metadata.largest_frame, Bytes{pixels * 3});
    scanned.videos.push_back(std::move(prepared));
  }
  for (const VosLeftOut& item : left_out) metadata.skipped.push_back({name_of(item), item.why});
  if (!scanned.videos.empty()) return scanned;
  return input_error(fmt::format("no video of {} can be used", vos.dataset),
                     left_out.empty() ? std::string()
                                      : fmt::format("{}{}: {}", left_out.size() > 1 ? "the first is " : "",
                                                    name_of(left_out.front()), left_out.front().why));
}

Result<WrittenFrames> write_frames(media::MediaEngine& engine, const std::vector<PreparedVideo>& videos,
                                   const media::vos::PlanesFormat& format, std::int64_t max_frames,
                                   const fs::path& folder,
                                   const std::function<void(std::int64_t, const std::string&)>& on_frame) {
  if (auto made = make_folder(folder); !made) return forward_error(made);
  media::vos::remove_abandoned_planes(folder);  // before their space is needed
  Bytes missing;
  for (const PreparedVideo& prepared : videos) {
    const std::int64_t frames = measured_frames(prepared.video, max_frames);
    if (!media::vos::has_planes(prepared.video, format, frames, folder))
      missing += media::vos::planes_file_size(format.side, format.type, frames);
  }
  if (auto fits = media::vos::check_space(folder, missing); !fits) return forward_error(fits);
  WrittenFrames written;
  for (const PreparedVideo& prepared : videos) {
    const auto planes = media::vos::prepare_planes(engine, prepared.video, format, max_frames, folder, [&] {
      ++written.decoded;
      if (on_frame) on_frame(written.decoded, prepared.video.id);
    });
    if (planes) {
      if (planes->was_there) written.were_there += planes->frames;
    } else if (planes.error().kind == ErrorKind::input) {
      written.left_out.push_back({prepared.video.id, {}, planes.error().sentence()});
    } else {
      return tl::unexpected<Error>(planes.error());
    }
  }
  return written;
}

Result<std::string> folder_fingerprint(const fs::path& folder) {
  std::error_code code;
  fs::recursive_directory_iterator file(folder, fs::directory_options::follow_directory_symlink, code);
  std::uint64_t sum = 0, files = 0;  // a sum, because the order of the files is arbitrary
  for (; !code && file != fs::recursive_directory_iterator(); file.increment(code)) {
    std::error_code unknown;
    if (!file->is_regular_file(unknown)) continue;
    const auto size = file->file_size(unknown);
    const auto time = file->last_write_time(unknown).time_since_epoch().count();
    const std::string digits = fingerprint_of(
        fmt::format("{}\n{} {}", file->path().lexically_relative(folder).string(), size, time));
    std::uint64_t hash = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), hash, 16);
    sum += hash;
    ++files;
  }
  if (code) return input_error(fmt::format("cannot read {}", folder.string()), code.message());
  return fmt::format("{:016x}-{}", sum, files);
}

}  // namespace headroom::bench
