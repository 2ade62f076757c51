// The scan decodes every frame once, to find before a run what cannot be used.
#include "media/source_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <new>

#include "base/utf8.h"
#include "media/streams/open_stream.h"
#include "media/streams/raw_frames.h"

namespace headroom::media {
namespace {
namespace fs = std::filesystem;

// Converts std::bad_alloc of `decode` into an error of this frame only.
template <class Decode>
auto catch_bad_alloc(Decode decode) -> decltype(decode()) {
  try {
    return decode();
  } catch (const std::bad_alloc&) {
    return input_error("there is not enough memory to decode it; raise --workspace");
  }
}

std::string reason_of(const Error& error) { return error.why.empty() ? error.what : error.why; }

class Scan {
 public:
  Scan(MediaEngine& engine, const SourceSpec& spec, const ScanLimits& limits, const OnScannedFrame& on_frame,
       const OnScannedItem& on_item)
      : engine_(engine), limits_(limits), on_frame_(on_frame), on_item_(on_item) {
    metadata_.spec = spec;
  }

  Result<SourceMetadata> run() {
    if (auto usable = check_stream_tools(metadata_.spec); !usable) return forward_error(usable);
    // List without limits, because the limits count usable items.
    auto sequences = list_source(metadata_.spec, {});
    if (!sequences) return forward_error(sequences);
    has_several_ = sequences->size() > 1;
    for (SourceSequence& sequence : *sequences) {
      if (limits_.videos > 0 && static_cast<std::int64_t>(metadata_.sequences.size()) >= limits_.videos)
        break;
      // Names are written into JSON documents, which are UTF-8. With a name in another encoding the file
      // could not be found again.
      if (!is_valid_utf8(sequence.path)) {
        skip(sequence.name, "its name is not valid UTF-8; rename it");
        continue;
      }
      if (auto scanned = scan(sequence); !scanned) return forward_error(scanned);
    }
    if (metadata_.sequences.empty()) return no_usable_frame();
    if (auto reported = report_ignored_videos(); !reported) return forward_error(reported);
    auto fingerprint = source_fingerprint(metadata_.spec);
    if (!fingerprint) return forward_error(fingerprint);
    metadata_.fingerprint = std::move(*fingerprint);
    return std::move(metadata_);
  }

 private:
  Status scan(SourceSequence& sequence) {
    if (is_live(metadata_.spec)) return scan_live(sequence);
    if (metadata_.spec.kind == SourceKind::image_dir)
      scan_images(sequence);
    else
      scan_video(sequence);
    if (sequence.frames > 0) keep(sequence);
    return {};
  }

  void scan_images(SourceSequence& sequence) {
    std::vector<std::string> usable;
    for (std::string& image : sequence.images) {
      if (reached_limit(static_cast<std::int64_t>(usable.size()))) break;
      const std::string shown = has_several_ ? sequence.name + "/" + image : image;
      if (!is_valid_utf8(image)) {
        skip(shown, "its name is not valid UTF-8; rename it");
        continue;
      }
      if (on_item_) on_item_(shown);
      picture_ = {};  // frees a large picture before the next one is decoded
      const auto decoded = catch_bad_alloc(
          [&] { return engine_.decode_image((fs::path(sequence.path) / image).string(), picture_); });
      if (!decoded) {
        skip(shown, reason_of(decoded.error()));
        continue;
      }
      record_frame(sequence);
      usable.push_back(std::move(image));
    }
    sequence.images = std::move(usable);
    sequence.frames = static_cast<std::int64_t>(sequence.images.size());
    if (sequence.frames > 0) check_objects(sequence);
  }

  void scan_video(SourceSequence& sequence) {
    if (on_item_) on_item_(sequence.name);
    auto video = catch_bad_alloc([&] { return open_stream(metadata_.spec, sequence.path); });
    if (!video) return skip(sequence.name, reason_of(video.error()));
    sequence.frames = 0;
    std::int64_t position = 0, failures = 0;
    for (; !reached_limit(sequence.frames); ++position) {
      const auto more = catch_bad_alloc([&] { return (*video)->next(picture_); });
      if (!more) {
        skip(fmt::format("{} frame {}", sequence.name, position), reason_of(more.error()));
        if (++failures < kMostFailuresInARow) continue;
        return skip(sequence.name, fmt::format("{} frames in a row cannot be decoded; the rest was skipped",
                                               kMostFailuresInARow));
      }
      failures = 0;
      if (!*more) return note_missing_frames(sequence, position, (*video)->frame_count());
      record_frame(sequence);
      ++sequence.frames;
    }
  }

  // Containers without an index estimate the frame count from duration and rate, so a small difference
  // means nothing.
  void note_missing_frames(const SourceSequence& sequence, std::int64_t position, std::int64_t announced) {
    if (position == 0)
      skip(sequence.name, "no frame can be decoded");
    else if (position + std::max<std::int64_t>(2, announced / 100) < announced)
      skip(sequence.name,
           fmt::format("only {} of the {} announced frames can be decoded", position, announced));
  }

