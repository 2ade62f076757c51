// Configuration files: for any file content, the reader returns flags or an error.
#include <vector>

#include "cli/bench_flags.h"
#include "fuzz.h"

void fuzz(std::string_view text) {
  using namespace headroom::cli;
  if (const auto values = parse_config(text, "fuzz.toml", "/nowhere")) {
    const auto again = parse_config(to_toml(*values), "dump.toml", "");
    if (!again) __builtin_trap();  // serialized TOML must parse again
  }
}
