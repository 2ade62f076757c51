#include "doctor/machine/machine_finding.h"

namespace headroom::doctor {

const std::vector<MachineFinding>& machine_finding_list() {
  static const std::vector<MachineFinding> kFindings{
      kernel_oom_kill,           control_group_thrash, swap_thrash,
      memory_running_out,        growth_levelled_off,  page_cache_starves_nvmap,
      free_memory_in_pieces,     little_memory_left,   swap_nearly_full,
      control_group_nearly_full, zram_missized,        memory_of_no_process,
      gpu_memory_nearly_full,    desktop_running,      throttled,
  };
  return kFindings;
}

}  // namespace headroom::doctor
