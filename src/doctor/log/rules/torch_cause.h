// Why PyTorch could not allocate GPU memory, and what would fit, computed from the figures of its message.
#pragma once

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

// A name for the cause, on which pytorch.cpp's explanations depend: "own_share", "fragmentation", …
std::string_view torch_cause_of(const LogMessage& message);

// For the explanations: "cause" and the figures that their templates name.
void derive_torch(LogMessage& message);

}  // namespace headroom::doctor
