// Runs a model in a separate process. If that process crashes, even by a signal, this process continues and
// gets an error. Unloading the model ends the process, so all its memory returns to the system. Inputs and
// outputs are copied through memory that both processes map.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "inference/backend.h"

namespace headroom::inference {

// Starts a process (headroom_model_process, from the plug-ins' folders), which loads the model with this
// plug-in. The load and the first two runs must end within `load_timeout`; otherwise the process is killed.
// Later runs have no timeout. If the process dies, the current run and all later runs fail.
//
// The result is an ordinary Session with three restrictions: it cannot share weights, it reports neither
// device time nor placement, and it has no inputs or outputs of strings.
Result<Session> load_isolated(const BackendFile& backend, const std::filesystem::path& model,
                              const RuntimeSettings& settings, Nanoseconds load_timeout);

// The process ids of the running model processes that this process started.
std::vector<pid_t> isolated_processes();

}  // namespace headroom::inference
