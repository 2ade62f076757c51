// The command that one wants next after headroom doctor.
#pragma once

#include <string>

#include "report/finding_views.h"

namespace headroom::doctor {

// It can be run as it stands. Of what was found the worst first; where nothing was, what would tell more.
std::string next_command(const report::DoctorReport& report, bool tried);

}  // namespace headroom::doctor
