#include "recording/is_recording.h"

#include <cstring>
#include <fstream>

#include "recording/format.h"

namespace headroom::recording {

bool is_recording(const std::filesystem::path& file) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(file, code)) return false;
  char magic[sizeof kMagic] = {};
  std::ifstream stream(file, std::ios::binary);
  return stream.read(magic, sizeof magic) && std::memcmp(magic, kMagic, sizeof magic) == 0;
}

}  // namespace headroom::recording
