// The entry point of a fuzzer, which defines fuzz(), and what fuzzers share.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/files.h"

// Reads any bytes. Aborts if a result is wrong.
void fuzz(std::string_view input);

extern "C" [[gnu::used]] inline int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz({reinterpret_cast<const char*>(data), size});
  return 0;
}

inline void require(bool holds) {
  if (!holds) std::abort();
}

// A file in memory.
struct InputFile {
  explicit InputFile(std::string_view content) : fd(::memfd_create("input", MFD_CLOEXEC)) {
    require(headroom::write_all(fd.get(), content).has_value());
  }
  headroom::UniqueFd fd;
  std::string path = "/proc/self/fd/" + std::to_string(fd.get());
};
