// headroom doctor RUN --try: tries each cure that is a setting of headroom bench, in a separate bench under
// the run's limit. Then tries all cures together that helped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "report/finding/finding_views.h"

namespace headroom::doctor {

// Whether try_cures() would try any: `run` is one run, and its model files and source exist.
bool can_try_cures(const std::string& run, const std::vector<Finding>& findings);

// Tries the cures of the run's findings, `rounds` times each, and adds the results to the report. `run` is a
// folder or its report.json. Returns false after Ctrl-C. The earlier trials are kept then, and after an
// error. The benches inherit the environment, so the caller removes variables that are flags of headroom
// bench: the run's own settings count.
Result<bool> try_cures(const std::string& run, std::int64_t rounds, report::DoctorReport& report);

}  // namespace headroom::doctor
