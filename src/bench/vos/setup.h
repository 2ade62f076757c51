// The setup phase's work for --task vos, in its child process with the image libraries: find the videos, make
// prompts, and write the frames that workers map.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/vos/videos.h"
#include "media/media_engine.h"
#include "media/vos/planes.h"
#include "types/bench_options.h"
#include "types/bench_result.h"

namespace headroom::bench {

struct ScannedVideos {
  VosSource source{};
  std::vector<PreparedVideo> videos{};
  SourceMetadata metadata{};  // the same for the report: names, sizes, objects, and what was left out
};

// Scans the data set of options.vos. Leaves out videos above its max_video_pixels, objects without a usable
// first mask, and objects whose first prompt is not among the first options.max_frames frames. Calls
// `on_item` with each video's name. Fails if nothing is left.
Result<ScannedVideos> scan_videos(media::MediaEngine& engine, const BenchOptions& options,
                                  const std::function<void(const std::string& name)>& on_item = {});

struct WrittenFrames {
  std::int64_t decoded = 0, were_there = 0;  // frames
  std::vector<VosLeftOut> left_out{};        // videos with a frame that cannot be decoded
};

// Writes the frames of all videos in a model's format into `folder`, after removing files that killed setups
// left there unfinished. Fails if they do not fit on the disk.
Result<WrittenFrames> write_frames(
    media::MediaEngine& engine, const std::vector<PreparedVideo>& videos,
    const media::vos::PlanesFormat& format, std::int64_t max_frames, const std::filesystem::path& folder,
    const std::function<void(std::int64_t frames, const std::string& video)>& on_frame = {});

// The format of frames for a model, by its result's side, pixel_mean and pixel_std.
media::vos::PlanesFormat planes_format_of(const VosResult& model, PlaneType type);

// Where the frames are, in the folder of prepared data.
std::filesystem::path planes_folder(const std::filesystem::path& prepared_folder);

// Of the names, sizes and times of all files below a folder.
Result<std::string> folder_fingerprint(const std::filesystem::path& folder);

// "VIDEO" or "VIDEO/OBJECT"; "object OBJECT" of a prompt without a video.
std::string name_of(const VosLeftOut& item);

}  // namespace headroom::bench
