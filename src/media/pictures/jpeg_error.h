// Lets libjpeg's errors leave its functions: by a jump to the caller's setjmp(), after the text is noted.
#pragma once

#include <array>
#include <csetjmp>
#include <cstdio>
#include <string>

// clang-format off
#include <jpeglib.h>
#include <jerror.h>  // its list depends on jpeglib.h
// clang-format on

namespace headroom::media {

struct JpegError {
  JpegError();
  jpeg_error_mgr manager{};  // the first member: libjpeg passes on only its address
  std::jmp_buf escape{};     // set before each call of libjpeg
  std::array<char, JMSG_LENGTH_MAX> fatal{};
  const char* damage = nullptr;  // the first report after which libjpeg makes up pixels
};

}  // namespace headroom::media
