// libtiff on a file in memory.
#pragma once

#include <tiffio.h>

#include <memory>
#include <string>

#include "media/pictures/decoders.h"

namespace headroom::media {

class TiffFile {
 public:
  // Fails if libtiff cannot read the first directory, or reads another size than inspect_image did.
  static Result<std::unique_ptr<TiffFile>> open(EncodedBytes bytes, int width, int height);
  ~TiffFile();
  TiffFile(const TiffFile&) = delete;
  TiffFile& operator=(const TiffFile&) = delete;

  TIFF* get() const { return tiff_; }
  std::uint16_t field(std::uint32_t tag) const;  // the standard's default if it is absent
  // An error with libtiff's first message since the file was opened.
  tl::unexpected<Error> damaged() const;

  // The picture's pieces: its tiles, or its strips, which are as wide as the picture.
  struct Piece {
    int x, y;           // of its first pixel
    int columns, rows;  // inside the picture
  };
  bool tiled() const { return tiled_; }
  int piece_width() const { return piece_width_; }
  int piece_height() const { return piece_height_; }
  // Calls each(piece) until one fails.
  template <class Each>
  Status for_each_piece(const Each& each) const {
    for (int y = 0; y < height_; y += piece_height_)
      for (int x = 0; x < width_; x += piece_width_) {
        const Piece piece{x, y, std::min(piece_width_, width_ - x), std::min(piece_height_, height_ - y)};
        if (auto status = each(piece); !status) return status;
      }
    return {};
  }

 private:
  explicit TiffFile(EncodedBytes bytes) : bytes_(bytes) {}
  bool read_pieces();

  EncodedBytes bytes_;
  std::uint64_t at_ = 0;
  TIFF* tiff_ = nullptr;
  int width_ = 0, height_ = 0;
  bool tiled_ = false;
  int piece_width_ = 0, piece_height_ = 0;

  friend struct TiffCalls;
};

}  // namespace headroom::media
