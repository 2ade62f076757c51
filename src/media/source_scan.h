// Finding frames: from what the person typed to a deterministic list. See docs/sources.md.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "media/media_engine.h"
#include "model/source.h"

namespace headroom::media {

// `image_dir=FOLDER_OR_IMAGE`, `video=FILE_OR_FOLDER`, `camera=N`, or a plain path guessed by its kind (a
// folder of images or videos, a video file, a single image, /dev/videoN). Paths become absolute. Pure except
// for looking at the file system. The error says what is missing and names the kinds or extensions.
Result<SourceSpec> parse_source(std::string_view text);

// A reader that only fails (a stream cut in the middle, a camera that lost its cable) is given up after so
// many.
inline constexpr std::int64_t kMostFailuresInARow = 100;

struct ScanLimits {
  std::int64_t videos = 0, objects = 0, max_frames = 0;  // 0: no limit; objects are per video, frames too
};

// True for names whose extension (any case) is one that Headroom decodes.
bool is_image_name(std::string_view name);
bool is_video_name(std::string_view name);

// The sequences and images of a folder, by names alone (nothing is decoded): images directly inside are one
// sequence; subfolders with images are one each; a SA-V or DAVIS folder (JPEGImages*/VIDEO with
// Annotations*/VIDEO[/OBJECT]) gives objects. Natural order; hidden files and other types are passed over.
// Objects are as named: SA-V's with their first mask, or none if the folder has none; DAVIS's as one without
// id whose mask holds all ids. Error: an unreadable folder, or one without images.
Result<std::vector<SourceSequence>> list_image_folder(const std::string& folder, const ScanLimits& limits);

// The same for every kind of source: also a single image, a video, a folder of videos, a camera.
Result<std::vector<SourceSequence>> list_source(const SourceSpec& spec, const ScanLimits& limits);

// The whole scan: lists, then decodes what must be known (sizes; that every frame decodes) with the engine.
// Frames, videos and objects that cannot be used are in `skipped`, named with a reason; limits count what is
// usable. No more than limits.max_frames frames of a sequence are decoded. `on_frame`, if there is one, is
// called after each decoded frame with how many there were and the sequence's name. Error: nothing usable at
// all.
// `on_item` is called with the name of each image or video right before it is read, so that one that ends the
// process can be named. A frame that memory does not suffice for is skipped like one that cannot be decoded.
using OnScannedFrame = std::function<void(std::int64_t frames, const std::string& sequence)>;
using OnScannedItem = std::function<void(const std::string& name)>;
Result<SourceMetadata> scan_source(MediaEngine& engine, const SourceSpec& spec, const ScanLimits& limits,
                                   const OnScannedFrame& on_frame = {}, const OnScannedItem& on_item = {});

// A fingerprint of the listing (names, sizes, modification times): equal means nothing changed since the
// scan.
Result<std::string> source_fingerprint(const SourceSpec& spec);

}  // namespace headroom::media
