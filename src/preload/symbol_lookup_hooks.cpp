// Hooks of the loader's symbol lookup, dlsym and dlvsym: for a driver function they return the tracer's hook.
// Programs that are linked with libcuda find the hooks by name, because this library comes first. The
// driver's own lookup is in driver_lookup_hooks.cpp.
//
// The result of dlsym depends on its caller for RTLD_NEXT, RTLD_DEFAULT and the namespaces of dlmopen. So the
// hook jumps to the real dlsym, which then sees the program's return address. It does so for every name that
// cannot be the driver's and, under RTLD_DEFAULT, for names without a hook. The compiler must turn that call
// into a jump, as in loader_hooks.cpp. For a driver name under RTLD_NEXT, the hook itself finds the first
// definition in a library after the caller's.
//
// A program often looks a function up right after a dlopen whose return was not seen (loader_hooks.cpp).
// Without malloc events, this lookup is the first sign of the new library. It comes before the first session
// of an ONNX Runtime, so the tracer is ready in time.
#include <dlfcn.h>
#include <link.h>

#include "preload/device_hooks.h"
#include "preload/driver_calls.h"
#include "preload/exported_symbols.h"
#include "preload/memory.h"
#include "preload/modules.h"

namespace headroom::preload {
namespace {

using Dlsym = void* (*)(void*, const char*);
using Dlvsym = void* (*)(void*, const char*, const char*);

// Finds the next definition after this library in the search order, by the libraries' own tables: dlsym
// cannot look itself up. If another tool's dlsym comes next, it is called and forwards the call.
struct SymbolSearch {
  const char* name;
  bool is_after_us = false;
  std::uint64_t found_after_us = 0, found_anywhere = 0;
};
int visit_library(dl_phdr_info* module, std::size_t, void* data) {
  auto& search = *static_cast<SymbolSearch*>(data);
  const auto here = reinterpret_cast<std::uint64_t>(&visit_library);
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = module->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || here - (module->dlpi_addr + part.p_vaddr) >= part.p_memsz) continue;
    search.is_after_us = true;
    return 0;
  }
  const std::uint64_t found = address_of_export(*module, search.name);
  if (found != 0 && search.found_anywhere == 0) search.found_anywhere = found;
  if (found != 0 && search.is_after_us) search.found_after_us = found;
  return search.found_after_us != 0 ? 1 : 0;
}
template <class Function>
[[gnu::noinline, gnu::cold]] Function find_next_definition(const char* name) {
  SymbolSearch search{name};
  ::dl_iterate_phdr(visit_library, &search);
  return reinterpret_cast<Function>(search.found_after_us != 0 ? search.found_after_us
                                                               : search.found_anywhere);
}

std::atomic<Dlsym> real_dlsym{nullptr};
std::atomic<Dlvsym> real_dlvsym{nullptr};
template <class Function>
[[gnu::always_inline]] inline Function resolve_once(std::atomic<Function>& function, const char* name) {
  Function known = function.load(std::memory_order_relaxed);
  if (__builtin_expect(known == nullptr, 0)) {
    known = find_next_definition<Function>(name);
    function.store(known, std::memory_order_relaxed);
  }
  return known;
}

