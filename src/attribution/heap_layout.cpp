#include "attribution/heap_layout.h"

#include <algorithm>

namespace headroom::attribution {

HeapLayout heap_layout_of(const recording::RecordingInfo& info) {
  // The break begins up to 1 GiB behind the program, by chance. Libraries and other mappings lie at the other
  // end of the addresses, on the smallest machines (39 bits) 180 GiB away.
  constexpr std::uint64_t kFurthest = std::uint64_t{64} << 30;
  const auto program = std::ranges::find(info.modules, info.executable, &recording::Module::path);
  if (info.executable.empty() || program == info.modules.end() || program->end > ~kFurthest) return {};
  // A program that was started by naming the loader lies among the libraries, and its break elsewhere.
  std::uint64_t end = program->end + kFurthest;
  for (const recording::Module& module : info.modules)
    if (module.start >= program->end) end = std::min(end, module.start);
  return {program->end, end};
}

}  // namespace headroom::attribution
