// Start and end of the process, and names of its threads.
//
// Two functions need no hook: a child detects fork (see process.cpp), and a thread registers at its first
// event.

#include <dlfcn.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <wordexp.h>

#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "preload/modules.h"
#include "preload/onnxruntime_hooks.h"
#include "preload/real_functions.h"
#include "preload/recording_start.h"
#include "preload/stack_walk.h"
#include "preload/threads.h"

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

// Keeps a GPU memory limit in force in programs that this process starts. A program may get an environment
// without the limit's variables (`env -i`, a launcher that builds its own). The tracer restores them.
//
// This runs inside exec, in a child after fork and in signal handlers, so it never allocates.

namespace {

using Strings = char* const*;

constexpr const char *kPreload = "LD_PRELOAD=", *kOptions = "HEADROOM_TRACE_OPTIONS=",
                     *kFile = "HEADROOM_TRACE_FILE=";

// Values at program start, because the program may overwrite its environment.
bool has_limit = false;
char saved_library[PATH_MAX], saved_options[4096], saved_file[PATH_MAX];

void save(char* text, std::size_t capacity, const char* key, const char* value) {
  if (value == nullptr || std::strlen(key) + std::strlen(value) >= capacity) return;
  std::strcpy(std::strcpy(text, key) + std::strlen(key), value);
}

[[gnu::constructor]] void save_limit() {
  const char* set = std::getenv("HEADROOM_TRACE_OPTIONS");
  Dl_info own{};
  if (set == nullptr || !parse_options(set).device_limits.any() ||
      ::dladdr(reinterpret_cast<void*>(&save_limit), &own) == 0 || own.dli_fname == nullptr)
    return;
  save(saved_library, sizeof saved_library, "", own.dli_fname);
  save(saved_options, sizeof saved_options, kOptions, set);
  save(saved_file, sizeof saved_file, kFile, std::getenv("HEADROOM_TRACE_FILE"));
  has_limit = saved_library[0] != 0 && saved_options[0] != 0;
}

// The variable's value, or null.
const char* value_in(Strings environment, const char* key) {
  const std::size_t length = std::strlen(key);
  for (Strings at = environment; at != nullptr && *at != nullptr; ++at)
    if (std::strncmp(*at, key, length) == 0) return *at + length;
  return nullptr;
}

bool has_our_library(Strings environment) {
  const char* preload = value_in(environment, kPreload);
  // Either of the two libraries: a nested headroom command sets its own.
  return preload != nullptr && std::strstr(preload, "libheadroom_trace") != nullptr;
}
bool has_options(Strings environment) {
  const char* set = value_in(environment, kOptions);
  return set != nullptr && *set != 0;
}

// Bytes of memory that restore_limit() needs; 0 if no variable is missing.
std::size_t bytes_to_restore_limit(Strings environment) {
  if (!has_limit || (has_our_library(environment) && has_options(environment))) return 0;
  constexpr std::size_t kAdded = 3, kEnd = 1;
  std::size_t count = 0;
  for (Strings at = environment; at != nullptr && *at != nullptr; ++at) ++count;
  const char* preload = value_in(environment, kPreload);
  return (count + kAdded + kEnd) * sizeof(char*) + std::strlen(kPreload) + std::strlen(saved_library) +
         (preload != nullptr ? std::strlen(preload) : 0) + sizeof ":";
}

// The environment plus the missing variables. The result points into `environment` and `memory`.
Strings restore_limit(Strings environment, char* memory) {
  const bool adds_library = !has_our_library(environment), adds_options = !has_options(environment);
  char** const restored = reinterpret_cast<char**>(memory);
  std::size_t count = 0;
  for (Strings at = environment; at != nullptr && *at != nullptr; ++at) {
    const bool is_replaced = (adds_library && std::strncmp(*at, kPreload, std::strlen(kPreload)) == 0) ||
                             (adds_options && std::strncmp(*at, kOptions, std::strlen(kOptions)) == 0);
    if (!is_replaced) restored[count++] = *at;
  }
  if (adds_options) restored[count++] = saved_options;
  if (adds_options && saved_file[0] != 0 && value_in(environment, kFile) == nullptr)
    restored[count++] = saved_file;
  // The new text follows the pointers: the copied ones, the added ones and the final null.
  char* const text = reinterpret_cast<char*>(restored + count + (adds_library ? 2 : 1));
  if (adds_library) {
    const char* other_preload = value_in(environment, kPreload);
    std::strcpy(text, kPreload);
    std::strcat(text, saved_library);
    if (other_preload != nullptr && *other_preload != 0) std::strcat(std::strcat(text, ":"), other_preload);
    restored[count++] = text;
  }
  restored[count] = nullptr;
  return restored;
}

// The restored environment lives in this function's stack frame until the call returns.
template <class Call>
int call_with_limit(Strings environment, const Call& call) {
  const std::size_t bytes = bytes_to_restore_limit(environment);
  if (__builtin_expect(bytes == 0, 1)) return call(environment);
  return call(restore_limit(environment, static_cast<char*>(__builtin_alloca(bytes))));
}

// For C library functions that start a program with this process's own environment (system, popen). The new
// list is never freed, because the program may keep pointers to it.
void restore_limit_in_environ() {
  const std::size_t bytes = bytes_to_restore_limit(environ);
  if (bytes == 0) return;
  if (void* memory = std::malloc(bytes); memory != nullptr)
    environ = const_cast<char**>(restore_limit(environ, static_cast<char*>(memory)));
}

}  // namespace

