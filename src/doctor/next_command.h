// The next command for the user of headroom doctor.
#pragma once

#include <string>

#include "report/finding/finding_views.h"

namespace headroom::doctor {

// A command that can be run as printed: a cure of the worst finding, unless a trial showed that it does not
// help. Without such a cure, the report of the one recording, snapshot or run. Empty for a log.
std::string next_command(const report::DoctorReport& report);

}  // namespace headroom::doctor
