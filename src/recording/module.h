// A file that was mapped for execution, as a reader of recordings is told of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/units.h"

namespace headroom::recording {

struct Module {
  std::string path, build_id;  // build id as lower-case hex digits; empty where the file has none
  // Where it lay, unless it left its addresses to another module: then a place of its own that no process
  // has memory at, and the frames of its stacks lie there, too (module_places.h).
  std::uint64_t load_bias = 0, start = 0, end = 0;
  Nanoseconds loaded;
  std::optional<Nanoseconds> unloaded;
};

}  // namespace headroom::recording
