// What can be said of a model's file before a runtime opens it.
#pragma once

#include <filesystem>

#include "base/result.h"

namespace headroom::inference {

// A missing, empty or unreadable file is Headroom's to explain; runtimes word it badly or crash.
Status check_model_file(const std::filesystem::path& path);

}  // namespace headroom::inference
