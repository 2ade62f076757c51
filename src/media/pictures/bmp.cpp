// BMP: BITMAPFILEHEADER, one of several headers that begin with their own size, a palette, and rows of
// pixels, bottom up unless the height is negative. 1, 4 and 8 bits are palette indices, 16 bits hold 5 bits
// per colour (or 6 for green), 24 and 32 bits are blue, green, red and an unused byte. 4 and 8 bits can be
// run-length coded.
#include <algorithm>
#include <array>
#include <cstring>

#include "media/image_header_formats.h"
#include "media/pictures/decoders.h"

namespace headroom::media {
namespace {

using BgrColor = std::array<std::uint8_t, 3>;
enum BmpCompression : std::uint32_t { kPlainPixels = 0, kRuns8 = 1, kRuns4 = 2, kBitFields = 3 };
constexpr std::uint64_t kFileHeader = 14, kOldHeader = 12, kInfoHeader = 40;

struct BmpLayout {
  std::uint64_t pixels_at = 0;
  unsigned bits = 0;
  std::uint64_t compression = kPlainPixels;
  bool bottom_up = true;
  bool six_green_bits = false;
  std::array<BgrColor, 256> palette{};
};

// Old headers have colours of three bytes, others of four.
bool read_bmp_palette(const ByteReader& reader, std::uint64_t header_size, BmpLayout& bmp) {
  const std::uint64_t entry = header_size == kOldHeader ? 3 : 4;
  const std::uint64_t used = header_size == kOldHeader ? 0 : reader.number(46, 4).value_or(0);
  const std::uint64_t count = used == 0 ? std::uint64_t{1} << bmp.bits : used;
  if (count > bmp.palette.size()) return false;
  for (std::uint64_t i = 0; i < count; ++i)
    for (std::uint64_t c = 0; c < 3; ++c) {
      const auto value = reader.number(kFileHeader + header_size + i * entry + c, 1);
      if (!value) return false;
      bmp.palette[i][c] = static_cast<std::uint8_t>(*value);
    }
  return true;
}

// The masks of 16-bit pixels: 5, 5 and 5 bits, or 5, 6 and 5.
bool read_bmp_masks(const ByteReader& reader, BmpLayout& bmp) {
  const auto red = reader.number(kFileHeader + kInfoHeader, 4);
  const auto green = reader.number(kFileHeader + kInfoHeader + 4, 4);
  const auto blue = reader.number(kFileHeader + kInfoHeader + 8, 4);
  bmp.six_green_bits = green == 0x7e0U;
  return blue == 0x1fU && (bmp.six_green_bits ? red == 0xf800U : green == 0x3e0U && red == 0x7c00U);
}

bool read_bmp_layout(EncodedBytes file, BmpLayout& bmp) {
  const ByteReader reader(file, ByteOrder::little);
  const std::uint64_t header_size = reader.number(14, 4).value_or(0);
  bmp.pixels_at = reader.number(10, 4).value_or(0);
  if (header_size == kOldHeader) {
    bmp.bits = static_cast<unsigned>(reader.number(24, 2).value_or(0));
  } else if (header_size >= 36 && header_size <= file.size()) {
    bmp.bits = static_cast<unsigned>(reader.number(28, 2).value_or(0));
    bmp.compression = reader.number(30, 4).value_or(kPlainPixels);
    bmp.bottom_up = static_cast<std::int32_t>(reader.number(22, 4).value_or(0)) > 0;
  } else {
    return false;
  }
  switch (bmp.bits) {
    case 1:
    case 4:
    case 8: {
      const std::uint64_t runs = bmp.bits == 4 ? kRuns4 : bmp.bits == 8 ? kRuns8 : kPlainPixels;
      if (bmp.compression != kPlainPixels && bmp.compression != runs) return false;
      return read_bmp_palette(reader, header_size, bmp);
    }
    case 16:
      return header_size != kOldHeader && (bmp.compression == kPlainPixels ||
                                           (bmp.compression == kBitFields && read_bmp_masks(reader, bmp)));
    case 24:
      return bmp.compression == kPlainPixels;
    case 32:
      return bmp.compression == kPlainPixels || bmp.compression == kBitFields;
    default:
      return false;
  }
}

void set_pixel(std::uint8_t* row, int x, const BgrColor& color) {
  std::copy_n(color.data(), 3, row + 3 * std::ptrdiff_t{x});
}

void write_bmp_row(const BmpLayout& bmp, const std::uint8_t* stored, std::uint8_t* row, int width) {
  for (int x = 0; x < width; ++x) {
    const auto bit = static_cast<unsigned>(x) * bmp.bits;
    const std::uint8_t* from = stored + bit / 8;
    if (bmp.bits <= 8) {
      set_pixel(row, x, bmp.palette[(*from >> (8 - bmp.bits - bit % 8)) & ((1U << bmp.bits) - 1)]);
    } else if (bmp.bits == 16) {
      const unsigned value = from[0] | static_cast<unsigned>(from[1]) << 8U;
      const unsigned green = bmp.six_green_bits ? (value >> 3U) & 0xfcU : (value >> 2U) & 0xf8U;
      const unsigned red = value >> (bmp.six_green_bits ? 8U : 7U) & 0xf8U;
      set_pixel(row, x,
                {static_cast<std::uint8_t>(value << 3U & 0xf8U), static_cast<std::uint8_t>(green),
                 static_cast<std::uint8_t>(red)});
    } else {
      set_pixel(row, x, {from[0], from[1], from[2]});
    }
  }
}

// Run-length-coded pixels. A pair of bytes is a run (count, indices), or 0 and: 0 end of the row, 1 end of
// the picture, 2 a move by two more bytes, else the count of indices that follow, padded to 2 bytes. Pixels
// that are not written have the first colour.
class BmpRuns {
 public:
  BmpRuns(const BmpLayout& bmp, EncodedBytes file, const FrameTarget& frame)
      : bmp_(bmp), reader_(file, ByteOrder::little), at_(bmp.pixels_at), frame_(frame) {}

