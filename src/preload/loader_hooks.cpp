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
#include "preload/frame_rules.h"
#include "preload/limit_environment.h"
#include "preload/modules.h"
#include "preload/process.h"
#include "preload/real_functions.h"
#include "preload/thread_state.h"
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
  const bool is_kept = !has_device_limit();
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
  if (namespace_id != LM_ID_BASE && file != nullptr && has_device_limit()) {
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