// exec ends this program, so these hooks close its recording. If the next program is traced, it starts its
// own recording. A static program, or one without the tracer's environment, writes nothing. Without the
// hooks, this recording would then look as if the program was killed.
//
// A program that sets another environment does so on purpose, so a program without the tracer's variables is
// not traced. But a GPU memory limit stays in force (above). posix_spawn is hooked only for that.
//
// exec may run in a child after fork and in a signal handler, so nothing here allocates.

namespace {

using Arguments = Strings;
NextFunction<int (*)(const char*, Arguments, Arguments)> next_execve("execve"), next_execvpe("execvpe");
NextFunction<int (*)(int, Arguments, Arguments)> next_fexecve("fexecve");
NextFunction<int (*)(int, const char*, Arguments, Arguments, int)> next_execveat("execveat");
using Spawn = int (*)(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*,
                      Arguments, Arguments);
NextFunction<int (*)(const char*)> next_system("system");
NextFunction<FILE* (*)(const char*, const char*)> next_popen("popen");
NextFunction<int (*)(const char*, wordexp_t*, int)> next_wordexp("wordexp");
NextFunction<Spawn> next_posix_spawn("posix_spawn"), next_posix_spawnp("posix_spawnp");

// Resolved at load time: a lookup takes the loader's lock, which a child after fork must not wait for.
[[gnu::constructor]] void resolve_process_functions() {
  const auto resolve = [](auto&... functions) { (functions.get(), ...); };
  resolve(next_exit_now, next_exit_now_c, next_quick_exit, next_abort, next_setname, next_prctl);
  resolve(next_execve, next_execvpe, next_fexecve, next_execveat, next_posix_spawn, next_posix_spawnp,
          next_system, next_popen, next_wordexp);
}

// Returns only if exec failed; then the recording continues. A runtime profile that was ended for the exec
// stays ended.
template <class Call>
int replace_program(const CallFrame& caller, Arguments environment, const Call& call) {
  end_profiles_before_death(caller, ProcessEnd::at_once);
  const bool was_closed = try_finish_recording();
  const int result = call_with_limit(environment, call);
  const int error = errno;
  if (was_closed) resume_recording();
  errno = error;
  return result;
}

int replace_by_path(const CallFrame& caller, const char* path, Arguments arguments, Arguments environment) {
  return replace_program(caller, environment,
                         [&](Arguments restored) { return next_execve.get()(path, arguments, restored); });
}
int replace_by_name(const CallFrame& caller, const char* name, Arguments arguments, Arguments environment) {
  return replace_program(caller, environment,
                         [&](Arguments restored) { return next_execvpe.get()(name, arguments, restored); });
}

}  // namespace