  bool decode() {
    for (int y = 0; y < frame_.height(); ++y)
      for (int x = 0; x < frame_.width(); ++x) set_pixel(frame_.row(y), x, bmp_.palette[0]);
    while (y_ < frame_.height()) {
      const auto count = byte();
      const auto code = byte();
      if (!code) return false;
      if (*count > 0) {
        for (int i = 0; i < static_cast<int>(*count); ++i) put(index_in(static_cast<unsigned>(*code), i));
      } else if (*code == 0) {
        x_ = 0;
        ++y_;
      } else if (*code == 1) {
        return true;
      } else if (*code == 2) {
        x_ = std::min(x_ + static_cast<int>(byte().value_or(0)), frame_.width());
        y_ += static_cast<int>(byte().value_or(0));
      } else if (!single_pixels(static_cast<int>(*code))) {
        return false;
      }
    }
    return true;
  }

 private:
  std::optional<std::uint64_t> byte() { return reader_.number(at_++, 1); }

  // Some programs also code the bytes that pad a row.
  void put(unsigned index) {
    if (x_ >= frame_.width() || y_ >= frame_.height()) return;
    set_pixel(frame_.row(bmp_.bottom_up ? frame_.height() - 1 - y_ : y_), x_, bmp_.palette[index]);
    ++x_;
  }
  // Two indices of 4 bits alternate.
  unsigned index_in(unsigned code, int i) const {
    return bmp_.bits == 8 ? code : (code >> (i % 2 == 0 ? 4U : 0U)) & 15U;
  }
  bool single_pixels(int count) {
    const int per_byte = bmp_.bits == 8 ? 1 : 2;
    const std::uint64_t start = at_;
    std::optional<std::uint64_t> code;
    for (int i = 0; i < count; ++i) {
      if (i % per_byte == 0) code = byte();
      if (!code) return false;
      put(index_in(static_cast<unsigned>(*code), i));
    }
    at_ += (at_ - start) % 2;
    return true;
  }

  const BmpLayout& bmp_;
  ByteReader reader_;
  std::uint64_t at_;
  const FrameTarget& frame_;
  int x_ = 0, y_ = 0;
};

}  // namespace

Status decode_bmp(EncodedBytes file, const FrameTarget& frame) {
  BmpLayout bmp;
  if (!read_bmp_layout(file, bmp)) return input_error("this kind of BMP is not supported");
  if (bmp.compression == kRuns4 || bmp.compression == kRuns8) {
    if (!BmpRuns(bmp, file, frame).decode()) return input_error("truncated BMP: rows of pixels are missing");
    return {};
  }
  const std::size_t stored = (static_cast<std::size_t>(frame.width()) * bmp.bits + 31) / 32 * 4;
  if (bmp.pixels_at > file.size() ||
      stored * static_cast<std::size_t>(frame.height()) > file.size() - bmp.pixels_at)
    return input_error("truncated BMP: rows of pixels are missing");
  for (int y = 0; y < frame.height(); ++y)
    write_bmp_row(bmp, file.data() + bmp.pixels_at + static_cast<std::size_t>(y) * stored,
                  frame.row(bmp.bottom_up ? frame.height() - 1 - y : y), frame.width());
  return {};
}

}  // namespace headroom::media
