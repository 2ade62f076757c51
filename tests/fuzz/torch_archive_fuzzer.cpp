// Model files for the LibTorch plug-in: any content is recognized as exactly one kind.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "inference/libtorch/checks.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int file = ::memfd_create("archive", 0);
  if (file < 0 || ::ftruncate(file, 0) != 0) __builtin_trap();
  if (::pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) __builtin_trap();
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  (void)headroom::libtorch::archive_kind(path);
  return 0;
}
