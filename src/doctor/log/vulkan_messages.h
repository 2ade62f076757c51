// What Vulkan's errors of lacking memory mean where no more is known of the program that has them.
#pragma once

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

// requested_bytes and memory ("host") of the message, where it has them.
Finding explain_vulkan(const LogMessage& message);

}  // namespace headroom::doctor
