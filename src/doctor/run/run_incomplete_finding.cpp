#include "doctor/new_finding.h"
#include "doctor/run/run_finding.h"

namespace headroom::doctor {

// The report is there from the beginning on, so one of a bench that was killed looks like any other.
std::vector<Finding> run_incomplete(const BenchResult& result) {
  if (result.complete) return {};
  Finding finding =
      new_finding("run-incomplete", Severity::warning, "The run did not come to its end",
                  "It was interrupted, or the bench itself was killed; or it is still running. What "
                  "was measured by then is in the report.",
                  Confidence::possible);
  for (const ModelResult& model : result.models)
    if (model.status != ModelStatus::ok && !model.error.empty())
      finding.evidence.push_back({"", 0, model.name + ": " + model.error});
  finding.cures = {
      {"see whether the kernel killed it for want of memory", "journalctl -k | headroom doctor -", {}}};
  return {std::move(finding)};
}

}  // namespace headroom::doctor
