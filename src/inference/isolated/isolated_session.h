// Runs a model in a separate process. If that process crashes, even by a signal, only a run fails.
// Unloading the model returns all memory, even memory that its runtime keeps. Inputs and outputs are
// copied through memory that both processes map.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "inference/backend.h"

namespace headroom::inference {

// Starts a process (headroom_model_process, from the plug-ins' folders), which loads the model with this
// plug-in. A process that does not answer within `load_timeout` is killed. The result is an ordinary
// Session with three restrictions: it cannot share weights, it reports nothing about a device, and it has
// no inputs or outputs of strings. If the process dies, the current run and all later runs fail.
Result<Session> load_isolated(const BackendFile& backend, const std::filesystem::path& model,
                              const RuntimeSettings& settings, Nanoseconds load_timeout);

// The model processes of this process that are running.
std::vector<pid_t> isolated_processes();

}  // namespace headroom::inference
