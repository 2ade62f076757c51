// Captures what image and video libraries write to stderr ("Corrupt JPEG data: bad Huffman code", "[mov @
// 0x5581] moov atom not found"). Only Headroom's own messages belong there; a library's message becomes the
// reason of an error. OpenCV passes on libjpeg's reports of damaged pixels in no other way.
#pragma once

#include <string>

#include "base/files.h"

namespace headroom::media {

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
