#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "media/pictures/tiff_file.h"

namespace headroom::media {
namespace {

std::size_t size_of(int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); }

// Reads samples of up to 64 bits. libtiff has put those of whole bytes in this machine's byte order; others
// are packed, beginning with the highest bit of the first byte.
class DeepRows {
 public:
  DeepRows(const TiffFile& file, const ImageHeader& header)
      : file_(file),
        width_(header.width),
        bits_(file.field(TIFFTAG_BITSPERSAMPLE)),
        format_(file.field(TIFFTAG_SAMPLEFORMAT)),
        stored_channels_(file.field(TIFFTAG_SAMPLESPERPIXEL)),
        separate_(file.field(TIFFTAG_PLANARCONFIG) == PLANARCONFIG_SEPARATE) {
    if (file.field(TIFFTAG_PHOTOMETRIC) == PHOTOMETRIC_LOGLUV) {
      TIFFSetField(file.get(), TIFFTAG_SGILOGDATAFMT, SGILOGDATAFMT_FLOAT);
      bits_ = 32;
      format_ = SAMPLEFORMAT_IEEEFP;
      xyz_ = true;
    }
    picture_.channels = stored_channels_ == 1 ? 1 : 3;
    const std::size_t samples =
        size_of(header.width, header.height) * static_cast<std::size_t>(picture_.channels);
    if (bits_ <= 16 && format_ == SAMPLEFORMAT_UINT)
      picture_.words.resize(samples);
    else
      picture_.floats.resize(samples);
  }

  bool supported() const {
    if (stored_channels_ != 1 && stored_channels_ != 3 && stored_channels_ != 4) return false;
    if (xyz_) return stored_channels_ == 3 && !separate_;
    if (format_ == SAMPLEFORMAT_IEEEFP) return bits_ == 32 || bits_ == 64;
    if (format_ == SAMPLEFORMAT_UINT) return (bits_ > 8 && bits_ <= 16) || bits_ == 32;
    return format_ == SAMPLEFORMAT_INT && (bits_ == 16 || bits_ == 32);
  }

  Status read(const TiffFile::Piece& piece) {
    const auto row_bytes = static_cast<std::size_t>(file_.tiled() ? TIFFTileRowSize(file_.get())
                                                                  : TIFFScanlineSize(file_.get()));
    const std::size_t channels = separate_ ? 1U : stored_channels_;
    if (row_bytes < (size_of(file_.piece_width(), static_cast<int>(channels)) * bits_ + 7) / 8)
      return file_.damaged();
    bytes_.resize(row_bytes * static_cast<std::size_t>(file_.piece_height()));
    const int planes = separate_ ? stored_channels_ : 1;
    for (int plane = 0; plane < std::min(planes, 3); ++plane) {
      if (!fill(piece, plane, row_bytes)) return file_.damaged();
      for (int y = 0; y < piece.rows; ++y)
        take_row(bytes_.data() + static_cast<std::size_t>(y) * row_bytes, piece, y, plane);
    }
    return {};
  }

  DeepPicture take() {
    if (xyz_) xyz_to_bgr();
    return std::move(picture_);
  }

 private:
  bool fill(const TiffFile::Piece& piece, int plane, std::size_t row_bytes) {
    TIFF* tiff = file_.get();
    const auto x = static_cast<std::uint32_t>(piece.x), y = static_cast<std::uint32_t>(piece.y);
    const auto sample = static_cast<std::uint16_t>(plane);
    const auto size = static_cast<tmsize_t>(bytes_.size());
    const tmsize_t read =
        file_.tiled() ? TIFFReadEncodedTile(tiff, TIFFComputeTile(tiff, x, y, 0, sample), bytes_.data(), size)
                      : TIFFReadEncodedStrip(tiff, TIFFComputeStrip(tiff, y, sample), bytes_.data(), size);
    return read >= static_cast<tmsize_t>(row_bytes * static_cast<std::size_t>(piece.rows));
  }

  // Files store red, green and blue; alpha is the fourth channel.
  void take_row(const std::uint8_t* row, const TiffFile::Piece& piece, int y, int plane) {
    const auto channels = static_cast<std::size_t>(picture_.channels);
    std::size_t to = (size_of(piece.y + y, width_) + static_cast<std::size_t>(piece.x)) * channels;
    for (std::size_t x = 0; x < static_cast<std::size_t>(piece.columns); ++x, to += channels) {
      if (separate_) {
        store(to + (channels - 1 - static_cast<std::size_t>(plane)), row, x);
        continue;
      }
      for (std::size_t c = 0; c < channels; ++c) store(to + channels - 1 - c, row, x * stored_channels_ + c);
    }
  }

