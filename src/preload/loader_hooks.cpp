// dlopen, dlmopen and dlclose. A new library may be ONNX Runtime. The addresses of an unloaded library become
// invalid.
//
// dlopen searches the places that its caller's file names (DT_RUNPATH), and finds the caller by its return
// address. Where that matters, the return address must stay the caller's. So the hook jumps to the real
// function, and the tracer notices the library at the thread's next events. The compiler must turn the last
// call of both hooks into a jump. The option -foptimize-sibling-calls does that, and a test checks it.
//
// Under a GPU memory limit, the hooks close two routes by which a driver could be loaded without them. They
// drop RTLD_DEEPBIND, because it binds a library to its own dependencies first. A dlmopen of the driver loads
// it into the program's namespace. If another library brings the driver into a new namespace, the account and
// the recording note an unhooked driver.

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstring>

#include "preload/device_hooks.h"
#include "preload/driver_calls.h"
#include "preload/loaded_objects.h"
#include "preload/memory.h"
#include "preload/modules.h"
#include "preload/process.h"
#include "preload/real_functions.h"
#include "preload/stack_walk.h"
#include "preload/threads.h"
#include "preload/torch_hooks.h"

using namespace headroom::preload;

namespace {

using Dlopen = void* (*)(const char*, int);
using Dlmopen = void* (*)(Lmid_t, const char*, int);
NextFunction<Dlmopen> next_dlmopen("dlmopen");

[[gnu::noinline]] bool caller_matters(const char* file, const void* caller) {
  if (file == nullptr || std::strchr(file, '$') != nullptr) return true;
  if (std::strchr(file, '/') != nullptr) return false;
  Dl_info info;
  link_map* module = nullptr;
  if (::dladdr1(caller, &info, reinterpret_cast<void**>(&module), RTLD_DL_LINKMAP) == 0 || module == nullptr)
    return true;
  for (const ElfW(Dyn)* entry = module->l_ld; entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag == DT_RUNPATH || entry->d_tag == DT_RPATH) return true;
  return false;
}

[[gnu::noinline]] void* open_and_scan(Dlopen next, const char* file, int mode, const void* caller) {
  void* const handle = next(file, mode);
  ThreadLocal& thread = thread_local_state;
  if (handle == nullptr || thread.is_busy() || !is_recording(thread)) return handle;
  if (recording_is_ours()) {
    const Guard guard(thread);
    refresh_modules();
    const link_map* module = nullptr;  // a forked child checks only this one
    if (is_forked_child() && ::dlinfo(handle, RTLD_DI_LINKMAP, &module) == 0 && module != nullptr)
      note_code_address(reinterpret_cast<std::uint64_t>(module->l_ld));
  }
  // The loader has finished, so the new libraries are linked even where find_object is missing.
  offer_onnxruntimes(LoaderState::done);
  if (process.options.layers) look_for_torch(file, caller);
  return handle;
}

// A library that is opened with RTLD_DEEPBIND resolves functions in its dependencies first. Among them is the
// C library, so its malloc calls never reach the hooks. Without the flag it could get other functions than
// the program intends. So the flag is dropped only under a limit. Returns the mode to open the library with.
[[gnu::noinline]] int note_deep_binding(int mode) {
  static std::atomic<bool> is_noted{false};
  const bool is_kept = !process.has_device_limit;
  const int result = is_kept ? mode : mode & ~RTLD_DEEPBIND;
  ThreadLocal& thread = thread_local_state;
  if (thread.is_busy() || !is_recording(thread) || !recording_is_ours() || is_noted.exchange(true))
    return result;
  const Guard guard(thread);
  process.file.note(
      is_kept ? "a library was opened with RTLD_DEEPBIND: allocations of it and of its dependencies are not "
                "recorded"
              : "a library was opened without its RTLD_DEEPBIND flag, because a GPU memory limit is set");
  return result;
}

// Whether the file name, without its folder, begins with "libcuda.so".
bool is_driver_file(const char* file) {
  const char* const slash = std::strrchr(file, '/');
  constexpr const char* kDriver = "libcuda.so";
  return std::strncmp(slash != nullptr ? slash + 1 : file, kDriver, std::strlen(kDriver)) == 0;
}

[[gnu::noinline]] void* open_in_namespace(Dlmopen next, Lmid_t namespace_id, const char* file, int mode) {
  void* const handle = next(namespace_id, file, mode);
  const link_map* module = nullptr;
  if (handle == nullptr || ::dlinfo(handle, RTLD_DI_LINKMAP, &module) != 0) return handle;
  while (module != nullptr && module->l_prev != nullptr) module = module->l_prev;
  for (; module != nullptr; module = module->l_next)
    if (is_driver_file(module->l_name)) {
      note_unhooked_driver();
      break;
    }
  return handle;
}

// The hook does not see this call return, so the thread's next events check for new libraries.
[[gnu::noinline]] void scan_later() {
  ThreadLocal& thread = thread_local_state;
  if (thread.is_busy() || process.phase.load(std::memory_order_acquire) != Phase::recording) return;
  thread.loader_checks_left = kLoaderChecks;
  if (thread.state != nullptr) thread.state->counters = nullptr;
}

}  // namespace

HEADROOM_HOOK void* dlopen(const char* file, int mode) {
  const Dlopen next = next_dlopen.get();
  if ((mode & RTLD_DEEPBIND) != 0) mode = note_deep_binding(mode);
  const void* const caller = __builtin_return_address(0);
  if (caller_matters(file, caller)) {
    scan_later();
    return next(file, mode);
  }
  return open_and_scan(next, file, mode, caller);
}

