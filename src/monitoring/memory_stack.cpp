#include "monitoring/memory_stack.h"

#include <algorithm>

namespace headroom::monitoring {

std::optional<MemoryStack> memory_stack_of(const SystemSample& sample) {
  if (!sample.ram_total || !sample.ram_free || !sample.ram_buffers || !sample.ram_cached ||
      !sample.ram_anonymous)
    return std::nullopt;
  MemoryStack stack;
  stack.total = *sample.ram_total;
  Bytes left = stack.total;
  const auto take = [&left](Bytes wanted) {
    const Bytes part = std::clamp(wanted, Bytes{}, left);
    left = left - part;
    return part;
  };
  stack.free = take(*sample.ram_free);
  const Bytes shared = sample.ram_shared.value_or(Bytes{});  // counted in Cached, and cannot be dropped
  stack.processes = take(*sample.ram_anonymous + shared);
  stack.gpu = take(sample.nvmap_used.value_or(Bytes{}));
  stack.cache =
      take(*sample.ram_buffers + *sample.ram_cached - shared + sample.slab_reclaimable.value_or(Bytes{}));
  stack.system = left;
  return stack;
}

}  // namespace headroom::monitoring
