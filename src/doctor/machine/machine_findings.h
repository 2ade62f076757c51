// Findings in a machine's samples: of now (--live), of a log of headroom watch, or of a run.
#pragma once

#include <string>
#include <vector>

#include "doctor/machine/machine_history.h"
#include "types/finding.h"

namespace headroom::doctor {

// `name`: of the log, or "this machine". Unsorted.
std::vector<Finding> machine_findings(const MachineHistory& history, const std::string& name);

// For samples that a run took of its machine: without findings that a run causes by loading and freeing
// models, and without those that the run's own report has.
std::vector<Finding> findings_during_run(const MachineHistory& history, const std::string& name);

}  // namespace headroom::doctor
