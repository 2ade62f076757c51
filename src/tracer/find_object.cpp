#include "tracer/find_object.h"

#include <dlfcn.h>

#include <atomic>

namespace headroom::tracer {
namespace {

using Function = int (*)(void*, FoundObject*);
std::atomic<Function> function{nullptr};
std::atomic<bool> was_looked_for{false};

}  // namespace

bool has_find_object() {
  // Asked for at run time, because older systems do not have it.
  if (!was_looked_for.load(std::memory_order_acquire)) {
    function = reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, "_dl_find_object"));
    was_looked_for.store(true, std::memory_order_release);
  }
  return function.load(std::memory_order_relaxed) != nullptr;
}

bool find_object(std::uint64_t address, FoundObject& found) {
  return has_find_object() &&
         function.load(std::memory_order_relaxed)(reinterpret_cast<void*>(address), &found) == 0;
}

}  // namespace headroom::tracer
