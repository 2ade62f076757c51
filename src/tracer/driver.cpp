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

// Not ours: that has no cuInit. Not a library that only wraps some calls, nor a program that has pointers to
// them by their names, as those have that look them up (cuew).
bool is_driver(const dl_phdr_info& module) {
  return address_of_function(module, "cuInit") != 0 && address_of_function(module, "cuDriverGetVersion") != 0;
}

// libcuda.so.1, and whatever follows.
bool has_name_of_driver(const dl_phdr_info& module) {
  constexpr char kName[] = "libcuda.so";
  const char* const soname = soname_of(module);
  return soname != nullptr && std::strncmp(soname, kName, sizeof kName - 1) == 0;
}

struct Search {
  bool by_soname = true, is_found = false;
};
int take_from_driver(dl_phdr_info* module, std::size_t, void* argument) {
  Search& search = *static_cast<Search*>(argument);
  if (search.by_soname && !has_name_of_driver(*module)) return 0;
  if (!is_driver(*module)) return 0;
  for (const Call& call : calls) {
    const std::uint64_t address = address_of_function(*module, call.name);
    call.real() = reinterpret_cast<void*>(address);
  }
  search.is_found = true;
  return 1;
}

// A driver has that name; who exports all of one's functions under another (forwards them) is taken for one
// only where there is none.
bool take_from_any_driver() {
  Search search;
  ::dl_iterate_phdr(take_from_driver, &search);
  search.by_soname = false;
  if (!search.is_found) ::dl_iterate_phdr(take_from_driver, &search);
  return search.is_found;
}

}  // namespace

void reset_lock_in_child() { lock.reset(); }

bool find_driver() {
  if (__builtin_expect(is_found.load(std::memory_order_acquire), 1)) return true;
  const Locked locked(lock);
  if (is_found.load()) return true;
  const bool found = take_from_any_driver();
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
      const Locked locked(lock);
      take_from_any_driver();
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
