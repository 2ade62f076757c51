// Where the driver is, and which of its functions have a hook. A function is known by its address, whatever
// the name and version that it was asked for by: so a version that is not in the table passes through, and a
// hook never stands in for a function of another signature.
#include <link.h>

#include <cstddef>
#include <cstring>

#include "tracer/driver_calls.h"
#include "tracer/exported_symbols.h"
#include "tracer/lock.h"

namespace headroom::tracer::driver {

constinit Real real;

namespace {

// In the library's file as it stands, with no constructor to fill it: other libraries' constructors may come
// first and look functions up, as compute-sanitizer's do.
struct Call {
  const char* name;
  void* hook;         // null: only used
  std::size_t place;  // in Real
  void*& real() const { return *reinterpret_cast<void**>(reinterpret_cast<char*>(&driver::real) + place); }
};

const Call calls[] = {
#define HEADROOM_HOOKED(name, parameters) \
  {#name, reinterpret_cast<void*>(&driver::name), offsetof(Real, name)},
    HEADROOM_HOOKED_DRIVER_CALLS(HEADROOM_HOOKED)
#undef HEADROOM_HOOKED
#define HEADROOM_USED(name, parameters) {#name, nullptr, offsetof(Real, name)},
        HEADROOM_USED_DRIVER_CALLS(HEADROOM_USED)
#undef HEADROOM_USED
};

Lock lock;
std::atomic<bool> is_found{false};

int take_from_driver(dl_phdr_info* module, std::size_t, void* found) {
  // Not ours: that has no cuInit. Not a library that only wraps some calls.
  if (address_of_export(*module, "cuInit") == 0 || address_of_export(*module, "cuDriverGetVersion") == 0)
    return 0;
  for (const Call& call : calls) {
    const std::uint64_t address = address_of_export(*module, call.name);
    call.real() = reinterpret_cast<void*>(address);
  }
  *static_cast<bool*>(found) = true;
  return 1;
}

}  // namespace

void reset_lock_in_child() { lock.reset(); }

bool find_driver() {
  if (__builtin_expect(is_found.load(std::memory_order_acquire), 1)) return true;
  const Locked locked(lock);
  if (is_found.load()) return true;
  bool found = false;
  ::dl_iterate_phdr(take_from_driver, &found);
  is_found.store(found, std::memory_order_release);
  return found;
}

void* substitute(const char* name, void* function) {
  if (function == nullptr || !find_driver()) return function;
  for (const Call& call : calls) {
    if (call.hook == nullptr) continue;
    if (call.real() == function) return call.hook;
    // The driver was unloaded and came again, elsewhere.
    if (name != nullptr && std::strcmp(call.name, name) == 0 && function != call.hook &&
        call.real() != nullptr) {
      bool found = false;
      const Locked locked(lock);
      ::dl_iterate_phdr(take_from_driver, &found);
      return call.real() == function ? call.hook : function;
    }
  }
  return function;
}

bool is_hook(const void* function) {
  for (const Call& call : calls)
    if (call.hook != nullptr && call.hook == function) return true;
  return false;
}

bool has_hook(const char* name) {
  for (const Call& call : calls)
    if (call.hook != nullptr && std::strcmp(call.name, name) == 0) return true;
  return false;
}

bool has_function_behind(const void* hook) {
  if (!find_driver()) return false;
  for (const Call& call : calls)
    if (call.hook != nullptr && call.hook == hook) return call.real() != nullptr;
  return false;
}

}  // namespace headroom::tracer::driver
