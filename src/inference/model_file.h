// Checks of a model file before a runtime opens it.
#pragma once

#include <filesystem>

#include "base/result.h"

namespace headroom::inference {

// Rejects a missing, empty or unreadable file. Runtimes report these cases badly or crash.
Status check_model_file(const std::filesystem::path& path);

}  // namespace headroom::inference
