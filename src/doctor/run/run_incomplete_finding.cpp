#include "doctor/new_finding.h"
#include "doctor/run/run_finding.h"

namespace headroom::doctor {

// The report is there from the beginning on, so one of a bench that was killed looks like any other.
std::vector<Finding> run_incomplete(const BenchResult& result) {
  if (result.complete) return {};
  Finding finding = new_finding("run-incomplete", Severity::warning, "The run did not finish",
                                "The run was interrupted or killed, or it is still running. The report "
                                "contains the measurements so far.",
                                Confidence::possible);
  for (const ModelResult& model : result.models)
    if (model.status != ModelStatus::ok && !model.error.empty())
      finding.evidence.push_back({"", 0, model.name + ": " + model.error});
  finding.cures = {{"check whether the kernel's OOM killer did it", "journalctl -k | headroom doctor -", {}}};
  return {std::move(finding)};
}

}  // namespace headroom::doctor
