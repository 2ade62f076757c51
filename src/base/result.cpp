#include "base/result.h"

#include <system_error>

namespace headroom {

namespace {

// A value from a hostile file can have megabytes. Paths have at most 4096 bytes.
std::string shortened(const std::string& text) {
  constexpr std::size_t kMost = 6000, kKept = 600;
  if (text.size() <= kMost) return text;
  std::size_t end = kKept;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not inside a character
  return text.substr(0, end) + "…";
}

}  // namespace

std::string Error::sentence() const {
  std::string text = shortened(what);
  if (!why.empty()) text += ": " + shortened(why);
  if (!fix.empty()) text += "; " + fix;
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  return text;
}

std::string errno_text(int error_number) { return std::generic_category().message(error_number); }

}  // namespace headroom
