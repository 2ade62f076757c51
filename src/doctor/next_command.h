// The command that one wants next after headroom doctor.
#pragma once

#include <string>

#include "report/finding_views.h"

namespace headroom::doctor {

// It can be run as it stands. Of what was found the worst first; where nothing was, what would tell more.
// What was tried in vain is no next step.
std::string next_command(const report::DoctorReport& report);

}  // namespace headroom::doctor
