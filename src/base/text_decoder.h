// Decodes text of Windows programs. PowerShell's ">" writes UTF-16, Excel writes a byte order mark.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headroom {

// Text in UTF-16 with a byte order mark becomes UTF-8, and a byte order mark is removed. All other text stays
// as it is. Text comes in pieces, as it is read.
class TextDecoder {
 public:
  // How much to read into a buffer with this room: UTF-8 may be half as long again as UTF-16.
  std::size_t most(std::size_t room) const { return kind_ == Kind::plain ? room : room / 3 * 2; }
  // Decodes a piece in place, which most() has room for. Returns its new size.
  std::size_t decode(char* data, std::size_t size);

 private:
  enum class Kind { unknown, plain, little_endian, big_endian };

  Kind kind_ = Kind::unknown;
  int first_byte_ = -1;               // of a character whose second byte is in the next piece
  std::uint32_t high_surrogate_ = 0;  // waits for the low one
};

}  // namespace headroom