HEADROOM_HOOK int execve(const char* path, Arguments arguments, Arguments environment) {
  return replace_by_path(caller_of_this_function(), path, arguments, environment);
}
HEADROOM_HOOK int execv(const char* path, Arguments arguments) {
  return replace_by_path(caller_of_this_function(), path, arguments, environ);
}
HEADROOM_HOOK int execvp(const char* name, Arguments arguments) {
  return replace_by_name(caller_of_this_function(), name, arguments, environ);
}
HEADROOM_HOOK int execvpe(const char* name, Arguments arguments, Arguments environment) {
  return replace_by_name(caller_of_this_function(), name, arguments, environment);
}
HEADROOM_HOOK int fexecve(int fd, Arguments arguments, Arguments environment) {
  return replace_program(caller_of_this_function(), environment,
                         [&](Arguments restored) { return next_fexecve.get()(fd, arguments, restored); });
}
HEADROOM_HOOK int execveat(int folder, const char* path, Arguments arguments, Arguments environment,
                           int flags) {
  const auto next = next_execveat.get();  // glibc 2.34
  if (next == nullptr) {
    errno = ENOSYS;
    return -1;
  }
  return replace_program(caller_of_this_function(), environment,
                         [&](Arguments restored) { return next(folder, path, arguments, restored, flags); });
}

HEADROOM_HOOK int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                              const posix_spawnattr_t* attributes, Arguments arguments,
                              Arguments environment) {
  return call_with_limit(environment, [&](Arguments restored) {
    return next_posix_spawn.get()(pid, path, actions, attributes, arguments, restored);
  });
}
HEADROOM_HOOK int posix_spawnp(pid_t* pid, const char* name, const posix_spawn_file_actions_t* actions,
                               const posix_spawnattr_t* attributes, Arguments arguments,
                               Arguments environment) {
  return call_with_limit(environment, [&](Arguments restored) {
    return next_posix_spawnp.get()(pid, name, actions, attributes, arguments, restored);
  });
}

// These start a shell through internal functions of the C library, which cannot be hooked.
HEADROOM_HOOK int system(const char* command) {
  restore_limit_in_environ();
  return next_system.get()(command);
}
HEADROOM_HOOK FILE* popen(const char* command, const char* type) {
  restore_limit_in_environ();
  return next_popen.get()(command, type);
}
HEADROOM_HOOK int wordexp(const char* words, wordexp_t* result, int flags) {
  restore_limit_in_environ();
  return next_wordexp.get()(words, result, flags);
}

// Copies the arguments of execl and its variants to an array on the stack, as the C library does. `list` then
// points behind the null pointer that ends them.
#define HEADROOM_COLLECT_ARGUMENTS(FIRST)                                                      \
  std::va_list list, ahead;                                                                    \
  va_start(list, FIRST);                                                                       \
  va_copy(ahead, list);                                                                        \
  std::size_t count = 1;                                                                       \
  while (va_arg(ahead, char*) != nullptr) ++count;                                             \
  va_end(ahead);                                                                               \
  auto** const arguments = static_cast<char**>(__builtin_alloca((count + 1) * sizeof(char*))); \
  arguments[0] = const_cast<char*>(FIRST);                                                     \
  for (std::size_t i = 1; i <= count; ++i) arguments[i] = va_arg(list, char*)

HEADROOM_HOOK int execl(const char* path, const char* first, ...) {
  HEADROOM_COLLECT_ARGUMENTS(first);
  va_end(list);
  return replace_by_path(caller_of_this_function(), path, arguments, environ);
}
HEADROOM_HOOK int execlp(const char* name, const char* first, ...) {
  HEADROOM_COLLECT_ARGUMENTS(first);
  va_end(list);
  return replace_by_name(caller_of_this_function(), name, arguments, environ);
}
HEADROOM_HOOK int execle(const char* path, const char* first, ...) {
  HEADROOM_COLLECT_ARGUMENTS(first);
  const Arguments environment = va_arg(list, Arguments);
  va_end(list);
  return replace_by_path(caller_of_this_function(), path, arguments, environment);
}
