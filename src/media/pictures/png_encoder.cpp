#include <fmt/format.h>
#include <png.h>

#include <array>
#include <cstring>
#include <vector>

#include "media/pictures/decoders.h"

namespace headroom::media {
namespace {

// Objects with destructors live here and not in the function that libpng's errors leave.
struct PngEncoder {
  PngEncoder();
  ~PngEncoder() { png_destroy_write_struct(&png, &info); }
  PngEncoder(const PngEncoder&) = delete;
  PngEncoder& operator=(const PngEncoder&) = delete;

  png_structp png = nullptr;
  png_infop info = nullptr;
  std::array<png_color, 256> palette{};
  std::vector<png_bytep> rows;
  std::string file;
  std::array<char, 128> problem{};
};

[[noreturn]] void leave_png_writer(png_structp png, png_const_charp text) {
  auto& encoder = *static_cast<PngEncoder*>(png_get_error_ptr(png));
  std::strncpy(encoder.problem.data(), text, encoder.problem.size() - 1);
  png_longjmp(png, 1);
}

void ignore_writer_warning(png_structp, png_const_charp) {}

void append_png_bytes(png_structp png, png_bytep bytes, std::size_t count) {
  static_cast<PngEncoder*>(png_get_io_ptr(png))->file.append(reinterpret_cast<const char*>(bytes), count);
}

// PASCAL VOC's colours: the bits 0, 3, 6 of an index are the upper bits of red, the bits 1, 4, 7 of green,
// the bits 2, 5 of blue, each from the highest bit down (VOCdevkit, VOClabelcolormap.m).
png_color voc_color(unsigned index) {
  png_color color{};
  for (unsigned shift = 7; index != 0; index >>= 3U, --shift) {
    color.red = static_cast<png_byte>(color.red | (index & 1U) << shift);
    color.green = static_cast<png_byte>(color.green | (index >> 1U & 1U) << shift);
    color.blue = static_cast<png_byte>(color.blue | (index >> 2U & 1U) << shift);
  }
  return color;
}

PngEncoder::PngEncoder() {
  png = png_create_write_struct(PNG_LIBPNG_VER_STRING, this, leave_png_writer, ignore_writer_warning);
  info = png != nullptr ? png_create_info_struct(png) : nullptr;
  for (unsigned i = 0; i < palette.size(); ++i) palette[i] = voc_color(i);
}

bool write_png_rows(PngEncoder& encoder, PictureSize size, int bits) {
  if (setjmp(png_jmpbuf(encoder.png)) != 0) return false;
  png_set_write_fn(encoder.png, &encoder, append_png_bytes, nullptr);
  png_set_IHDR(encoder.png, encoder.info, static_cast<png_uint_32>(size.width),
               static_cast<png_uint_32>(size.height), bits, PNG_COLOR_TYPE_PALETTE, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_set_PLTE(encoder.png, encoder.info, encoder.palette.data(), 1 << bits);
  png_write_info(encoder.png, encoder.info);
  png_set_packing(encoder.png);  // from one byte per index
  png_write_image(encoder.png, encoder.rows.data());
  png_write_end(encoder.png, nullptr);
  return true;
}

}  // namespace

Result<std::string> encode_indexed_png(const std::uint8_t* indices, PictureSize size, int bits) {
  PngEncoder encoder;
  if (encoder.info == nullptr) return failure("there is not enough memory to encode it");
  auto* first = const_cast<std::uint8_t*>(indices);  // libpng only reads it
  for (int y = 0; y < size.height; ++y)
    encoder.rows.push_back(first + static_cast<std::size_t>(y) * static_cast<std::size_t>(size.width));
  if (!write_png_rows(encoder, size, bits)) return failure(encoder.problem.data());
  return std::move(encoder.file);
}

}  // namespace headroom::media
