// Resizes a picture to a square, without keeping its shape, as the SAM 2 predictors do: as
// Image.resize(BICUBIC) of Pillow 11.3, to the bit. (Version 13 sometimes starts with the columns.) The
// filter is Keys' cubic with a = -0.5, widened where the picture shrinks, so that it antialiases. Rows come
// first, then columns, in fixed point with 22 bits and with 8-bit values in between.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace headroom::media::vos {

// A working memory that is kept from picture to picture of one size.
class Squasher {
 public:
  explicit Squasher(int side) : side_(side) {}

  // `bgr`: width × height pixels of 3 bytes, rows packed. `planes`: red, green and blue, side × side bytes
  // each, row by row.
  void run(const std::uint8_t* bgr, int width, int height, std::span<std::uint8_t> planes);

 private:
  // For each output position: the first input position, and the weights of it and those after it.
  struct Filter {
    int from = 0, taps = 0;  // the size it was made for, and weights per position
    std::vector<int> first, count;
    std::vector<std::int32_t> weights;
  };
  void make(Filter& filter, int from) const;

  int side_;
  Filter across_, down_;
  std::vector<std::uint8_t> narrow_;  // BGR, side_ × height
};

}  // namespace headroom::media::vos
