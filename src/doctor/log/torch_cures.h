// What helps where PyTorch got no GPU memory: by the cause (torch_cause.h), with commands that the message's
// figures and library give.
#pragma once

#include "doctor/log/torch_cause.h"

namespace headroom::doctor {

// The cure of the cause first, the others by what they save.
void add_torch_cures(const LogMessage& message, const TorchFigures& figures, TorchCause cause,
                     Finding& finding);

}  // namespace headroom::doctor
