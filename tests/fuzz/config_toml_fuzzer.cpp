// Configuration files: for any file content, the reader returns flags or an error.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cli/bench_flags.h"
#include "cli/config_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headroom::cli;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto values = parse_config(bench_verb(), text, "fuzz.toml", "/nowhere")) {
    const auto again = parse_config(bench_verb(), to_toml(bench_verb(), *values), "dump.toml", "");
    if (!again) __builtin_trap();  // serialized TOML must parse again
  }
  return 0;
}
