// Why PyTorch could not allocate GPU memory, and what would fit, computed from the figures of its message.
#pragma once

#include <string_view>

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

// A name for the cause, on which pytorch.cpp's explanations depend: "own_share", "fragmentation", …
std::string_view torch_cause_of(const LogMessage& message);

// For the explanations: "cause" and the figures that their templates name.
void derive_torch(LogMessage& message);

// Servers of language models, which run PyTorch and have settings of their own: what helps a training script,
// half precision or a smaller batch, cannot be done there.
// "vLLM", "SGLang" or "TGI", by what stands around a message or where its code lies; empty: none of them.
std::string_view torch_server_of(std::string_view line);
// The same of a message, which vLLM's preamble makes vLLM's, too. Of other lines the preamble says nothing:
// programs that borrow vLLM's layers log lines like it.
std::string_view torch_server_of_message(std::string_view line);
// For a message with the figure "runtime": "server" and its flags, which the cures "of-server" use.
void derive_server(LogMessage& message);

}  // namespace headroom::doctor
