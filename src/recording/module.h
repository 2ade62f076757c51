// A file that was mapped for execution, as readers of recordings see it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/units.h"

namespace headroom::recording {

struct Module {
  std::string path, build_id;  // build id in lower-case hex digits; empty if the file has none
  // Where the module was mapped. If another module reused its addresses, this is an artificial place that no
  // process uses. The reader then moves the frames of its stacks there, too (module_places.h).
  std::uint64_t load_bias = 0, start = 0, end = 0;
  Nanoseconds loaded;
  std::optional<Nanoseconds> unloaded;
};

}  // namespace headroom::recording
