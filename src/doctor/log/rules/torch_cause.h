// Why PyTorch could not allocate GPU memory, and what would fit, computed from the figures of its message.
#pragma once

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

// A name for the cause, on which pytorch.cpp's explanations depend: "own_share", "fragmentation", …
std::string_view torch_cause_of(const LogMessage& message);

// For the explanations: "cause" and the figures that their templates name.
void derive_torch(std::string_view, LogMessage& message);

// For a message with the figure "runtime": "server" and its flags, which the cures "of-server" use.
void derive_server(std::string_view, LogMessage& message);

}  // namespace headroom::doctor
