// Standard input of headroom doctor.
#pragma once

#include <optional>

#include "base/files.h"
#include "base/result.h"

namespace headroom::doctor {

// If standard input begins like a log of headroom watch, compressed or not: a copy of it that can be read
// again. The copy is in memory, so more than 256 MiB are refused. Otherwise nothing, and standard input is
// unread.
Result<std::optional<UniqueFd>> watch_log_on_input();

}  // namespace headroom::doctor
