// Child processes with pipes, a hook between fork and exec (which applies limits), and a complete report of
// how they ended.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "base/units.h"

namespace headroom {

// How a child ended, with the kernel's resource usage.
struct ExitStatus {
  int exit_code = -1;    // valid if signal is 0
  int signal = 0;        // the signal that ended it, or 0
  Bytes peak_rss;        // ru_maxrss
  Nanoseconds cpu_time;  // user + system
  bool success() const { return signal == 0 && exit_code == 0; }
  // "exit code 3", "SIGKILL (signal 9)".
  std::string describe() const;
};

struct SpawnOptions {
  std::vector<std::string> command;  // command[0] is the path of the executable, or a name looked up in PATH
  std::vector<std::pair<std::string, std::string>> environment;  // {name, value}; overrides the parent's
  int stdin_fd = -1;                                             // -1: /dev/null
  int stdout_fd = -1;                                            // -1: /dev/null
  int stderr_fd = -1;                                            // -1: the parent's stderr
  // Descriptors that the child keeps: {number in the parent, number in the child}. All others are closed.
  std::vector<std::pair<int, int>> inherited;
  // Runs in the child between fork and exec; must be async-signal-safe. Returns 0, or an errno value that
  // becomes the error of spawn().
  std::function<int()> before_exec;
  bool new_process_group = true;  // Ctrl-C then reaches only the parent, which decides what to do
  bool die_with_parent = true;    // PR_SET_PDEATHSIG SIGKILL: the child does not survive a killed parent
};

// A running child. The destructor kills its process group if the child still runs, and reaps it.
class Subprocess {
 public:
  Subprocess() = default;
  Subprocess(Subprocess&& other) noexcept;
  Subprocess& operator=(Subprocess&& other) noexcept;
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;
  ~Subprocess();

  // Returns after exec. Errors: fork, the hook or exec failed (such as a command that was not found).
  static Result<Subprocess> spawn(const SpawnOptions& options);

  pid_t pid() const { return pid_; }
  bool running() const { return pid_ > 0 && !status_; }
  // Reaps the child if it has ended. Returns nothing while it runs.
  std::optional<ExitStatus> poll();
  ExitStatus wait();
  // Waits for the end, at most this long. Returns nothing if the child still runs then.
  std::optional<ExitStatus> wait_for(Nanoseconds timeout);
  // Sends a signal to the child's process group, or only to the child if it has no group.
  void signal(int number);

 private:
  std::optional<ExitStatus> reap(int options);
  pid_t pid_ = -1;
  bool own_group_ = false;
  std::optional<ExitStatus> status_;
};

// Restores this thread's signal mask at its end.
class SavedSignalMask {
 public:
  SavedSignalMask() { ::sigprocmask(SIG_SETMASK, nullptr, &before_); }
  ~SavedSignalMask() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  SavedSignalMask(const SavedSignalMask&) = delete;
  SavedSignalMask& operator=(const SavedSignalMask&) = delete;

 private:
  sigset_t before_{};
};

// A pipe. Both ends are closed at exec.
struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
  static Result<Pipe> create();
};

// Keeps a monitor running when memory is short, which is when it is needed most.
// Lowers the process's OOM score, so that the kernel kills other processes first, and locks its pages in
// memory. Without the lock, a control group that thrashes drops and rereads the program's code all the time.
// Samples then came 1.8 s late; with the lock they come in time (benchmarks/monitor_survives.py).
//
// Root may do both. Without the permission for one of them, the function skips it. Children don't inherit the
// lock, but they inherit the score. Start them before this call, or reset their score.
void survive_shortage_of_memory();

}  // namespace headroom