  void store(std::size_t to, const std::uint8_t* row, std::size_t index) {
    if (!picture_.words.empty()) {
      picture_.words[to] = bits_ == 16 ? at<std::uint16_t>(row, index) : packed(row, index);
    } else if (format_ == SAMPLEFORMAT_IEEEFP) {
      picture_.floats[to] = bits_ == 32 ? at<float>(row, index) : static_cast<float>(at<double>(row, index));
    } else if (bits_ == 16) {
      picture_.floats[to] = at<std::int16_t>(row, index);
    } else {
      picture_.floats[to] = format_ == SAMPLEFORMAT_INT ? static_cast<float>(at<std::int32_t>(row, index))
                                                        : static_cast<float>(at<std::uint32_t>(row, index));
    }
  }

  template <class Value>
  static Value at(const std::uint8_t* row, std::size_t index) {
    Value value;
    std::memcpy(&value, row + index * sizeof(Value), sizeof(Value));
    return value;
  }

  std::uint16_t packed(const std::uint8_t* row, std::size_t index) const {
    unsigned value = 0;
    const std::size_t first = index * bits_;
    for (std::size_t bit = first; bit < first + bits_; ++bit)
      value = value << 1U | (row[bit / 8] >> (7 - bit % 8) & 1U);
    return static_cast<std::uint16_t>(value);
  }

  // CIE XYZ to linear RGB with sRGB's primaries and white point D65. `floats` holds Z, Y, X.
  void xyz_to_bgr() {
    for (std::size_t i = 0; i + 2 < picture_.floats.size(); i += 3) {
      float* pixel = picture_.floats.data() + i;
      const float x = pixel[2], y = pixel[1], z = pixel[0];
      pixel[0] = x * 0.055648F + y * -0.204043F + z * 1.057311F;
      pixel[1] = x * -0.969256F + y * 1.875991F + z * 0.041556F;
      pixel[2] = x * 3.240479F + y * -1.53715F + z * -0.498535F;
    }
  }

  const TiffFile& file_;
  int width_;
  unsigned bits_, format_, stored_channels_;
  bool separate_, xyz_ = false;
  std::vector<std::uint8_t> bytes_;  // of one piece
  DeepPicture picture_;
};

// libtiff gives 32-bit colours (red in the lowest byte), from the bottom row of the piece to its top row.
void place_colors(const std::uint32_t* top, int stride, const TiffFile::Piece& piece,
                  const FrameTarget& frame, std::vector<std::uint8_t>& bgr) {
  for (int y = 0; y < piece.rows; ++y) {
    const std::uint32_t* from = top - std::ptrdiff_t{y} * stride;
    std::uint8_t* to = frame.upright() ? frame.row(piece.y + y) + 3 * std::ptrdiff_t{piece.x} : bgr.data();
    for (int x = 0; x < piece.columns; ++x, to += 3) {
      to[0] = static_cast<std::uint8_t>(TIFFGetB(from[x]));
      to[1] = static_cast<std::uint8_t>(TIFFGetG(from[x]));
      to[2] = static_cast<std::uint8_t>(TIFFGetR(from[x]));
    }
    if (!frame.upright()) frame.place(bgr.data(), bgr.size(), piece.x, piece.y + y, piece.columns, 1);
  }
}

}  // namespace

Status decode_tiff(EncodedBytes bytes, const FrameTarget& frame) {
  auto opened = TiffFile::open(bytes, frame.width(), frame.height());
  if (!opened) return forward_error(opened);
  const TiffFile& file = **opened;
  std::array<char, 1024> reason{};
  if (TIFFRGBAImageOK(file.get(), reason.data()) == 0)
    return input_error(fmt::format("this kind of TIFF is not supported: {}", reason.data()));
  // The frame turns the picture. libtiff would only mirror it, piece by piece.
  TIFFSetField(file.get(), TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);

  const int width = file.piece_width(), height = file.piece_height();
  std::vector<std::uint32_t> colors(size_of(width, height));
  std::vector<std::uint8_t> bgr(frame.upright() ? 0 : static_cast<std::size_t>(width) * 3);
  return file.for_each_piece([&](const TiffFile::Piece& piece) -> Status {
    const auto x = static_cast<std::uint32_t>(piece.x), y = static_cast<std::uint32_t>(piece.y);
    const int read = file.tiled() ? TIFFReadRGBATileExt(file.get(), x, y, colors.data(), 1)
                                  : TIFFReadRGBAStripExt(file.get(), y, colors.data(), 1);
    if (read == 0) return file.damaged();
    const int rows = file.tiled() ? height : piece.rows;  // the last strip is shorter
    place_colors(colors.data() + size_of(rows - 1, width), width, piece, frame, bgr);
    return {};
  });
}

Result<DeepPicture> decode_deep_tiff(EncodedBytes bytes, const ImageHeader& header) {
  auto opened = TiffFile::open(bytes, header.width, header.height);
  if (!opened) return forward_error(opened);
  DeepRows rows(**opened, header);
  if (!rows.supported()) return input_error("this kind of TIFF is not supported");
  auto read = (*opened)->for_each_piece([&](const TiffFile::Piece& piece) { return rows.read(piece); });
  if (!read) return forward_error(read);
  return rows.take();
}

}  // namespace headroom::media
