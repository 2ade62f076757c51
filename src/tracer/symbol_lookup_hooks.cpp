// The loader's ways to a function of the driver: dlsym and dlvsym. What they find is handed out with our hook
// in its place. Programs that are linked with libcuda find the hooks by their names, as this library comes
// first; the driver's own way is in driver_lookup_hooks.cpp.
//
// dlsym(RTLD_NEXT, …), RTLD_DEFAULT and dlopen'ed namespaces depend on who calls: so for every name that
// cannot be the driver's, and under RTLD_DEFAULT for those that have no hook, the hook jumps on, and the real
// dlsym sees the program's own return address. It must be compiled to a jump for that, as in
// loader_hooks.cpp. What RTLD_NEXT finds of the driver's names is therefore known beforehand: the first
// definition in a library behind the caller's.
//
// Who looks a function up has often just opened its library by a dlopen that could not be followed
// (loader_hooks.cpp). Without the events of malloc this is the first that is heard of it, and early enough
// to be there before an ONNX Runtime's first session.
#include <dlfcn.h>
#include <link.h>

#include "tracer/device_hooks.h"
#include "tracer/driver_calls.h"
#include "tracer/exported_symbols.h"
#include "tracer/memory.h"
#include "tracer/modules.h"

namespace headroom::tracer {
namespace {

using Dlsym = void* (*)(void*, const char*);
using Dlvsym = void* (*)(void*, const char*, const char*);

// The definition after ours in the order of libraries, by the libraries' own tables: dlsym cannot look itself
// up. Another tool's dlsym that comes behind is called, and calls on.
struct Search {
  const char* name;
  bool is_behind_us = false;
  std::uint64_t behind = 0, anywhere = 0;
};
int look(dl_phdr_info* module, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  const auto here = reinterpret_cast<std::uint64_t>(&look);
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = module->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || here - (module->dlpi_addr + part.p_vaddr) >= part.p_memsz) continue;
    search.is_behind_us = true;
    return 0;
  }
  const std::uint64_t found = address_of_export(*module, search.name);
  if (found != 0 && search.anywhere == 0) search.anywhere = found;
  if (found != 0 && search.is_behind_us) search.behind = found;
  return search.behind != 0 ? 1 : 0;
}
template <class Function>
[[gnu::noinline, gnu::cold]] Function find(const char* name) {
  Search search{name};
  ::dl_iterate_phdr(look, &search);
  return reinterpret_cast<Function>(search.behind != 0 ? search.behind : search.anywhere);
}

std::atomic<Dlsym> real_dlsym{nullptr};
std::atomic<Dlvsym> real_dlvsym{nullptr};
template <class Function>
[[gnu::always_inline]] inline Function get(std::atomic<Function>& function, const char* name) {
  Function known = function.load(std::memory_order_relaxed);
  if (__builtin_expect(known == nullptr, 0)) {
    known = find<Function>(name);
    function.store(known, std::memory_order_relaxed);
  }
  return known;
}

