// headroom doctor RUN --try: each cure that is a setting of headroom bench is tried, in a bench of its own
// under the run's own limit, and those that helped once more together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "types/finding.h"

namespace headroom::cli {

struct CureTrials {
  std::vector<TriedCure> together;  // for each model that has several cures that helped
  bool interrupted = false;         // by Ctrl-C; what was tried before is there
};

// Whether try_cures() would try any: `run` is one run whose model files and source are there.
bool can_try_cures(const std::string& run, const std::vector<Finding>& findings);

// `findings` are those of the run, a folder or its report.json, and get what was tried of their cures. Each
// is run `rounds` times. On an error what was tried before it is kept.
Status try_cures(const std::string& run, std::int64_t rounds, std::vector<Finding>& findings,
                 CureTrials& trials);

}  // namespace headroom::cli
