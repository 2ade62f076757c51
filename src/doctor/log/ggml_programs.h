// The programs on ggml beside llama.cpp: each has flags of its own, and none of llama.cpp's.
#pragma once

#include <string_view>
#include <vector>

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

// "whisper.cpp" or "stable-diffusion.cpp", by the functions and files that it names; empty: neither.
std::string_view ggml_program_of(std::string_view line);

// Words by which such a line is found.
const std::vector<std::string_view>& ggml_program_anchors();

// Whether the log has anything of ggml beside a Vulkan error that any program may have.
bool is_of_ggml(const LogMessage& message);

// The cures of the program that the figure "program" names; false: it is llama.cpp, or it is not told.
bool add_ggml_program_cures(const LogMessage& message, bool is_host, std::vector<Cure>& cures);

}  // namespace headroom::doctor
