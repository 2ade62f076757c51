// exec: the program that was recorded is over, and in order. If the next one is traced too it says so itself;
// a static one, or one that is started without the environment, would leave a recording that looks killed.
//
// exec may be called where hardly anything may, in a child after fork and in a signal handler: no allocation
// here.
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>

#include "tracer/call_frame.h"
#include "tracer/onnxruntime_hooks.h"
#include "tracer/process.h"
#include "tracer/real_functions.h"

using namespace headroom::tracer;

namespace {

using Arguments = char* const*;
NextFunction<int (*)(const char*, Arguments, Arguments)> next_execve("execve"), next_execvpe("execvpe");
NextFunction<int (*)(int, Arguments, Arguments)> next_fexecve("fexecve");
NextFunction<int (*)(int, const char*, Arguments, Arguments, int)> next_execveat("execveat");

// Before a fork: the look-up takes the loader's lock, which a child must not wait for.
[[gnu::constructor]] void look_up_next() {
  next_execve.get();
  next_execvpe.get();
  next_fexecve.get();
  next_execveat.get();
}

// It returns only if it failed, and then the recording goes on. A runtime's profile that was ended for it is
// over all the same.
template <class Call>
int replace_program(const CallFrame& caller, const Call& call) {
  end_profiles_before_death(caller, ProcessEnd::at_once);
  const bool was_closed = finish_quietly();
  const int result = call();
  const int error = errno;
  if (was_closed) go_on_recording();
  errno = error;
  return result;
}

int replace_by_path(const CallFrame& caller, const char* path, Arguments arguments, Arguments environment) {
  return replace_program(caller, [&] { return next_execve.get()(path, arguments, environment); });
}
int replace_by_name(const CallFrame& caller, const char* name, Arguments arguments, Arguments environment) {
  return replace_program(caller, [&] { return next_execvpe.get()(name, arguments, environment); });
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
  return replace_program(caller_of_this_function(),
                         [&] { return next_fexecve.get()(fd, arguments, environment); });
}
HEADROOM_HOOK int execveat(int folder, const char* path, Arguments arguments, Arguments environment,
                           int flags) {
  const auto next = next_execveat.get();  // glibc 2.34
  if (next == nullptr) {
    errno = ENOSYS;
    return -1;
  }
  return replace_program(caller_of_this_function(),
                         [&] { return next(folder, path, arguments, environment, flags); });
}

// The arguments of execl and its kin as an array on the stack, as the C library's own are; `list` is left
// behind the null pointer that ends them.
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
