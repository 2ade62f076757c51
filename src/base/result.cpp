#include "base/result.h"

#include <system_error>

namespace headroom {

std::string Error::sentence() const {
  std::string text = what;
  if (!why.empty()) text += ": " + why;
  if (!fix.empty()) text += "; " + fix;
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  return text;
}

std::string errno_text(int error_number) { return std::generic_category().message(error_number); }

}  // namespace headroom
