// dlopen and dlclose: libraries that come may be an ONNX Runtime; those that go take their addresses with
// them.
//
// dlopen looks for libraries in the places that its caller's file names (DT_RUNPATH), and tells the caller by
// the address that it returns to. So where that matters the hook must leave no trace: it jumps on, and the
// library is noticed later, by the events that follow. Both functions must be compiled to
// a jump for that, which -foptimize-sibling-calls does; a test looks.
//
// While a limit on GPU memory is kept, two ways to load a driver that nothing stands in front of are closed:
// a library is not bound to what it brought along first (RTLD_DEEPBIND), and the driver itself comes into no
// namespace of its own (dlmopen). A library that brings the driver into one is told of.
#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstring>

#include "tracer/device_hooks.h"
#include "tracer/frame_rules.h"
#include "tracer/limit_environment.h"
#include "tracer/modules.h"
#include "tracer/process.h"
#include "tracer/real_functions.h"
#include "tracer/thread_state.h"
#include "tracer/torch_hooks.h"

using namespace headroom::tracer;

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

[[gnu::noinline]] void* open_and_look(Dlopen next, const char* file, int mode, const void* caller) {
  void* const handle = next(file, mode);
  ThreadLocal& thread = thread_local_state;
  if (handle == nullptr || thread.is_busy() || !is_recording(thread)) return handle;
  if (recording_is_ours()) {
    const Guard guard(thread);
    refresh_modules();
    const link_map* module = nullptr;  // a forked child looks only at what it is pointed to
    if (is_forked_child() && ::dlinfo(handle, RTLD_DI_LINKMAP, &module) == 0 && module != nullptr)
      note_code_address(reinterpret_cast<std::uint64_t>(module->l_ld));
  }
  // The loader has finished here, so even where it cannot be asked, what it brought is linked.
  hand_out_onnxruntimes(LoaderIs::done);
  if (process.options.layers) look_for_torch(file, caller);
  return handle;
}

// Such a library looks for functions in what it brought along first, the C library among it, so its calls of
// malloc never come by here. Opening it otherwise could give it other functions than the program means it to
// have: that is done for a limit only. Returns the mode to open it with.
[[gnu::noinline]] int note_deep_binding(int mode) {
  static std::atomic<bool> is_noted{false};
  const bool is_kept = !keeps_device_limit();
  const int result = is_kept ? mode : mode & ~RTLD_DEEPBIND;
  ThreadLocal& thread = thread_local_state;
  if (thread.is_busy() || !is_recording(thread) || !recording_is_ours() || is_noted.exchange(true))
    return result;
  const Guard guard(thread);
  process.file.note(
      is_kept ? "a library was opened with RTLD_DEEPBIND: what it and the libraries that it brought "
                "along allocate is not recorded"
              : "a library was opened without its RTLD_DEEPBIND, as a limit on GPU memory is kept");
  return result;
}

// "libcuda.so.1", by any path.
bool is_driver(const char* file) {
  const char* const slash = std::strrchr(file, '/');
  constexpr const char* kDriver = "libcuda.so";
  return std::strncmp(slash != nullptr ? slash + 1 : file, kDriver, std::strlen(kDriver)) == 0;
}

[[gnu::noinline]] void* open_apart_and_look(Dlmopen next, Lmid_t space, const char* file, int mode) {
  void* const handle = next(space, file, mode);
  const link_map* module = nullptr;
  if (handle == nullptr || ::dlinfo(handle, RTLD_DI_LINKMAP, &module) != 0) return handle;
  while (module != nullptr && module->l_prev != nullptr) module = module->l_prev;
  for (; module != nullptr; module = module->l_next)
    if (is_driver(module->l_name)) {
      note_driver_out_of_reach();
      break;
    }
  return handle;
}

// The hook does not see how such a call ends, so the thread's next events look whether something has come.
[[gnu::noinline]] void look_later() {
  ThreadLocal& thread = thread_local_state;
  if (thread.is_busy() || process.phase.load(std::memory_order_acquire) != Phase::recording) return;
  thread.looks_at_loader = kLooksAtLoader;
  if (thread.state != nullptr) thread.state->counters = nullptr;
}

}  // namespace

HEADROOM_HOOK void* dlopen(const char* file, int mode) {
  const Dlopen next = next_dlopen.get();
  if ((mode & RTLD_DEEPBIND) != 0) mode = note_deep_binding(mode);
  const void* const caller = __builtin_return_address(0);
  if (caller_matters(file, caller)) {
    look_later();
    return next(file, mode);
  }
  return open_and_look(next, file, mode, caller);
}

HEADROOM_HOOK void* dlmopen(Lmid_t space, const char* file, int mode) {
  const Dlmopen next = next_dlmopen.get();
  if (space != LM_ID_BASE && file != nullptr && keeps_device_limit()) {
    if (is_driver(file)) {
      const Dlopen open = next_dlopen.get();
      return open(file, mode);
    }
    // Its caller is us now. What is found only where the caller's file says is opened below.
    if (void* const handle = open_apart_and_look(next, space, file, mode)) return handle;
  }
  return next(space, file, mode);
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
