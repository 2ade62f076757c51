#include "doctor/run/run_finding.h"

namespace headroom::doctor {

const std::vector<ModelFinding>& model_finding_list() {
  static const std::vector<ModelFinding> kFindings{
      model_out_of_memory,   limit_exceeded,
      leak_of_cleanups,      load_peak_over_run_peak,
      loading_leaves_copies, oversized_arena,
      oversized_workspace,   smaller_settings,
      convolution_search,    pinned_memory_on_unified_memory,
  };
  return kFindings;
}

const std::vector<RunFinding>& run_finding_list() {
  static const std::vector<RunFinding> kFindings{
      run_incomplete,      models_do_not_fit_together, soft_limit,         throttled_run,
      large_frame_buffers, duplicate_models,           model_leaves_memory};
  return kFindings;
}

}  // namespace headroom::doctor
