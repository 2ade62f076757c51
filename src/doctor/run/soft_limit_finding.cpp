#include <fmt/format.h>

#include "base/text.h"
#include "doctor/cure_trials.h"
#include "doctor/new_finding.h"
#include "doctor/run/run_finding.h"

namespace headroom::doctor {

std::vector<Finding> soft_limit(const BenchResult& result) {
  if (!result.limit || result.limit->type == LimitType::hard) return {};
  Finding finding = new_finding(
      "soft-limit", Severity::warning,
      fmt::format("The limit of {} is {}: {}", format_bytes(result.limit->bytes), name_of(result.limit->type),
                  name_of(result.limit->mechanism)),
      "A way to take memory past it was found, or nothing enforces it: a run that fits proves less.");
  for (const LimitRoute& route : result.limit->routes)
    if (route.outcome == "escaped")
      finding.evidence.push_back({"", 0, fmt::format("{} escaped {}", route.name, route.detail)});
  // The run once more, of the first model where there are several; of a report that did not keep its settings
  // the flags alone.
  std::vector<std::string> words{"sudo", "headroom"};
  if (result.options && !result.models.empty()) {
    BenchResult enforced = result;
    enforced.options->limit_mechanism = "cgroup";
    for (std::string& word : bench_arguments(enforced, result.models.front(), std::nullopt))
      words.push_back(std::move(word));
  } else {
    words.insert(words.end(),
                 {"bench", "--mem-limit", exact_size(result.limit->bytes), "--limit-mechanism", "cgroup"});
  }
  finding.cures = {{"run where a control group can enforce it", shell_command(words), {}}};
  return {finding};
}

}  // namespace headroom::doctor
