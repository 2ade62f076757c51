// The media engine, implemented with OpenCV. All use of OpenCV in Headroom is in this folder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "media/media_engine.h"

namespace headroom::media {

class OpenCvEngine final : public MediaEngine {
 public:
  OpenCvEngine();
  std::string version() const override;
  // image_decoder.cpp: OpenCV's codecs, after a check of the file's structure.
  Result<Decoded> decode_image_into(const std::string& path, const AllocateFrame& allocate_frame) override;
  Result<std::vector<int>> read_mask_ids(const std::string& path) override;
  // video_reader.cpp
  Result<std::unique_ptr<VideoReader>> open_video(const std::string& path) override;
  Result<std::unique_ptr<VideoReader>> open_camera(int index) override;
  // annotator.cpp
  Status write_annotated(const Picture& picture, const FrameFindings& findings,
                         const std::vector<std::string>& class_names, const std::string& path) override;
};

// Captures what image and video libraries write to stderr ("Corrupt JPEG data: bad Huffman code", "[mov @
// 0x5581] moov atom not found"). Only Headroom's own messages belong there; a library's message becomes the
// reason of an error. OpenCV passes on libjpeg's reports of damaged pixels in no other way.
//
// Redirects the process's stderr to a memory file while this object lives. Use it around one library call,
// in a process whose other threads write nothing. Costs four system calls, about 2 µs.
class QuietStderr {
 public:
  QuietStderr();
  ~QuietStderr();
  QuietStderr(const QuietStderr&) = delete;
  QuietStderr& operator=(const QuietStderr&) = delete;

  // The text written so far, at most 4 KiB.
  std::string text() const;

 private:
  int sink_ = -1;  // shared by all objects, never closed
  UniqueFd saved_;
};

}  // namespace headroom::media
