// The answer to "does it fit?" in one sentence, and a sentence for each failure.
#pragma once

#include <string>
#include <vector>

#include "types/bench_result.h"

namespace headroom::report {

enum class Tone {
  good,     // everything stayed inside an enforced limit
  neutral,  // no failure, and no proof: no limit, or a limit that nothing enforces
  bad,      // a model failed or exceeded the limit
};

struct Verdict {
  Tone tone = Tone::neutral;
  std::string sentence;
  std::vector<std::string> details;
};

Verdict verdict_of(const BenchResult& result);

// "text: out of memory while loading the model: the kernel killed it at the limit of 256.0 MiB".
std::string describe_fall(const ModelResult& model);
// "text: over the limit of 64.0 MiB in 12 samples, with a peak of 120.0 MiB resident, 187.5 % of the limit".
std::string describe_excess(const ModelResult& model, const std::optional<Limit>& limit);

}  // namespace headroom::report
