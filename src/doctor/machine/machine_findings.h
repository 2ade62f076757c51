// What a machine's samples tell: of now (--live), or of a log of headroom watch.
#pragma once

#include <string>
#include <vector>

#include "doctor/machine/machine_history.h"
#include "types/finding.h"

namespace headroom::doctor {

// `name`: of the log, or "this machine". Unsorted.
std::vector<Finding> machine_findings(const MachineHistory& history, const std::string& name);

// Of the samples that a run took of its machine: without what the run itself makes of memory by loading and
// freeing models, and without what its report tells of them.
std::vector<Finding> findings_during_run(const MachineHistory& history, const std::string& name);

}  // namespace headroom::doctor
