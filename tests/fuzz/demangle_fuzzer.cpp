// Symbol names from a hostile symbol table, for example short names that expand to gigabytes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "symbols/demangle.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view symbol(reinterpret_cast<const char*>(data), size);
  if (headroom::symbols::demangle(symbol).size() > size + 16 * 1024 + 8) __builtin_trap();
  return 0;
}
