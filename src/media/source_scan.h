// Turns the value of --source into a deterministic list of frames. See docs/sources.md.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "media/media_engine.h"
#include "types/source.h"

namespace headroom::media {

// Parses `image_dir=FOLDER_OR_IMAGE`, `video=FILE_OR_FOLDER`, `camera=N`, `csi=N`, `gst=PIPELINE`,
// `raw=FILE,WIDTHxHEIGHT,FORMAT`, an address (rtsp://…), or a plain path, whose kind is guessed (a folder of
// images or videos, a video file, a single image, /dev/videoN). Paths become absolute.
// Only reads the file system. The error names the problem and the supported kinds or extensions.
Result<SourceSpec> parse_source(std::string_view text);

// After this many consecutive failures a reader is abandoned (a truncated stream, an unplugged camera).
inline constexpr std::int64_t kMostFailuresInARow = 100;

struct ScanLimits {
  // 0: no limit. `objects` and `max_frames` are per sequence.
  std::int64_t videos = 0, objects = 0, max_frames = 0;
};

// True for a name with an extension (any case) that Headroom decodes.
bool is_image_name(std::string_view name);
bool is_video_name(std::string_view name);

// Lists the sequences and images of a folder by names only; nothing is decoded. Images directly inside are
// one sequence; each subfolder with images is another. Names are in natural order; hidden files and other
// types are ignored. Fails for an unreadable folder or a folder without images.
//
// Folders of the datasets SA-V and DAVIS (JPEGImages*/[RESOLUTION/]VIDEO with
// Annotations*/[RESOLUTION/]VIDEO/[OBJECT/]) also give objects:
//   SA-V   one object per OBJECT folder, with its first mask; no mask if that folder is empty
//   DAVIS  one object without id per video; its mask contains all ids
Result<std::vector<SourceSequence>> list_image_folder(const std::string& folder, const ScanLimits& limits);

// The same for every kind of source, also a single image, a folder of videos, and one sequence for a camera,
// stream, pipeline or file of raw frames.
Result<std::vector<SourceSequence>> list_source(const SourceSpec& spec, const ScanLimits& limits);

// Lists the source and decodes its frames to find their sizes and to check that each can be decoded.
// Unusable frames, videos and objects go into `skipped` with their name and a reason; limits count usable
// ones. At most limits.max_frames frames per sequence are decoded. A frame that needs too much memory is
// skipped like one that cannot be decoded. Fails if nothing is usable.
//
// `on_frame` is called after each decoded frame with the number of frames so far and the sequence's name.
// `on_item` is called with the name of each image or video before it is read, so that a file that ends the
// process is known.
using OnScannedFrame = std::function<void(std::int64_t frames, const std::string& sequence)>;
using OnScannedItem = std::function<void(const std::string& name)>;
Result<SourceMetadata> scan_source(MediaEngine& engine, const SourceSpec& spec, const ScanLimits& limits,
                                   const OnScannedFrame& on_frame = {}, const OnScannedItem& on_item = {});

// A fingerprint of the listing (names, sizes, modification times). If it is equal, the source has not
// changed since the scan.
Result<std::string> source_fingerprint(const SourceSpec& spec);

// The extensions that Headroom decodes, as shown to users.
inline constexpr std::string_view kImageExtensions = "jpg, jpeg, png, bmp, webp, tiff, tif";
inline constexpr std::string_view kVideoExtensions = "mp4, avi, mkv, mov, webm, m4v, mpg, mpeg, ts";

struct FolderListing {
  std::vector<std::string> images, videos, folders;  // names, not paths
};

// Lists regular files (and links to them) with known extensions, and folders, in natural order. Hidden names,
// pipes, sockets and other types are ignored. A broken link with an image's or video's name is listed, so
// that decoding reports it.
Result<FolderListing> list_folder(const std::filesystem::path& folder);
// Where a data set like SA-V or DAVIS has its videos and their masks: JPEGImages*/[RESOLUTION/] and
// Annotations*/[RESOLUTION/]. Empty for what the folder, whose listing is given, does not have.
struct AnnotatedFolder {
  std::filesystem::path frames, annotations;
};
Result<AnnotatedFolder> find_annotated_folder(const std::filesystem::path& folder,
                                              const FolderListing& listing);
// Stops at the first image, to avoid listing 200,000 names only to know that images exist.
bool contains_image(const std::filesystem::path& folder);

// The content of metadata.json.
nlohmann::ordered_json to_json(const SourceMetadata& metadata);
// Checks types, bounds and schema_version; the error names the key.
Result<SourceMetadata> source_from_json(const nlohmann::ordered_json& document);

}  // namespace headroom::media
