// Ollama runs ggml, and has words and settings of its own.
#pragma once

#include <vector>

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

std::vector<Wording> ollama_wordings();
std::vector<Explanation> ollama_explanations();
std::vector<CureRow> ollama_cures();

}  // namespace headroom::doctor
