// What would fit where ggml was refused a buffer, by the figures that llama.cpp or Ollama printed before.
#pragma once

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

// Lines that llama.cpp and its like, and Ollama, print while they load a model.
std::optional<LogMessage> read_ggml_context(std::string_view line);
std::optional<LogMessage> read_ollama_context(std::string_view line);

// For ggml's explanations: how many layers may stay on the GPU, how long a context may be.
void derive_ggml(LogMessage& message);

// "whisper.cpp" or "stable-diffusion.cpp", by the functions and files that a line names; empty: neither.
std::string_view ggml_program_of(std::string_view line);

}  // namespace headroom::doctor
