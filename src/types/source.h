// The source of the frames, and what the setup phase found there (metadata.json). Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "types/enum_names.h"

namespace headroom {

enum class SourceKind { image_dir, video, camera, csi, stream, gst, raw };
constexpr std::string_view name_of(SourceKind kind) {
  return name_in({"image_dir", "video", "camera", "csi", "stream", "gst", "raw"}, kind);
}
// A camera with a number instead of a path.
constexpr bool has_camera_number(SourceKind kind) {
  return kind == SourceKind::camera || kind == SourceKind::csi;
}

// As typed: `image_dir=DIR`, `video=FILE` (or a folder of videos), `camera=N`, `csi=N`, an address such as
// `rtsp://HOST/PATH`, `gst=PIPELINE`, `raw=FILE,1280x720,rgb`.
struct SourceSpec {
  SourceKind kind = SourceKind::image_dir;
  // Folder or file, address or pipeline (with user and password), or "FILE,1280x720,rgb"; empty for cameras
  std::string path;
  int camera_index = 0;  // for cameras
  // "user:password@" of each address in `path`: of a stream, or of the elements of a pipeline.
  std::vector<std::string> secrets() const {
    std::vector<std::string> found;
    if (kind != SourceKind::stream && kind != SourceKind::gst) return found;
    for (auto scheme = path.find("://"); scheme != std::string::npos; scheme = path.find("://", scheme + 3)) {
      const auto host = scheme + 3;
      const std::string authority = path.substr(host, path.find_first_of("/\" \t\n", host) - host);
      if (const auto at = authority.rfind('@'); at != std::string::npos)
        found.push_back(authority.substr(0, at + 1));
    }
    return found;
  }
  // What reports and messages show of `path`: without the user and password of addresses.
  std::string shown_path() const {
    std::string shown = path;
    for (const std::string& secret : secrets()) shown.erase(shown.find("://" + secret) + 3, secret.size());
    return shown;
  }
  // "image_dir=/data/images".
  std::string describe() const {
    if (kind == SourceKind::stream) return shown_path();
    return std::string(name_of(kind)) + "=" +
           (has_camera_number(kind) ? std::to_string(camera_index) : shown_path());
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
  std::string path;                 // the folder of the images, a video file, or as SourceSpec::path
  std::vector<std::string> images;  // file names in order, for folders; empty for all others
  std::int64_t frames = 0;          // number of frames that were counted; 0 if unknown (cameras, streams)
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
  // Objects of --task vos, by what their prompts come from: their first mask, or a prompts file.
  std::int64_t prompted_by_mask = 0, prompted_by_file = 0;
  Bytes largest_frame;      // decoded, 8-bit BGR: width × height × 3
  std::string fingerprint;  // of the listing (names, sizes, times): detects outdated prepared data
  friend bool operator==(const SourceMetadata&, const SourceMetadata&) = default;
};

}  // namespace headroom
