// What a machine's samples tell: of now (--live), or of a log of headroom watch.
#pragma once

#include <string>
#include <vector>

#include "doctor/machine/machine_history.h"
#include "model/finding.h"

namespace headroom::doctor {

// `name`: of the log, or "this machine". Unsorted.
std::vector<Finding> machine_findings(const MachineHistory& history, const std::string& name);

}  // namespace headroom::doctor
