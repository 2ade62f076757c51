// headroom doctor RUN --try: tries each cure that is a setting of headroom bench, in a separate bench under
// the run's limit. Then tries all cures together that helped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "types/finding.h"

namespace headroom::doctor {

struct CureTrials {
  std::vector<TriedCure> together;  // for each model with several cures that helped
  bool interrupted = false;         // by Ctrl-C; the earlier trials are kept
};

// Whether try_cures() would try any: `run` is one run, and its model files and source exist.
bool can_try_cures(const std::string& run, const std::vector<Finding>& findings);

// Tries the cures of the run's findings, `rounds` times each, and adds the results to the findings. `run` is
// a folder or its report.json. After an error, the earlier trials are kept. The benches inherit the
// environment, so the caller removes variables that are flags of headroom bench: the run's own settings
// count.
Status try_cures(const std::string& run, std::int64_t rounds, std::vector<Finding>& findings,
                 CureTrials& trials);

}  // namespace headroom::doctor