  Status scan_live(SourceSequence& sequence) {
    if (metadata_.spec.kind == SourceKind::raw) {
      // A FIFO is not opened: its writer would end together with the scan.
      auto frames = parse_raw_frames(metadata_.spec.path);
      if (!frames) return forward_error(frames);
      picture_ = {frames->size.width, frames->size.height, {}};
    } else {
      if (on_item_) on_item_(sequence.name);
      auto stream = open_stream(metadata_.spec, sequence.path);
      if (!stream) return forward_error(stream);
      auto more = (*stream)->next(picture_);
      if (!more) return forward_error(more);
      if (!*more) return input_error(metadata_.spec.describe() + " delivers no frames");
    }
    record_frame(sequence);
    keep(sequence);
    return {};
  }

  // Keeps objects whose first mask is not empty. A mask with several ids (DAVIS) gives one object per id. A
  // video without usable objects keeps its frames, as one unnamed object.
  void check_objects(SourceSequence& sequence) {
    std::vector<SourceObject> usable;
    for (const SourceObject& object : sequence.objects) {
      if (object.id.empty() && object.mask_path.empty()) continue;
      const std::string shown = object.id.empty() ? sequence.name + " objects"
                                                  : fmt::format("{} object {}", sequence.name, object.id);
      if (object.mask_path.empty()) {
        skip(shown, "it has no mask");
        continue;
      }
      if (!is_valid_utf8(object.mask_path)) {
        skip(shown, "its name is not valid UTF-8; rename it");
        continue;
      }
      if (on_item_) on_item_(shown);
      const auto ids = catch_bad_alloc([&] { return engine_.read_mask_ids(object.mask_path); });
      if (!ids) {
        skip(shown, "its first mask cannot be read: " + reason_of(ids.error()));
      } else if (ids->empty()) {
        skip(shown, "its first mask is empty");
      } else if (object.id.empty()) {
        for (const int id : *ids) usable.push_back({fmt::format("{}", id), object.mask_path});
      } else {
        usable.push_back(object);
      }
    }
    if (usable.empty()) usable.emplace_back();
    if (limits_.objects > 0 && static_cast<std::int64_t>(usable.size()) > limits_.objects)
      usable.resize(static_cast<std::size_t>(limits_.objects));
    sequence.objects = std::move(usable);
  }

  bool reached_limit(std::int64_t frames) const {
    return limits_.max_frames > 0 && frames >= limits_.max_frames;
  }

  void record_frame(SourceSequence& sequence) {
    const PictureSize size{picture_.width, picture_.height};
    if (size.bytes() > PictureSize{sequence.width, sequence.height}.bytes()) {
      sequence.width = size.width;
      sequence.height = size.height;
    }
    metadata_.largest_frame =
        std::max(metadata_.largest_frame, Bytes{static_cast<std::int64_t>(size.bytes())});
    ++frames_seen_;
    if (on_frame_) on_frame_(frames_seen_, sequence.name);
  }

  void keep(SourceSequence& sequence) {
    metadata_.total_frames += sequence.frames;
    metadata_.sequences.push_back(std::move(sequence));
  }

  // Reports videos in an image folder, because they are not read.
  Status report_ignored_videos() {
    std::error_code ignored;
    if (metadata_.spec.kind != SourceKind::image_dir || !fs::is_directory(metadata_.spec.path, ignored))
      return {};
    auto listing = list_folder(metadata_.spec.path);
    if (!listing) return forward_error(listing);
    if (listing->videos.empty()) return {};
    std::string name = listing->videos.front();
    if (!is_valid_utf8(name)) name = "a video";
    if (listing->videos.size() > 1) name += fmt::format(" and {} more", listing->videos.size() - 1);
    skip(std::move(name), fmt::format("videos in a folder of images are not read; use video={} to read them",
                                      metadata_.spec.path));
    return {};
  }

  void skip(std::string name, std::string reason) {
    metadata_.skipped.push_back({std::move(name), std::move(reason)});
  }

  tl::unexpected<Error> no_usable_frame() const {
    const SkippedItem& first = metadata_.skipped.front();
    const std::string what = fmt::format("no frame of {} can be decoded", metadata_.spec.describe());
    if (metadata_.skipped.size() == 1)
      return input_error(what, fmt::format("{}: {}", first.name, first.reason));
    return input_error(what, fmt::format("all {} files failed; the first is {}: {}", metadata_.skipped.size(),
                                         first.name, first.reason));
  }

  MediaEngine& engine_;
  const ScanLimits& limits_;
  SourceMetadata metadata_;
  Picture picture_;  // reused for the frames of a video
  const OnScannedFrame& on_frame_;
  const OnScannedItem& on_item_;
  std::int64_t frames_seen_ = 0;
  bool has_several_ = false;
};

}  // namespace

Result<SourceMetadata> scan_source(MediaEngine& engine, const SourceSpec& spec, const ScanLimits& limits,
                                   const OnScannedFrame& on_frame, const OnScannedItem& on_item) {
  return Scan(engine, spec, limits, on_frame, on_item).run();
}

}  // namespace headroom::media
