// The views of an evaluation (headroom evaluate, docs/evaluate.md). Its JSON is in evaluation/.
#pragma once

#include <string>

#include "evaluation/predictions.h"

namespace headroom::report {

std::string evaluation_to_terminal(const evaluation::Evaluation& evaluation, bool color, int width);
// A header line, and a line for each scored object.
std::string evaluation_to_csv(const evaluation::Evaluation& evaluation);

}  // namespace headroom::report
