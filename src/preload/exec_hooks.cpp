// exec ends this program, so these hooks close its recording. If the next program is traced, it starts its
// own recording. A static program, or one without the tracer's environment, writes nothing. Without the
// hooks, this recording would then look as if the program was killed.
//
// A program that sets another environment does so on purpose, so a program without the tracer's variables is
// not traced. But a GPU memory limit stays in force (limit_environment.h). posix_spawn is hooked only for
// that.
//
// exec may run in a child after fork and in a signal handler, so nothing here allocates.
#include <spawn.h>
#include <unistd.h>
#include <wordexp.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>

#include "preload/call_frame.h"
#include "preload/limit_environment.h"
#include "preload/onnxruntime_hooks.h"
#include "preload/process.h"
#include "preload/real_functions.h"

using namespace headroom::preload;

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
[[gnu::constructor]] void resolve_exec_functions() {
  next_execve.get();
  next_execvpe.get();
  next_fexecve.get();
  next_execveat.get();
  next_posix_spawn.get();
  next_posix_spawnp.get();
  next_system.get();
  next_popen.get();
  next_wordexp.get();
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
