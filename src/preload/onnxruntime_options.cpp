#include "preload/onnxruntime_options.h"

#include <atomic>

namespace headroom::preload {
namespace {

// Options beyond this number are not remembered; Headroom then profiles their sessions.
constexpr int kMost = 256;
std::atomic<const void*> profiled_by_program[kMost];

}  // namespace

void set_profiled_by_program(const void* options, bool profiled) {
  if (options == nullptr || profiled == is_profiled_by_program(options)) return;
  for (auto& place : profiled_by_program) {
    const void* expected = profiled ? nullptr : options;
    if (place.compare_exchange_strong(expected, profiled ? options : nullptr)) return;
  }
}

bool is_profiled_by_program(const void* options) {
  if (options == nullptr) return false;
  for (const auto& place : profiled_by_program)
    if (place.load(std::memory_order_acquire) == options) return true;
  return false;
}

}  // namespace headroom::preload
