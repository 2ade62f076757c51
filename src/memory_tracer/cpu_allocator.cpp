// Wraps the CPU allocator. The profiler's interface (c10::MemoryReportingInfoBase) would report only one
// thread and its operator threads. It would miss the program's other threads, and releases in threads without
// it. And torch.profiler needs it for itself.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>
#include <mutex>

#include "memory_tracer/allocators.h"
#include "memory_tracer/session.h"

namespace headroom::memory_tracer {
namespace {

c10::Allocator* original = nullptr;
// The original's release function, if it has one for all blocks.
c10::DeleterFnPtr original_deleter = nullptr;

void release_block(void* memory) {
  on_released(kCpu, memory);
  original_deleter(memory);
}

// allocate() is const up to PyTorch 2.2 and not since; copy_data() exists since 2.2. So `override` is omitted
// on purpose: of each pair, the function that PyTorch declares overrides it.
class WatchedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) const {  // NOLINT(modernize-use-override)
    c10::DataPtr data = original->allocate(bytes);
    if (data.get() == nullptr || data.get() != data.get_context() ||
        !data.compare_exchange_deleter(original_deleter, &release_block))
      return data;  // its release would not be seen
    on_allocated(kCpu, data.get(), bytes);
    return data;
  }
  c10::DataPtr allocate(std::size_t bytes) {
    return static_cast<const WatchedAllocator&>(*this).allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const {  // NOLINT(modernize-use-override)
    return &release_block;
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const { std::memcpy(to, from, bytes); }
};

// Never destroyed: tensors remember their allocator and use it again when they grow.
WatchedAllocator& watched() {
  static auto* const allocator = new WatchedAllocator;
  return *allocator;
}

std::mutex allocator_lock;
int allocator_watchers = 0;

// Uses the lowest sufficient priority, so that other code can still replace the allocator later.
void put(c10::Allocator* allocator) {
  constexpr int kHighest = 255;
  for (int priority = 0; priority <= kHighest && c10::GetCPUAllocator() != allocator; ++priority)
    c10::SetCPUAllocator(allocator, static_cast<std::uint8_t>(priority));
}

}  // namespace

void watch_cpu_allocator() {
  const std::lock_guard held(allocator_lock);
  if (++allocator_watchers > 1) return;
  c10::Allocator* const now = c10::GetCPUAllocator();
  if (now == &watched()) return;
  // Blocks of the first wrapped allocator still exist and need its release function. So an allocator that was
  // installed meanwhile is not wrapped, and its blocks are not traced.
  if (original == nullptr) {
    original = now;
    original_deleter = now->raw_deleter();
  }
  if (now == original && original_deleter != nullptr) put(&watched());
}

void unwatch_cpu_allocator() {
  const std::lock_guard held(allocator_lock);
  if (--allocator_watchers == 0 && c10::GetCPUAllocator() == &watched()) put(original);
}

}  // namespace headroom::memory_tracer