// "cuMemAlloc": the driver's names go on with a capital, those of libraries above it do not.
[[gnu::always_inline]] inline bool may_be_of_driver(const char* name) {
  return name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

// Behind the library that holds an address; ours is passed over.
struct SearchBehind {
  std::uint64_t caller;
  const char* name;
  bool is_behind = false;
  std::uint64_t found = 0;
};
bool holds(const dl_phdr_info& module, std::uint64_t address) {
  for (int i = 0; i < module.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = module.dlpi_phdr[i];
    if (part.p_type == PT_LOAD && address - (module.dlpi_addr + part.p_vaddr) < part.p_memsz) return true;
  }
  return false;
}
int look_behind(dl_phdr_info* module, std::size_t, void* data) {
  auto& search = *static_cast<SearchBehind*>(data);
  if (holds(*module, search.caller))
    search.is_behind = true;
  else if (search.is_behind && !holds(*module, reinterpret_cast<std::uint64_t>(&look_behind)))
    search.found = address_of_export(*module, search.name);
  return search.found != 0 ? 1 : 0;
}
// Our hook, if it is the driver's function that RTLD_NEXT means; else null, and the real dlsym is to be
// asked.
[[gnu::noinline]] void* hook_behind(const void* caller, const char* name) {
  if (!is_traced(thread_local_state) || !driver::find_driver()) return nullptr;
  SearchBehind search{reinterpret_cast<std::uint64_t>(caller), name};
  ::dl_iterate_phdr(look_behind, &search);
  void* const found = reinterpret_cast<void*>(search.found);
  void* const hook = found == nullptr ? nullptr : driver::substitute(name, found);
  return hook == found ? nullptr : hook;
}

// What RTLD_DEFAULT finds depends on the caller, too, whose library may be in a scope of its own with the
// driver (RTLD_LOCAL). Of the names that have a hook it finds ours, which comes first; of others what the
// caller sees.
[[gnu::always_inline]] inline bool is_asked_of_us(const void* handle, const char* name) {
  return handle == RTLD_DEFAULT ? driver::has_hook(name) : handle != RTLD_NEXT;
}
// Our hook, if the name is another one of a function that has a hook; else null, as above.
[[gnu::noinline]] void* hook_of_alias(const char* name) {
  if (!is_traced(thread_local_state) || !driver::find_driver()) return nullptr;
  void* const found = find<void*>(name);
  void* const hook = found == nullptr ? nullptr : driver::substitute(name, found);
  return hook == found ? nullptr : hook;
}
[[gnu::always_inline]] inline void* hook_of(const void* handle, const void* caller, const char* name) {
  return handle == RTLD_NEXT ? hook_behind(caller, name) : hook_of_alias(name);
}

// What comes behind us. The real dlsym must see this library as its caller, so this is no place for a jump:
// the answer takes the way over memory.
[[gnu::noinline]] void* find_behind_us(const char* name, Dlsym look_on) {
  void* volatile found = look_on(RTLD_NEXT, name);
  return found;
}

[[gnu::noinline]] void* found_in_place_of(void* found, const char* name, Dlsym look_on) {
  // One of ours is found by name alone: where the driver has none it is nothing that a program could use.
  if (driver::is_hook(found))
    return driver::has_function_behind(found) ? found : find_behind_us(name, look_on);
  return is_traced(thread_local_state) ? driver::substitute(name, found) : found;
}
[[gnu::noinline]] void* look_up(void* handle, const char* name, Dlsym next) {
  return found_in_place_of(next(handle, name), name, next);
}
[[gnu::noinline]] void* look_up(void* handle, const char* name, const char* version, Dlvsym next) {
  return found_in_place_of(next(handle, name, version), name, get(real_dlsym, "dlsym"));
}

[[gnu::noinline, gnu::cold]] void look_at_libraries(ThreadLocal& thread) {
  // A child that has no recording yet must not write into its parent's.
  if (thread.is_busy() || process.phase.load(std::memory_order_acquire) != Phase::recording ||
      !recording_is_ours())
    return;
  const Guard guard(thread);
  const OwnSystemCalls own_calls;
  --thread.looks_at_loader;
  look_at_loader();
}
[[gnu::always_inline]] inline void look_for_new_libraries() {
  ThreadLocal& thread = thread_local_state;
  if (__builtin_expect(thread.looks_at_loader > 0, 0)) look_at_libraries(thread);
}

}  // namespace
}  // namespace headroom::tracer

HEADROOM_HOOK void* dlsym(void* __restrict handle, const char* __restrict name) noexcept {
  using namespace headroom::tracer;
  const Dlsym next = get(real_dlsym, "dlsym");
  if (__builtin_expect(may_be_of_driver(name), 0)) {
    if (is_asked_of_us(handle, name)) return look_up(handle, name, next);
    if (void* const hook = hook_of(handle, __builtin_return_address(0), name)) return hook;
  }
  look_for_new_libraries();
  return next(handle, name);
}

HEADROOM_HOOK void* dlvsym(void* __restrict handle, const char* __restrict name,
                           const char* __restrict version) noexcept {
  using namespace headroom::tracer;
  const Dlvsym next = get(real_dlvsym, "dlvsym");
  if (__builtin_expect(may_be_of_driver(name), 0)) {
    if (is_asked_of_us(handle, name)) return look_up(handle, name, version, next);
    if (void* const hook = hook_of(handle, __builtin_return_address(0), name)) return hook;
  }
  look_for_new_libraries();
  return next(handle, name, version);
}
