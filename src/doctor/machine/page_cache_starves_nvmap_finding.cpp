#include <fmt/format.h>

#include "doctor/cure_commands.h"
#include "doctor/machine/machine_finding.h"
#include "doctor/new_finding.h"

namespace headroom::doctor {

std::optional<Finding> page_cache_starves_nvmap(const MachineHistory& history) {
  if (!history.starved_free) return std::nullopt;
  Finding finding =
      new_finding("page-cache-starves-nvmap", Severity::warning,
                  fmt::format("Only {} were free for the GPU while the page cache held {}",
                              format_bytes(*history.starved_free), format_bytes(*history.starved_cache)),
                  "NvMap uses free pages only, so a GPU allocation can fail while MemAvailable is large.",
                  Confidence::likely);
  finding.evidence = moment(history, history.starved_at, format_bytes(*history.starved_free) + " free");
  finding.figures = {{"free_bytes", history.starved_free->count},
                     {"cache_bytes", history.starved_cache->count},
                     {"starved_seconds", history.starved.seconds()}};
  finding.cures = {{"drop the page cache before models are loaded",
                    "sync; echo 1 | sudo tee /proc/sys/vm/drop_caches", history.starved_cache},
                   keep_pages_free(history.last.ram_total)};
  return finding;
}

}  // namespace headroom::doctor
