// A thread of another process that ptrace has stopped, and calls of functions in it.
//
// A call sets the registers as the C calling convention wants them, below what the thread has on its stack.
// The function returns to a system call instruction of the C library, and ptrace stops the thread there, so
// that call never happens. No signal is involved: a fault at the return address would change the program's
// signal handling where it blocks that signal.
//
// All other threads run on. So the function may wait for their locks, but this thread must hold none of the
// C library or the loader: is_at_safe_place().
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "trace/attach_process.h"

namespace headroom::trace {

// What /proc/PID/task/TID/syscall says of a thread that waits in the kernel.
struct SystemCall {
  std::int64_t number = -1;  // -1: none
  std::array<std::uint64_t, 6> arguments = {};
};
// Nothing if the thread is running.
std::optional<SystemCall> parse_system_call(std::string_view text);
std::optional<SystemCall> system_call_of(pid_t thread);

// Whether a thread that waits in this call is inside neither the allocator nor the loader. Neither of them
// makes such a call.
bool is_safe_wait(const RemoteProcess& process, const SystemCall& call);

class StoppedThread {
 public:
  // Stops the thread. Nothing if it has ended or does not stop within the time.
  static std::optional<StoppedThread> stop(pid_t thread, Nanoseconds timeout = {200'000'000});
  // Lets the thread go on where it was. A system call that the stop has interrupted continues, also those for
  // which the kernel would report EINTR.
  ~StoppedThread();
  StoppedThread(StoppedThread&& other) noexcept;
  StoppedThread& operator=(StoppedThread&&) = delete;

  pid_t id() const { return thread_; }
  std::uint64_t program_counter() const;
  std::uint64_t stack_pointer() const;
  // The address at which the thread's own data are; 0: unknown.
  std::uint64_t thread_pointer() const;
  // The system call that the stop has interrupted.
  const SystemCall& system_call() const { return waits_in_; }

  // Calls a function, with numbers and texts; a text is copied to the thread's stack. `landing` is the
  // address of a system call instruction. Returns what the function returned.
  struct Argument {
    std::uint64_t number = 0;
    std::optional<std::string> text = {};
  };
  Result<std::uint64_t> call(const RemoteProcess& process, std::uint64_t landing, std::uint64_t function,
                             std::initializer_list<Argument> arguments);

 private:
  explicit StoppedThread(pid_t thread) : thread_(thread) {}
  bool save();
  bool restore();
  void continue_interrupted_call();

  pid_t thread_ = 0;  // 0: moved from, or the thread has ended
  SystemCall waits_in_;
  std::vector<std::uint8_t> registers_, vectors_;
  std::uint64_t signals_ = 0;
  bool has_called_ = false;
};

// The address of a system call instruction in the mapped C library; 0 if none was found.
std::uint64_t find_landing(const RemoteProcess& process, std::uint64_t c_library);

}  // namespace headroom::trace
