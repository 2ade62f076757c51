#include <fmt/format.h>

#include "base/text.h"
#include "doctor/cure_trials.h"
#include "doctor/new_finding.h"
#include "doctor/run/run_finding.h"

namespace headroom::doctor {
namespace {

std::vector<std::string> flags_of(const BenchOptions& options) {
  std::vector<std::string> flags;
  if (options.parallel) flags.emplace_back("--parallel");
  if (options.pipeline) flags.emplace_back("--pipeline");
  if (options.pool) flags.insert(flags.end(), {"--pool", exact_size(*options.pool)});
  return flags;
}

}  // namespace

std::vector<Finding> soft_limit(const BenchResult& result) {
  if (!result.limit || result.limit->type == LimitType::hard) return {};
  Finding finding =
      new_finding("soft-limit", Severity::warning,
                  fmt::format("The limit of {} is {}: {}", format_bytes(result.limit->bytes),
                              type_with_reason(*result.limit), name_of(result.limit->mechanism)),
                  "The probe found a route past the limit, or nothing enforces the limit. A run that fits is "
                  "weaker proof.");
  for (const LimitRoute& route : result.limit->routes)
    if (route.outcome == "escaped")
      finding.evidence.push_back({"", 0, fmt::format("{} escaped {}", route.name, route.detail)});
  if (has_unproved_cuda(*result.limit))
    finding.evidence.push_back({"", 0, fmt::format("cuda not_tried: {}", kCudaNotProved)});
  // The run once more; of a report that did not keep its settings the flags alone.
  std::string command =
      fmt::format("headroom bench --mem-limit {} --limit-mechanism cgroup", exact_size(result.limit->bytes));
  if (result.options && !result.models.empty()) {
    BenchResult enforced = result;
    enforced.options->limit_mechanism = "cgroup";
    command = command_at_once(enforced, flags_of(*result.options));
  }
  const bool has_group = result.limit->mechanism == LimitMechanism::cgroup_v1 ||
                         result.limit->mechanism == LimitMechanism::cgroup_v2;
  if (!has_group)
    finding.cures.push_back({"let a control group enforce the limit (needs root)", "sudo " + command, {}});
  if (has_unproved_cuda(*result.limit))
    finding.cures.push_back({"limit CUDA memory too: Headroom refuses allocations beyond --gpu-mem-limit",
                             command + " --gpu-mem-limit " + exact_size(result.limit->bytes),
                             {}});
  return {finding};
}

}  // namespace headroom::doctor
