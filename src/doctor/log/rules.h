// The families of rules, a file each; rules.cpp lists them.
#pragma once

#include "doctor/log/rule_text.h"

namespace headroom::doctor {

RuleFamily pytorch_rules();
RuleFamily cuda_rules();
RuleFamily tensorflow_rules();
RuleFamily tensorrt_rules();
RuleFamily onnxruntime_rules();
RuleFamily ggml_rules();
RuleFamily llm_servers_rules();
RuleFamily accelerators_rules();
RuleFamily nvidia_rules();
RuleFamily host_rules();
RuleFamily kernel_rules();
RuleFamily kernel_kills_rules();
RuleFamily daemon_kills_rules();
RuleFamily containers_rules();
RuleFamily killed_rules();

}  // namespace headroom::doctor
