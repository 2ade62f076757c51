#include "preload/find_object.h"

#include <dlfcn.h>

#include <atomic>

namespace headroom::preload {
namespace {

using Function = int (*)(void*, FoundObject*);
std::atomic<Function> find_object_function{nullptr};
std::atomic<bool> is_resolved{false};

}  // namespace

bool has_find_object() {
  // Resolved at run time, because older systems do not have it.
  if (!is_resolved.load(std::memory_order_acquire)) {
    find_object_function = reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, "_dl_find_object"));
    is_resolved.store(true, std::memory_order_release);
  }
  return find_object_function.load(std::memory_order_relaxed) != nullptr;
}

bool find_object(std::uint64_t address, FoundObject& found) {
  return has_find_object() &&
         find_object_function.load(std::memory_order_relaxed)(reinterpret_cast<void*>(address), &found) == 0;
}

}  // namespace headroom::preload
