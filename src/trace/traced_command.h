// Runs the traced command: it keeps the terminal, and signals are forwarded to it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/subprocess.h"
#include "trace/tracer_environment.h"

namespace headroom::trace {

struct CommandEnd {
  ExitStatus status;
  Nanoseconds duration;
  bool out_of_memory = false;  // killed while the kernel's out-of-memory killer was active
};

// Runs the command to its end, in this process's group, so that it receives signals from the terminal's keys.
// This process forwards a signal (SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2) to the command, and
// continues in order to finish the recording. After the command has ended, such a signal has no effect. If
// this process is killed, the command keeps running. `before_exec` runs in the child, as in SpawnOptions.
Result<CommandEnd> run_command(const std::vector<std::string>& command, const Environment& environment,
                               const std::function<int()>& before_exec = {});

}  // namespace headroom::trace
