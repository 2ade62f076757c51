// Masks for tests.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "types/vos.h"

namespace headroom::test {

// A mask of rows of '#' and '.'.
inline BinaryMask mask_of_rows(const std::vector<std::string_view>& rows) {
  BinaryMask mask{static_cast<int>(rows.front().size()), static_cast<int>(rows.size())};
  for (const std::string_view row : rows)
    for (const char c : row) mask.pixels.push_back(c == '#' ? 1 : 0);
  return mask;
}

inline BinaryMask filled_mask(int width, int height, int value) {
  return {width, height,
          std::vector<std::uint8_t>(static_cast<std::size_t>(width) * static_cast<std::size_t>(height),
                                    static_cast<std::uint8_t>(value))};
}

// A rectangle from (left, top) to (right, bottom), which are inside it.
inline BinaryMask rectangle_mask(int width, int height, int left, int top, int right, int bottom) {
  BinaryMask mask = filled_mask(width, height, 0);
  for (int y = top; y <= bottom; ++y)
    for (int x = left; x <= right; ++x)
      mask.pixels[static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
                  static_cast<std::size_t>(x)] = 1;
  return mask;
}

}  // namespace headroom::test
