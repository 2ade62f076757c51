// Image and video libraries write straight to stderr ("Corrupt JPEG data: bad Huffman code", "[mov @ 0x5581]
// moov atom not found"). There only Headroom's own sentences belong; what a library says becomes the reason
// of an error instead. libjpeg in particular reports damaged pixels in no other way that OpenCV lets through.
#pragma once

#include <string>

#include "base/files.h"

namespace headroom::media {

// Sends the process's stderr to a memory file for as long as it lives: use it around one call of a library,
// in a process whose other threads have nothing to say. Costs four system calls, about 2 µs.
class QuietStderr {
 public:
  QuietStderr();
  ~QuietStderr();
  QuietStderr(const QuietStderr&) = delete;
  QuietStderr& operator=(const QuietStderr&) = delete;

  // What was written so far, at most 4 KiB.
  std::string text() const;

 private:
  int sink_ = -1;  // shared by all, never closed
  UniqueFd saved_;
};

}  // namespace headroom::media