HEADROOM_HOOK void* dlmopen(Lmid_t namespace_id, const char* file, int mode) {
  const Dlmopen next = next_dlmopen.get();
  if (namespace_id != LM_ID_BASE && file != nullptr && process.has_device_limit) {
    if (is_driver_file(file)) {
      const Dlopen open = next_dlopen.get();
      return open(file, mode);
    }
    // The real dlmopen sees this library as its caller. A library that only the original caller's search path
    // finds is opened below.
    if (void* const handle = open_in_namespace(next, namespace_id, file, mode)) return handle;
  }
  return next(namespace_id, file, mode);
}

HEADROOM_HOOK int dlclose(void* handle) {
  const auto next = next_dlclose.get();
  const int result = next(handle);
  ThreadLocal& thread = thread_local_state;
  if (thread.is_busy() || !is_recording(thread) || !recording_is_ours()) return result;
  const Guard guard(thread);
  refresh_modules();
  forget_frame_rules();
  forget_stacks();
  return result;
}

// Hooks of the loader's symbol lookup, dlsym and dlvsym: for a driver function they return the tracer's hook.
// Programs that are linked with libcuda find the hooks by name, because this library comes first. The
// driver's own lookup is in driver.cpp.
//
// The result of dlsym depends on its caller for RTLD_NEXT, RTLD_DEFAULT and the namespaces of dlmopen. So the
// hook jumps to the real dlsym, which then sees the program's return address. It does so for every name that
// cannot be the driver's and, under RTLD_DEFAULT, for names without a hook. The compiler must turn that call
// into a jump. For a driver name under RTLD_NEXT, the hook itself finds the first
// definition in a library after the caller's.
//
// A program often looks a function up right after a dlopen whose return was not seen (dlopen, above).
// Without malloc events, this lookup is the first sign of the new library. It comes before the first session
// of an ONNX Runtime, so the tracer is ready in time.

namespace headroom::preload {
namespace {

using Dlsym = void* (*)(void*, const char*);
using Dlvsym = void* (*)(void*, const char*, const char*);

// Finds the first definition in a library after the one that contains `after`, by the libraries' own tables:
// dlsym cannot look itself up. This library is skipped. If another tool's dlsym comes next, it is called and
// forwards the call.
struct SymbolSearch {
  const char* name;
  std::uint64_t after;
  bool is_after = false;
  std::uint64_t found_after = 0, found_anywhere = 0;
};
int visit_library(dl_phdr_info* module, std::size_t, void* data) {
  auto& search = *static_cast<SymbolSearch*>(data);
  if (contains_address(*module, search.after)) search.is_after = true;
  if (contains_address(*module, search.after) ||
      contains_address(*module, reinterpret_cast<std::uint64_t>(&visit_library)))
    return 0;
  const std::uint64_t found = address_of_export(*module, search.name);
  if (search.found_anywhere == 0) search.found_anywhere = found;
  if (search.is_after) search.found_after = found;
  return search.found_after != 0 ? 1 : 0;
}
// The definition after this library; if there is none, any other.
[[gnu::noinline, gnu::cold]] void* find_next_definition(const char* name) {
  SymbolSearch search{name, reinterpret_cast<std::uint64_t>(&visit_library)};
  ::dl_iterate_phdr(visit_library, &search);
  return reinterpret_cast<void*>(search.found_after != 0 ? search.found_after : search.found_anywhere);
}

std::atomic<Dlsym> real_dlsym{nullptr};
std::atomic<Dlvsym> real_dlvsym{nullptr};
template <class Function>
[[gnu::always_inline]] inline Function resolve_once(std::atomic<Function>& function, const char* name) {
  Function known = function.load(std::memory_order_relaxed);
  if (__builtin_expect(known == nullptr, 0)) {
    known = reinterpret_cast<Function>(find_next_definition(name));
    function.store(known, std::memory_order_relaxed);
  }
  return known;
}

// Driver names have a capital after "cu" ("cuMemAlloc"); names of the libraries above it do not.
[[gnu::always_inline]] inline bool may_be_driver_name(const char* name) {
  return name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

// RTLD_DEFAULT depends on the caller, too: its library may share a local scope with the driver (RTLD_LOCAL).
// For names with a hook it finds this library's function, which comes first. For other names the real dlsym
// must see the caller.
[[gnu::always_inline]] inline bool is_handled_here(const void* handle, const char* name) {
  return handle == RTLD_DEFAULT ? driver::has_hook(name) : handle != RTLD_NEXT;
}
// The tracer's hook if RTLD_NEXT means the driver's function, or if the name is an alias of a hooked
// function. Otherwise null, and the real dlsym must be called.
[[gnu::noinline]] void* hook_of(const void* handle, const void* caller, const char* name) {
  if (!is_traced(thread_local_state) || !driver::find_driver()) return nullptr;
  void* found = nullptr;
  if (handle == RTLD_NEXT) {
    SymbolSearch search{name, reinterpret_cast<std::uint64_t>(caller)};
    ::dl_iterate_phdr(visit_library, &search);
    found = reinterpret_cast<void*>(search.found_after);
  } else {
    found = find_next_definition(name);
  }
  void* const hook = found == nullptr ? nullptr : driver::substitute(name, found);
  return hook == found ? nullptr : hook;
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
