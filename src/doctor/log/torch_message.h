// Reads PyTorch's message that CUDA memory ran out, in the wordings of 1.x and 2.x, also without its end.
#pragma once

#include <optional>
#include <string_view>

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

std::optional<LogMessage> read_torch(std::string_view line);

}  // namespace headroom::doctor
