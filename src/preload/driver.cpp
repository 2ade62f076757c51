// Finds the driver, and which of its functions have a hook. A function is recognised by its address, whatever
// name and version it was requested by. So a version that is not in the table passes through, and a hook
// never replaces a function of another signature.

#include <link.h>

#include <cstddef>
#include <cstring>

#include "preload/driver_calls.h"
#include "preload/loaded_objects.h"
#include "preload/process.h"
#include "preload/threads.h"
#include "types/lock.h"

namespace headroom::preload::driver {

constinit Real real;

namespace {

// Constant-initialised, without a constructor: other libraries' constructors may run first and look functions
// up, as compute-sanitizer's do.
struct Call {
  const char* name;
  void* hook;          // null: called but not hooked
  std::size_t offset;  // offset in Real
  void*& real() const { return *reinterpret_cast<void**>(reinterpret_cast<char*>(&driver::real) + offset); }
};

const Call calls[] = {
#define HEADROOM_HOOKED(name, ...) {#name, reinterpret_cast<void*>(&driver::name), offsetof(Real, name)},
    HEADROOM_HOOKED_DRIVER_CALLS(HEADROOM_HOOKED)
#undef HEADROOM_HOOKED
#define HEADROOM_USED(name, ...) {#name, nullptr, offsetof(Real, name)},
        HEADROOM_USED_DRIVER_CALLS(HEADROOM_USED)
#undef HEADROOM_USED
};

constinit Lock driver_functions_lock;
std::atomic<bool> is_found{false};

// Distinguishes the driver from this library, which exports no cuInit, and from libraries that wrap a few
// functions. Also distinguishes it from programs that store function pointers under these names (cuew).
bool is_driver(const dl_phdr_info& module) {
  return address_of_function(module, "cuInit") != 0 && address_of_function(module, "cuDriverGetVersion") != 0;
}

// Matches libcuda.so with any version.
bool has_driver_soname(const dl_phdr_info& module) {
  constexpr char kName[] = "libcuda.so";
  const char* const soname = soname_of(module);
  return soname != nullptr && std::strncmp(soname, kName, sizeof kName - 1) == 0;
}

struct DriverSearch {
  bool by_soname = true, is_found = false;
};
int resolve_functions(dl_phdr_info* module, std::size_t, void* argument) {
  DriverSearch& search = *static_cast<DriverSearch*>(argument);
  if (search.by_soname && !has_driver_soname(*module)) return 0;
  if (!is_driver(*module)) return 0;
  for (const Call& call : calls) {
    const std::uint64_t address = address_of_function(*module, call.name);
    call.real() = reinterpret_cast<void*>(address);
  }
  search.is_found = true;
  return 1;
}

// Searches by soname first. A library of another name that exports all of a driver's functions (forwards
// them) is used only if none has that soname.
bool resolve_driver() {
  DriverSearch search;
  ::dl_iterate_phdr(resolve_functions, &search);
  search.by_soname = false;
  if (!search.is_found) ::dl_iterate_phdr(resolve_functions, &search);
  return search.is_found;
}

const Call* find_hooked(const void* hook) {
  for (const Call& call : calls)
    if (call.hook != nullptr && call.hook == hook) return &call;
  return nullptr;
}

}  // namespace

void reset_lock_in_child() { driver_functions_lock.reset(); }

bool find_driver() {
  if (__builtin_expect(is_found.load(std::memory_order_acquire), 1)) return true;
  const Locked locked(driver_functions_lock);
  if (is_found.load()) return true;
  const bool found = resolve_driver();
  is_found.store(found, std::memory_order_release);
  return found;
}

void* substitute(const char* name, void* function) {
  if (function == nullptr || !find_driver()) return function;
  for (const Call& call : calls) {
    if (call.hook == nullptr) continue;
    if (call.real() == function) return call.hook;
    // The driver was unloaded and loaded again at another address.
    if (name != nullptr && std::strcmp(call.name, name) == 0 && function != call.hook &&
        call.real() != nullptr) {
      const Locked locked(driver_functions_lock);
      resolve_driver();
      return call.real() == function ? call.hook : function;
    }
  }
  return function;
}

bool is_hook(const void* function) { return find_hooked(function) != nullptr; }

bool has_hook(const char* name) {
  for (const Call& call : calls)
    if (call.hook != nullptr && std::strcmp(call.name, name) == 0) return true;
  return false;
}

bool driver_has_function(const void* hook) {
  const Call* const call = find_driver() ? find_hooked(hook) : nullptr;
  return call != nullptr && call->real() != nullptr;
}

// cuGetProcAddress, the driver's own symbol lookup. The hook replaces the function that it finds by the
// tracer's hook, whatever version was requested. The loader's lookups are in loader_hooks.cpp.
HEADROOM_HOOK Result cuGetProcAddress(const char* name, void** function, int version, std::uint64_t flags) {
  if (!find_driver()) return kNotFound;
  const Result result = real.cuGetProcAddress(name, function, version, flags);
  if (result == kSuccess && function != nullptr && is_traced(thread_local_state))
    *function = substitute(nullptr, *function);
  return result;
}

HEADROOM_HOOK Result cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags,
                                         int* status) {
  if (!find_driver()) return kNotFound;
  const Result result = real.cuGetProcAddress_v2(name, function, version, flags, status);
  if (result == kSuccess && function != nullptr && is_traced(thread_local_state))
    *function = substitute(nullptr, *function);
  return result;
}

}  // namespace headroom::preload::driver
