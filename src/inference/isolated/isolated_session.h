// A model in a process of its own: its crash, by a signal too, is a failed run, and its memory is back when
// it is unloaded, whatever its runtime keeps. Inputs and outputs are copied through memory that both
// processes map.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "inference/backend.h"

namespace headroom::inference {

// Loads the model by that plug-in in a process of its own (headroom_model_process, which lies where plug-ins
// do). One that says nothing for `load_timeout` is ended. Any Session; but it cannot be shared, tells nothing
// of a device, and has no inputs or outputs of strings. A run whose process has died fails, and so does all
// after it.
Result<Session> load_isolated(const BackendFile& backend, const std::filesystem::path& model,
                              const RuntimeSettings& settings, Nanoseconds load_timeout);

// Those of this process that live now.
std::vector<pid_t> isolated_processes();

}  // namespace headroom::inference
