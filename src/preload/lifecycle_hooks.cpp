// Start and end of the process, and names of its threads.
//
// Two functions need no hook: a child detects fork (see process.cpp), and a thread registers at its first
// event. exec and posix_spawn are in exec_hooks.cpp.
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdlib>

#include "preload/modules.h"
#include "preload/onnxruntime_hooks.h"
#include "preload/process.h"
#include "preload/real_functions.h"
#include "preload/thread_state.h"

using namespace headroom::preload;

namespace {

// For functions that end the process without its exit handlers. In a child of vfork, the runtime session
// belongs to another process, which ProfileGate detects.
void finish_without_exit(const CallFrame& caller) {
  end_profiles_before_death(caller, ProcessEnd::at_once);
  try_finish_recording();
}

void on_thread_renamed() {
  ThreadLocal& thread = thread_local_state;
  if (thread.is_busy() || thread.state == nullptr) return;
  const Guard guard(thread);
  write_thread_name(thread);
}

// Resolved at load time: a lookup takes the loader's lock, which a child after fork must not wait for.
[[gnu::constructor]] void resolve_lifecycle_functions();

[[gnu::constructor]] void on_load() {
  ThreadLocal& thread = thread_local_state;
  if (!is_recording(thread) || !process.options.layers) return;
  // Not earlier: only now are the program's own libraries linked.
  set_onnxruntime_handler(hook_onnxruntime);
  offer_onnxruntimes(LoaderState::done);
}

[[gnu::destructor]] void on_exit_of_process() { try_finish_recording(); }

NextFunction<void (*)(int)> next_exit_now("_exit"), next_exit_now_c("_Exit"), next_quick_exit("quick_exit");
NextFunction<void (*)()> next_abort("abort");
NextFunction<int (*)(pthread_t, const char*)> next_setname("pthread_setname_np");
NextFunction<int (*)(int, unsigned long, unsigned long, unsigned long, unsigned long)> next_prctl("prctl");

void resolve_lifecycle_functions() {
  next_exit_now.get();
  next_exit_now_c.get();
  next_quick_exit.get();
  next_abort.get();
  next_setname.get();
  next_prctl.get();
}

}  // namespace

HEADROOM_HOOK __attribute__((noreturn)) void _exit(int status) {
  finish_without_exit(caller_of_this_function());
  next_exit_now.get()(status);
  __builtin_unreachable();
}

HEADROOM_HOOK __attribute__((noreturn)) void _Exit(int status) {
  finish_without_exit(caller_of_this_function());
  next_exit_now_c.get()(status);
  __builtin_unreachable();
}

HEADROOM_HOOK __attribute__((noreturn)) void quick_exit(int status) {
  finish_without_exit(caller_of_this_function());
  next_quick_exit.get()(status);
  __builtin_unreachable();
}

// A program that runs out of memory usually ends here, through an uncaught exception. The recording stays
// open, which marks that the process did not end in order.
HEADROOM_HOOK __attribute__((noreturn)) void abort() {
  end_profiles_before_death(caller_of_this_function(), ProcessEnd::by_abort);
  next_abort.get()();
  __builtin_unreachable();
}

HEADROOM_HOOK int pthread_setname_np(pthread_t thread, const char* name) {
  const int result = next_setname.get()(thread, name);
  if (result == 0 && pthread_equal(thread, pthread_self()) != 0) on_thread_renamed();
  return result;
}

HEADROOM_HOOK int prctl(int option, ...) {
  std::va_list arguments;
  va_start(arguments, option);
  unsigned long a[4];
  for (unsigned long& argument : a) argument = va_arg(arguments, unsigned long);
  va_end(arguments);
  const int result = next_prctl.get()(option, a[0], a[1], a[2], a[3]);
  if (option == PR_SET_NAME && result == 0) on_thread_renamed();
  return result;
}
