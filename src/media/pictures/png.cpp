#include <fmt/format.h>
#include <png.h>

#include <array>
#include <bit>
#include <cstring>

#include "media/pictures/decoders.h"

namespace headroom::media {
namespace {

// Objects with destructors live here and not in the functions that libpng's errors leave.
struct PngDecoder {
  explicit PngDecoder(EncodedBytes encoded);
  ~PngDecoder() { png_destroy_read_struct(&png, &info, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  // The picture in memory: row y begins at pixels + y × stride.
  void write_to(void* pixels, std::size_t stride) {
    row_bytes = stride;
    for (std::size_t y = 0; y < rows.size(); ++y) rows[y] = static_cast<png_bytep>(pixels) + y * stride;
  }

  EncodedBytes file;
  std::size_t at = 0;
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::vector<png_bytep> rows;
  std::size_t row_bytes = 0;
  std::array<char, 128> problem{};
};

[[noreturn]] void leave_libpng(png_structp png, png_const_charp text) {
  auto& decoder = *static_cast<PngDecoder*>(png_get_error_ptr(png));
  std::strncpy(decoder.problem.data(), text, decoder.problem.size() - 1);
  png_longjmp(png, 1);
}

void ignore_png_warning(png_structp, png_const_charp) {}

void read_png_bytes(png_structp png, png_bytep bytes, std::size_t count) {
  auto& decoder = *static_cast<PngDecoder*>(png_get_io_ptr(png));
  if (count > decoder.file.size() - decoder.at) png_error(png, "it ends too early");
  std::memcpy(bytes, decoder.file.data() + decoder.at, count);
  decoder.at += count;
}

PngDecoder::PngDecoder(EncodedBytes encoded) : file(encoded) {
  png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, leave_libpng, ignore_png_warning);
  info = png != nullptr ? png_create_info_struct(png) : nullptr;
}

bool read_png_header(PngDecoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_set_read_fn(decoder.png, &decoder, read_png_bytes);
  // Text and colour profiles: no pixel depends on them.
  png_set_keep_unknown_chunks(decoder.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(decoder.png, decoder.info);
  return true;
}

enum class PngPixels { bgr, deep, indices };

void choose_png_pixels(PngDecoder& decoder, PngPixels pixels) {
  png_structp png = decoder.png;
  const int type = png_get_color_type(png, decoder.info);
  if (pixels == PngPixels::indices) {
    png_set_packing(png);  // one byte per index
    png_set_strip_alpha(png);
    return;
  }
  png_set_strip_alpha(png);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if ((type & PNG_COLOR_MASK_COLOR) != 0)
    png_set_bgr(png);
  else if (pixels == PngPixels::bgr || type == PNG_COLOR_TYPE_GRAY_ALPHA)
    png_set_gray_to_rgb(png);
  if (type == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(png, decoder.info) < 8)
    png_set_expand_gray_1_2_4_to_8(png);
  if (pixels == PngPixels::deep && std::endian::native == std::endian::little) png_set_swap(png);
}

bool read_png_rows(PngDecoder& decoder, PngPixels pixels) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  choose_png_pixels(decoder, pixels);
  png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
  if (png_get_image_height(decoder.png, decoder.info) != decoder.rows.size() ||
      png_get_rowbytes(decoder.png, decoder.info) != decoder.row_bytes)
    png_error(decoder.png, "its pixels have an unknown form");
  png_read_image(decoder.png, decoder.rows.data());
  png_read_end(decoder.png, nullptr);
  return true;
}

// `memory_of(png)` prepares the memory, after the header was read.
template <class MemoryOf>
Status decode_png_as(EncodedBytes file, int height, PngPixels pixels, const MemoryOf& memory_of) {
  PngDecoder decoder(file);
  if (decoder.info == nullptr) return input_error("there is not enough memory to decode it");
  const auto failed = [&] { return input_error(fmt::format("damaged PNG: {}", decoder.problem.data())); };
  if (!read_png_header(decoder)) return failed();
  decoder.rows.resize(static_cast<std::size_t>(height));
  memory_of(decoder);
  if (!read_png_rows(decoder, pixels)) return failed();
  return {};
}

}  // namespace

Status decode_png(EncodedBytes file, const FrameTarget& frame) {
  const std::size_t stride = static_cast<std::size_t>(frame.width()) * 3;
  std::vector<std::uint8_t> whole;  // an interlaced picture is complete only at the end
  auto decoded = decode_png_as(file, frame.height(), PngPixels::bgr, [&](PngDecoder& decoder) {
    if (!frame.upright()) whole.resize(stride * static_cast<std::size_t>(frame.height()));
    decoder.write_to(frame.upright() ? frame.row(0) : whole.data(), stride);
  });
  if (decoded && !frame.upright()) frame.place(whole.data(), stride, 0, 0, frame.width(), frame.height());
  return decoded;
}

Result<DeepPicture> decode_deep_png(EncodedBytes file, const ImageHeader& header) {
  DeepPicture picture;
  picture.channels = header.channels == 1 ? 1 : 3;
  const std::size_t samples =
      static_cast<std::size_t>(header.width) * static_cast<std::size_t>(picture.channels);
  auto decoded = decode_png_as(file, header.height, PngPixels::deep, [&](PngDecoder& decoder) {
    picture.words.resize(samples * static_cast<std::size_t>(header.height));
    decoder.write_to(picture.words.data(), samples * 2);
  });
  if (!decoded) return forward_error(decoded);
  return picture;
}

Result<std::vector<std::uint8_t>> decode_png_indices(EncodedBytes file, const ImageHeader& header) {
  const auto width = static_cast<std::size_t>(header.width);
  std::vector<std::uint8_t> indices(width * static_cast<std::size_t>(header.height));
  auto decoded = decode_png_as(file, header.height, PngPixels::indices,
                               [&](PngDecoder& decoder) { decoder.write_to(indices.data(), width); });
  if (!decoded) return forward_error(decoded);
  return indices;
}

}  // namespace headroom::media