// Driver names have a capital after "cu" ("cuMemAlloc"); names of the libraries above it do not.
[[gnu::always_inline]] inline bool may_be_driver_name(const char* name) {
  return name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

// Searches the libraries after the one that contains `caller`, except this one.
struct SearchAfterCaller {
  std::uint64_t caller;
  const char* name;
  bool is_after_caller = false;
  std::uint64_t found = 0;
};
int visit_after_caller(dl_phdr_info* module, std::size_t, void* data) {
  auto& search = *static_cast<SearchAfterCaller*>(data);
  if (contains_address(*module, search.caller))
    search.is_after_caller = true;
  else if (search.is_after_caller &&
           !contains_address(*module, reinterpret_cast<std::uint64_t>(&visit_after_caller)))
    search.found = address_of_export(*module, search.name);
  return search.found != 0 ? 1 : 0;
}
// The tracer's hook if RTLD_NEXT means the driver's function; otherwise null, and the real dlsym must be
// called.
[[gnu::noinline]] void* hook_for_rtld_next(const void* caller, const char* name) {
  if (!is_traced(thread_local_state) || !driver::find_driver()) return nullptr;
  SearchAfterCaller search{reinterpret_cast<std::uint64_t>(caller), name};
  ::dl_iterate_phdr(visit_after_caller, &search);
  void* const found = reinterpret_cast<void*>(search.found);
  void* const hook = found == nullptr ? nullptr : driver::substitute(name, found);
  return hook == found ? nullptr : hook;
}

// RTLD_DEFAULT depends on the caller, too: its library may share a local scope with the driver (RTLD_LOCAL).
// For names with a hook it finds this library's function, which comes first. For other names the real dlsym
// must see the caller.
[[gnu::always_inline]] inline bool is_handled_here(const void* handle, const char* name) {
  return handle == RTLD_DEFAULT ? driver::has_hook(name) : handle != RTLD_NEXT;
}
// The tracer's hook if the name is an alias of a hooked function; otherwise null.
[[gnu::noinline]] void* hook_of_alias(const char* name) {
  if (!is_traced(thread_local_state) || !driver::find_driver()) return nullptr;
  void* const found = find_next_definition<void*>(name);
  void* const hook = found == nullptr ? nullptr : driver::substitute(name, found);
  return hook == found ? nullptr : hook;
}
[[gnu::always_inline]] inline void* hook_of(const void* handle, const void* caller, const char* name) {
  return handle == RTLD_NEXT ? hook_for_rtld_next(caller, name) : hook_of_alias(name);
}

// Finds the definition after this library. The real dlsym must see this library as its caller, so the call
// must not become a jump: the volatile result prevents that.
[[gnu::noinline]] void* find_after_us(const char* name, Dlsym next_dlsym) {
  void* volatile found = next_dlsym(RTLD_NEXT, name);
  return found;
}

[[gnu::noinline]] void* substitute_hook(void* found, const char* name, Dlsym next_dlsym) {
  // The lookup found one of the tracer's hooks by its name. If the driver lacks the function, the program
  // must not get the hook.
  if (driver::is_hook(found))
    return driver::driver_has_function(found) ? found : find_after_us(name, next_dlsym);
  return is_traced(thread_local_state) ? driver::substitute(name, found) : found;
}
[[gnu::noinline]] void* look_up(void* handle, const char* name, Dlsym next) {
  return substitute_hook(next(handle, name), name, next);
}
[[gnu::noinline]] void* look_up(void* handle, const char* name, const char* version, Dlvsym next) {
  return substitute_hook(next(handle, name, version), name, resolve_once(real_dlsym, "dlsym"));
}

[[gnu::noinline, gnu::cold]] void scan_libraries(ThreadLocal& thread) {
  // A child without its own recording must not write into its parent's.
  if (thread.is_busy() || process.phase.load(std::memory_order_acquire) != Phase::recording ||
      !recording_is_ours())
    return;
  const Guard guard(thread);
  const OwnSystemCalls own_calls;
  --thread.loader_checks_left;
  check_loader();
}
[[gnu::always_inline]] inline void check_for_new_libraries() {
  ThreadLocal& thread = thread_local_state;
  if (__builtin_expect(thread.loader_checks_left > 0, 0)) scan_libraries(thread);
}

}  // namespace
}  // namespace headroom::preload

HEADROOM_HOOK void* dlsym(void* __restrict handle, const char* __restrict name) noexcept {
  using namespace headroom::preload;
  const Dlsym next = resolve_once(real_dlsym, "dlsym");
  if (__builtin_expect(may_be_driver_name(name), 0)) {
    if (is_handled_here(handle, name)) return look_up(handle, name, next);
    if (void* const hook = hook_of(handle, __builtin_return_address(0), name)) return hook;
  }
  check_for_new_libraries();
  return next(handle, name);
}

HEADROOM_HOOK void* dlvsym(void* __restrict handle, const char* __restrict name,
                           const char* __restrict version) noexcept {
  using namespace headroom::preload;
  const Dlvsym next = resolve_once(real_dlvsym, "dlvsym");
  if (__builtin_expect(may_be_driver_name(name), 0)) {
    if (is_handled_here(handle, name)) return look_up(handle, name, version, next);
    if (void* const hook = hook_of(handle, __builtin_return_address(0), name)) return hook;
  }
  check_for_new_libraries();
  return next(handle, name, version);
}
