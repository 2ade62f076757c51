// How many of a model's layers fit on the GPU, by the figures that llama.cpp or Ollama printed before ggml
// was refused a buffer.
#pragma once

#include <optional>

#include "doctor/log/log_rule.h"
#include "doctor/log/ollama_messages.h"

namespace headroom::doctor {

// Nothing where the figures do not tell, or do not tell why it was refused.
std::optional<GpuLayers> layers_that_fit(const LogMessage& message);

}  // namespace headroom::doctor
