// The source of the frames, and what the setup phase found there (metadata.json). Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "types/enum_names.h"

namespace headroom {

enum class SourceKind { image_dir, video, camera };
constexpr std::string_view name_of(SourceKind kind) {
  return name_in({"image_dir", "video", "camera"}, kind);
}

// As typed: `image_dir=DIR`, `video=FILE` (or a folder of videos), `camera=N`.
struct SourceSpec {
  SourceKind kind = SourceKind::image_dir;
  std::string path;      // folder or file; empty for a camera
  int camera_index = 0;  // for a camera
  // "image_dir=/data/images".
  std::string describe() const {
    return std::string(name_of(kind)) + "=" +
           (kind == SourceKind::camera ? std::to_string(camera_index) : path);
  }
  friend bool operator==(const SourceSpec&, const SourceSpec&) = default;
};

// A skipped item of the source, with the reason ("IMG_3.jpg": "truncated JPEG").
struct SkippedItem {
  std::string name;
  std::string reason;
  friend bool operator==(const SkippedItem&, const SkippedItem&) = default;
};

// A prompted object of a video (SA-V and DAVIS folders). A source without annotations has one object without
// a name.
struct SourceObject {
  std::string id;
  std::string mask_path;  // first annotation, checked to be non-empty
  friend bool operator==(const SourceObject&, const SourceObject&) = default;
};

// One video, or one folder of images. State is cleaned between sequences.
struct SourceSequence {
  std::string name;
  std::string path;                 // a video file, or the folder of the images
  std::vector<std::string> images;  // file names in order, for folders; empty for videos and cameras
  std::int64_t frames = 0;          // number of frames that were counted; 0 if unknown (a camera)
  int width = 0, height = 0;        // of the largest frame
  std::vector<SourceObject> objects;
  friend bool operator==(const SourceSequence&, const SourceSequence&) = default;
};

// metadata.json: the result of scanning a source.
struct SourceMetadata {
  SourceSpec spec;
  std::vector<SourceSequence> sequences;
  std::vector<SkippedItem> skipped;
  std::int64_t total_frames = 0;
  Bytes largest_frame;      // decoded, 8-bit BGR: width × height × 3
  std::string fingerprint;  // of the listing (names, sizes, times): detects outdated prepared data
  friend bool operator==(const SourceMetadata&, const SourceMetadata&) = default;
};

}  // namespace headroom
