#include <fmt/format.h>

#include <cstdlib>

#include "media/pictures/decoders.h"
#include "media/pictures/jpeg_error.h"

namespace headroom::media {
namespace {

struct JpegEncoder {
  JpegEncoder() { info.err = &error.manager; }
  ~JpegEncoder() {
    jpeg_destroy_compress(&info);
    std::free(bytes);
  }
  JpegEncoder(const JpegEncoder&) = delete;
  JpegEncoder& operator=(const JpegEncoder&) = delete;

  JpegError error;
  jpeg_compress_struct info{};
  unsigned char* bytes = nullptr;  // libjpeg allocates it
  unsigned long size = 0;
};

bool write_jpeg_rows(JpegEncoder& jpeg, const std::uint8_t* bgr, PictureSize size, int quality) {
  if (setjmp(jpeg.error.escape) != 0) return false;
  jpeg_create_compress(&jpeg.info);
  jpeg_mem_dest(&jpeg.info, &jpeg.bytes, &jpeg.size);
  jpeg.info.image_width = static_cast<JDIMENSION>(size.width);
  jpeg.info.image_height = static_cast<JDIMENSION>(size.height);
  jpeg.info.input_components = 3;
  jpeg.info.in_color_space = JCS_EXT_BGR;
  jpeg_set_defaults(&jpeg.info);
  jpeg_set_quality(&jpeg.info, quality, TRUE);
  jpeg_start_compress(&jpeg.info, TRUE);
  while (jpeg.info.next_scanline < jpeg.info.image_height) {
    const std::size_t at = std::size_t{jpeg.info.next_scanline} * static_cast<std::size_t>(size.width) * 3;
    auto* row = const_cast<std::uint8_t*>(bgr + at);  // libjpeg only reads it
    jpeg_write_scanlines(&jpeg.info, &row, 1);
  }
  jpeg_finish_compress(&jpeg.info);
  return true;
}

}  // namespace

Result<std::string> encode_jpeg(const std::uint8_t* bgr, PictureSize size, int quality) {
  JpegEncoder jpeg;
  if (!write_jpeg_rows(jpeg, bgr, size, quality)) return failure(jpeg.error.fatal.data());
  return std::string(reinterpret_cast<const char*>(jpeg.bytes), jpeg.size);
}

}  // namespace headroom::media
