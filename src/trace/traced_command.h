// Runs the traced command: it keeps the terminal, and signals are forwarded to it.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/subprocess.h"
#include "trace/tracer_environment.h"

namespace headroom::trace {

struct CommandEnd {
  ExitStatus status;
  Nanoseconds duration;
  // As a shell reports it: 128 + the signal that ended the command.
  int exit_code() const { return status.signal != 0 ? 128 + status.signal : status.exit_code; }
  bool out_of_memory = false;  // killed while the kernel's out-of-memory killer was active
};

// Runs the command to its end, in this process's group, so that it receives signals from the terminal's keys.
// This process forwards a signal (SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2) to the command, and
// continues in order to finish the recording. After the command has ended, such a signal has no effect. If
// this process is killed, the command keeps running. `before_exec` runs in the child, as in SpawnOptions.
Result<CommandEnd> run_command(const std::vector<std::string>& command, const Environment& environment,
                               const std::function<int()>& before_exec = {});

// The file that `name` runs: looked up in PATH unless it contains a slash. The error states what is wrong.
Result<std::filesystem::path> find_program(const std::string& name);

// Returns an error for programs that cannot be traced. These are static ones, and those that gain rights when
// they start (setuid, setgid, file capabilities). Programs of another architecture or C library than the
// preload library's, and those with a sanitizer's malloc, cannot be traced either. For a script, its
// interpreter is checked. A program that can be run but not read passes unchecked.
Status check_traceable(const std::filesystem::path& program, const std::filesystem::path& library);

// The part of these checks that reads the program's file: architecture, static, C library, sanitizer. A file
// that cannot be read passes.
Status check_elf_program(const std::filesystem::path& program, const std::filesystem::path& library);

}  // namespace headroom::trace
