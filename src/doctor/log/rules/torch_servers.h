// Servers of language models, which run PyTorch and have settings of their own: what helps a training script,
// half precision or a smaller batch, cannot be done there.
#pragma once

#include <string_view>
#include <vector>

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

// "vLLM", "SGLang" or "TGI", by what stands around a message or where its code lies; empty: none of them.
std::string_view torch_server_of(std::string_view line);
// The same of a message, which vLLM's preamble makes vLLM's, too. Of other lines the preamble says nothing:
// programs that borrow vLLM's layers log lines like it.
std::string_view torch_server_of_message(std::string_view line);

// The texts by which torch_server_of() may recognize a line.
const std::vector<std::string_view>& torch_server_anchors();

// For explanations of a message with the figure "runtime": "server" and its flags, which server_cures() use.
void derive_server(LogMessage& message);
const std::vector<CureRow>& server_cures();

}  // namespace headroom::doctor
