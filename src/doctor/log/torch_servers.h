// Servers of language models, which run PyTorch and have settings of their own: what helps a training script,
// half precision or a smaller batch, is nothing that one can do there.
#pragma once

#include <string_view>
#include <vector>

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

struct TorchServer {
  std::string_view runtime;  // as the figure "runtime" has it
  std::string_view share;    // of the GPU that it takes for weights and the cache of keys and values
  std::string_view context, requests, fewer_bits, more_gpus;
};

// Whose line it is, by what stands around the message, or where its code lies; empty: of none of them.
std::string_view torch_server_of(std::string_view line);
// The same of a message, which vLLM's preamble before it makes vLLM's, too; of other lines it does not tell
// whose log it is: programs that borrow vLLM's layers, as SGLang did, have lines of its logger.
std::string_view torch_server_of_message(std::string_view line);
// The one whose figure "runtime" a message has; nullptr: none.
const TorchServer* torch_server_of(const LogMessage& message);

// Those words by which torch_server_of(line) may know a line.
const std::vector<std::string_view>& torch_server_anchors();

// Whether the server told that it was loading the model's weights.
bool is_loading_weights(const LogMessage& message);

// In the order in which to try them; which of them save how much, no message tells.
void add_server_cures(const TorchServer& server, const LogMessage& message, std::vector<Cure>& cures);

}  // namespace headroom::doctor
