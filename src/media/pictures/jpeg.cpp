#include <fmt/format.h>

#include <algorithm>

#include "media/pictures/decoders.h"
#include "media/pictures/jpeg_error.h"

namespace headroom::media {
namespace {

JpegError& jpeg_error_of(j_common_ptr info) { return *reinterpret_cast<JpegError*>(info->err); }

[[noreturn]] void leave_libjpeg(j_common_ptr info) {
  JpegError& error = jpeg_error_of(info);
  info->err->format_message(info, error.fatal.data());
  std::longjmp(error.escape, 1);
}

// Reports after which pixels are made up. Harmless ones ("extraneous bytes before marker"), which files of
// some cameras always cause, are not included.
const char* jpeg_damage(int code) {
  switch (code) {
    case JWRN_JPEG_EOF:
      return "premature end of JPEG file";
    case JWRN_HIT_MARKER:
      return "premature end of data segment";
    case JWRN_HUFF_BAD_CODE:
      return "bad Huffman code";
    case JWRN_MUST_RESYNC:
      return "a restart marker is missing";
    case JWRN_BOGUS_PROGRESSION:
      return "inconsistent progression sequence";
    case JWRN_ARITH_BAD_CODE:
      return "bad arithmetic code";
    default:
      return nullptr;
  }
}

void note_jpeg_report(j_common_ptr info, int level) {
  if (level >= 0) return;  // a trace message
  ++info->err->num_warnings;
  JpegError& error = jpeg_error_of(info);
  if (error.damage == nullptr) error.damage = jpeg_damage(info->err->msg_code);
}

void print_nothing(j_common_ptr) {}

constexpr int kStripRows = 16;

// Objects with destructors live here and not in the functions that libjpeg's errors leave.
struct JpegDecoder {
  JpegDecoder(EncodedBytes encoded, const FrameTarget& target) : file(encoded), frame(target) {
    info.err = &error.manager;
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&info); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  bool in_place() const { return frame.upright() && info.out_color_space == JCS_EXT_BGR; }

  EncodedBytes file;
  const FrameTarget& frame;
  JpegError error;
  jpeg_decompress_struct info{};
  std::vector<std::uint8_t> strip;  // if the rows cannot be decoded in place
  std::array<JSAMPROW, kStripRows> rows{};
};

bool read_jpeg_header(JpegDecoder& jpeg) {
  if (setjmp(jpeg.error.escape) != 0) return false;
  jpeg_create_decompress(&jpeg.info);
  jpeg_mem_src(&jpeg.info, jpeg.file.data(), static_cast<unsigned long>(jpeg.file.size()));
  jpeg_read_header(&jpeg.info, TRUE);
  // libjpeg converts CMYK and YCCK only to CMYK.
  jpeg.info.out_color_space = jpeg.info.num_components == 4 ? JCS_CMYK : JCS_EXT_BGR;
  return true;
}

// Adobe's files store inverted CMYK: 255 is no ink.
void cmyk_to_bgr(std::uint8_t* pixels, std::size_t count) {
  const std::uint8_t* cmyk = pixels;
  for (std::uint8_t* bgr = pixels; count > 0; --count, bgr += 3, cmyk += 4) {
    const int black = cmyk[3];
    const auto mixed = [&](int ink) {
      return static_cast<std::uint8_t>(black - (((255 - ink) * black) >> 8));
    };
    const std::uint8_t red = mixed(cmyk[0]), green = mixed(cmyk[1]), blue = mixed(cmyk[2]);
    bgr[0] = blue;
    bgr[1] = green;
    bgr[2] = red;
  }
}

void place_strip(JpegDecoder& jpeg, int y, int count) {
  const auto width = static_cast<std::size_t>(jpeg.frame.width());
  for (int i = 0; i < count; ++i) {
    if (jpeg.info.out_color_space == JCS_CMYK) cmyk_to_bgr(jpeg.rows[static_cast<std::size_t>(i)], width);
  }
  jpeg.frame.place(jpeg.strip.data(), width * 4, 0, y, jpeg.frame.width(), count);
}

bool read_jpeg_rows(JpegDecoder& jpeg) {
  if (setjmp(jpeg.error.escape) != 0) return false;
  jpeg_start_decompress(&jpeg.info);
  while (jpeg.info.output_scanline < jpeg.info.output_height) {
    const int y = static_cast<int>(jpeg.info.output_scanline);
    const int wanted = std::min(kStripRows, jpeg.frame.height() - y);
    for (int i = 0; i < wanted; ++i)
      jpeg.rows[static_cast<std::size_t>(i)] =
          jpeg.in_place() ? jpeg.frame.row(y + i)
                          : jpeg.strip.data() + std::ptrdiff_t{i} * jpeg.frame.width() * 4;
    int read = 0;  // libjpeg returns the rows that it has, at least one
    while (read < wanted)
      read += static_cast<int>(
          jpeg_read_scanlines(&jpeg.info, jpeg.rows.data() + read, static_cast<JDIMENSION>(wanted - read)));
    if (!jpeg.in_place()) place_strip(jpeg, y, wanted);
  }
  jpeg_finish_decompress(&jpeg.info);
  return true;
}

}  // namespace

JpegError::JpegError() {
  jpeg_std_error(&manager);
  manager.error_exit = leave_libjpeg;
  manager.emit_message = note_jpeg_report;
  manager.output_message = print_nothing;
}

Status decode_jpeg(EncodedBytes file, const FrameTarget& frame) {
  JpegDecoder jpeg(file, frame);
  const auto failed = [&] { return input_error(fmt::format("damaged JPEG: {}", jpeg.error.fatal.data())); };
  if (!read_jpeg_header(jpeg)) return failed();
  if (static_cast<int>(jpeg.info.image_width) != frame.width() ||
      static_cast<int>(jpeg.info.image_height) != frame.height())
    return input_error("damaged JPEG: it has more than one size");
  if (!jpeg.in_place())
    jpeg.strip.resize(static_cast<std::size_t>(kStripRows) * static_cast<std::size_t>(frame.width()) * 4);
  if (!read_jpeg_rows(jpeg)) return failed();
  if (jpeg.error.damage != nullptr) return input_error(fmt::format("damaged JPEG: {}", jpeg.error.damage));
  return {};
}

}  // namespace headroom::media
