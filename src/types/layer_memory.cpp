#include "types/layer_memory.h"

#include <array>

namespace headroom {

std::string_view name_of(MemoryKind kind) {
  constexpr std::array<std::string_view, 12> kNames{
      "weights",   "graph",     "tensors", "arena_rounding", "arena_unused", "arena_later",
      "workspace", "run_later", "run",     "tracing",        "module",       "unnamed"};
  return kNames.at(static_cast<std::size_t>(kind));
}

}  // namespace headroom
