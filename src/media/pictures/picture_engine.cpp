#include "media/pictures/picture_engine.h"

#include <fmt/format.h>
#include <png.h>
#include <tiffio.h>
#include <webp/decode.h>

#include <cstdio>

#include <jpeglib.h>

#define HEADROOM_TEXT_OF(macro) HEADROOM_TEXT(macro)
#define HEADROOM_TEXT(words) #words

namespace headroom::media {

std::string PictureEngine::version() const {
  const auto webp = static_cast<unsigned>(WebPGetDecoderVersion());
  const std::string tiff = TIFFGetVersion();  // "LIBTIFF, Version 4.5.0" and lines of copyright
  const std::string tiff_line = tiff.substr(0, tiff.find('\n'));
  return fmt::format("libjpeg-turbo {}, libpng {}, libwebp {}.{}.{}, libtiff {}",
                     HEADROOM_TEXT_OF(LIBJPEG_TURBO_VERSION), png_get_libpng_ver(nullptr), webp >> 16U,
                     webp >> 8U & 255U, webp & 255U, tiff_line.substr(tiff_line.rfind(' ') + 1));
}

}  // namespace headroom::media

extern "C" __attribute__((visibility("default"))) headroom::media::MediaEngine* headroom_media_engine_v2() {
  return new headroom::media::PictureEngine;
}
