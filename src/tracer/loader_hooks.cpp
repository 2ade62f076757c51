// dlopen and dlclose: libraries that come may be an ONNX Runtime; those that go take their addresses with
// them.
//
// dlopen looks for libraries in the places that its caller's file names (DT_RUNPATH), and tells the caller by
// the address that it returns to. So where that matters the hook must leave no trace: it jumps on, and the
// library is noticed later, by the events that follow. Both functions must be compiled to
// a jump for that, which -foptimize-sibling-calls does; a test looks.
#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstring>

#include "tracer/frame_rules.h"
#include "tracer/modules.h"
#include "tracer/process.h"
#include "tracer/real_functions.h"
#include "tracer/thread_state.h"
#include "tracer/torch_hooks.h"

using namespace headroom::tracer;

namespace {

using Dlopen = void* (*)(const char*, int);

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
  if (handle == nullptr || thread.guard != 0 || !is_recording(thread)) return handle;
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
// have.
[[gnu::noinline]] void note_deep_binding() {
  static std::atomic<bool> is_noted{false};
  ThreadLocal& thread = thread_local_state;
  if (thread.guard != 0 || !is_recording(thread) || !recording_is_ours() || is_noted.exchange(true)) return;
  const Guard guard(thread);
  process.file.note(
      "a library was opened with RTLD_DEEPBIND: what it and the libraries that it brought along allocate is "
      "not "
      "recorded");
}

// The hook does not see how such a call ends, so the thread's next events look whether something has come.
[[gnu::noinline]] void look_later() {
  ThreadLocal& thread = thread_local_state;
  if (thread.guard != 0 || process.phase.load(std::memory_order_acquire) != Phase::recording) return;
  thread.looks_at_loader = kLooksAtLoader;
  if (thread.state != nullptr) thread.state->counts_small = 0;
}

}  // namespace

HEADROOM_HOOK void* dlopen(const char* file, int mode) {
  const Dlopen next = next_dlopen.get();
  if ((mode & RTLD_DEEPBIND) != 0) note_deep_binding();
  const void* const caller = __builtin_return_address(0);
  if (caller_matters(file, caller)) {
    look_later();
    return next(file, mode);
  }
  return open_and_look(next, file, mode, caller);
}

HEADROOM_HOOK int dlclose(void* handle) {
  const auto next = next_dlclose.get();
  const int result = next(handle);
  ThreadLocal& thread = thread_local_state;
  if (thread.guard != 0 || !is_recording(thread) || !recording_is_ours()) return result;
  const Guard guard(thread);
  refresh_modules();
  forget_frame_rules();
  forget_stacks();
  return result;
}
