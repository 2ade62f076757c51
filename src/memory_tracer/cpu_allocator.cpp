// Stands before the CPU's allocator. The profiler's way in (c10::MemoryReportingInfoBase) would see one
// thread's allocations and those of operators' threads, not those of other threads of the program, nor what a
// thread without it releases; and torch.profiler needs it for itself.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>
#include <mutex>

#include "memory_tracer/allocators.h"
#include "memory_tracer/session.h"

namespace headroom::memory_tracer {
namespace {

c10::Allocator* original = nullptr;
// The original's way to release, where it tells one for all blocks.
c10::DeleterFnPtr original_deleter = nullptr;

void release_block(void* memory) {
  on_released(kCpu, memory);
  original_deleter(memory);
}

// allocate() is const up to PyTorch 2.2 and not since; copy_data() is there since 2.2. So the words
// `override` are missing on purpose: of each pair the one overrides that PyTorch has.
class WatchedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) const {  // NOLINT(modernize-use-override)
    c10::DataPtr data = original->allocate(bytes);
    if (data.get() == nullptr || data.get() != data.get_context() ||
        !data.compare_exchange_deleter(original_deleter, &release_block))
      return data;  // whose release would not be seen
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

// Never destroyed: tensors remember their allocator, and ask it again when they grow.
WatchedAllocator& watched() {
  static auto* const allocator = new WatchedAllocator;
  return *allocator;
}

std::mutex lock;
int watchers = 0;

// With the lowest priority that will do, so that whoever replaces the allocator later still can.
void put(c10::Allocator* allocator) {
  constexpr int kHighest = 255;
  for (int priority = 0; priority <= kHighest && c10::GetCPUAllocator() != allocator; ++priority)
    c10::SetCPUAllocator(allocator, static_cast<std::uint8_t>(priority));
}

}  // namespace

void watch_cpu_allocator() {
  const std::lock_guard held(lock);
  if (++watchers > 1) return;
  c10::Allocator* const now = c10::GetCPUAllocator();
  if (now == &watched()) return;
  // Blocks of the one before are still about, and have one way to be released. Another allocator that came
  // meanwhile is left alone, and with it what it gives.
  if (original == nullptr) {
    original = now;
    original_deleter = now->raw_deleter();
  }
  if (now == original && original_deleter != nullptr) put(&watched());
}

void unwatch_cpu_allocator() {
  const std::lock_guard held(lock);
  if (--watchers == 0 && c10::GetCPUAllocator() == &watched()) put(original);
}

}  // namespace headroom::memory_tracer
