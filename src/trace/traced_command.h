// The command that is traced: it keeps the terminal, and gets the signals that are meant for it.
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
  bool out_of_memory = false;  // killed, and the kernel's out-of-memory killer struck meanwhile
};

// Runs it to its end, in this process' group, so that the terminal's keys reach it. A signal that is sent to
// this process (SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2) goes on to the command, and this process
// lives to finish the recording: after the command's end such a signal does nothing. The command outlives
// this process if that is killed: a guest does not take its host along. `before_exec` runs in the child, as
// in SpawnOptions.
Result<CommandEnd> run_command(const std::vector<std::string>& command, const Environment& environment,
                               const std::function<int()>& before_exec = {});

}  // namespace headroom::trace
