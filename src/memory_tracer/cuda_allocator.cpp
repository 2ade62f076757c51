// Events of PyTorch's caching allocator, reported by its trace tracker (PyTorch 2.2 and later).
//
// The tracker runs under the device's lock, so it calls no PyTorch code and takes only the session lock. It
// reports the requested bytes, and a release when it is complete. So the allocated bytes here equal the
// allocator's `requested_bytes`, not `allocated_bytes`, which includes rounding.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include "memory_tracer/session.h"
#include "memory_tracer/torch_sources.h"

namespace headroom::memory_tracer {
namespace {

namespace caching = c10::cuda::CUDACachingAllocator;
using Entry = caching::TraceEntry;

// StatType::AGGREGATE; its namespace changed between versions, its value did not.
constexpr std::size_t kAll = 0;

void on_entry(const Entry& entry) {
  const auto device = static_cast<Device>(entry.device_ + 1);
  const auto bytes = static_cast<std::int64_t>(entry.size_);
  const void* const address = reinterpret_cast<const void*>(static_cast<std::uintptr_t>(entry.addr_));
  switch (entry.action_) {
    case Entry::ALLOC:
      return on_allocated(device, address, static_cast<std::uint64_t>(bytes));
    case Entry::FREE_COMPLETED:
      return on_released(device, address, static_cast<std::uint64_t>(bytes));
    case Entry::SEGMENT_ALLOC:
    case Entry::SEGMENT_MAP:
      return on_reserve_changed(device, bytes);
    case Entry::SEGMENT_FREE:
    case Entry::SEGMENT_UNMAP:
      return on_reserve_changed(device, -bytes);
    default:
      return;
  }
}

bool is_initialized() {
  caching::CUDAAllocator* const allocator = caching::get();
  return allocator != nullptr && allocator->initialized();
}

}  // namespace

bool has_cuda() {
  static const bool it_has = c10::cuda::device_count() > 0;
  return it_has;
}

void watch_cuda_allocator() {
  static bool is_attached = false;
  // Before CUDA is initialized, no device accepts a tracker.
  if (is_attached || !has_cuda() || !is_initialized()) return;
  caching::get()->attachAllocatorTraceTracker(on_entry);
  is_attached = true;
}

std::vector<DeviceTotals> device_totals() {
  std::vector<DeviceTotals> totals;
  if (!has_cuda() || !is_initialized()) return totals;
  for (c10::DeviceIndex device = 0; device < c10::cuda::device_count(); ++device) {
    const auto stats = caching::get()->getDeviceStats(device);
    const std::int64_t reserved = stats.reserved_bytes.at(kAll).current;
    if (reserved > 0)
      totals.push_back({static_cast<Device>(device + 1), reserved, stats.requested_bytes.at(kAll).current});
  }
  return totals;
}

}  // namespace headroom::memory_tracer
