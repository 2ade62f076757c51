#include <fmt/format.h>

#include "doctor/machine/machine_finding.h"
#include "doctor/new_finding.h"

namespace headroom::doctor {

namespace {

std::optional<Finding> in_sample(const SystemSample& last, bool is_now) {
  if (!last.ram_total || !last.ram_free || !last.ram_buffers || !last.ram_cached || !last.ram_anonymous ||
      !last.slab_reclaimable || !last.slab_unreclaimable || !last.page_tables)
    return std::nullopt;
  Bytes rest = *last.ram_total - *last.ram_free - *last.ram_buffers - *last.ram_cached - *last.ram_anonymous -
               *last.slab_reclaimable - *last.slab_unreclaimable - *last.page_tables;
  for (const auto* held : {&last.kernel_stacks, &last.huge_pages_total, &last.zram_used, &last.nvmap_used,
                           &last.nvmap_free, &last.swap_cached})
    rest = rest - held->value_or(Bytes{});
  if (rest.count < share_of(last.ram_total, 15) || rest.count < mebibytes(512).count) return std::nullopt;
  Finding finding =
      new_finding("memory-of-no-process", Severity::note,
                  fmt::format("{} of {} {} in no figure of a process, a cache or the kernel",
                              format_bytes(rest), format_bytes(*last.ram_total), is_now ? "are" : "were"),
                  "Drivers hold it. With an integrated GPU, it is GPU memory, which is not in any process's "
                  "resident memory. On a virtual machine, it is memory that the host reclaimed.",
                  Confidence::possible);
  finding.figures = {{"unaccounted_bytes", rest.count}, {"total_bytes", last.ram_total->count}};
  if (last.huge_pages_total && last.huge_pages_total->count > 0)
    finding.figures.push_back({"huge_pages_bytes", last.huge_pages_total->count});
  if (last.zram_used && last.zram_used->count > 0)
    finding.figures.push_back({"zram_used_bytes", last.zram_used->count});
  finding.cures = {{"see how much memory the GPU driver lists for each process (as root)",
                    "sudo cat /sys/kernel/debug/nvmap/iovmm/clients",
                    {}},
                   {"log it together with the GPU's figures",
                    "sudo headroom watch --processes 10 --output watch.jsonl",
                    {}}};
  return finding;
}

}  // namespace

// What no figure of the kernel accounts for, at the end of a session. Huge pages and zram's own memory are
// told apart from it.
std::optional<Finding> memory_of_no_process(const MachineHistory& history) {
  std::optional<Finding> found = in_sample(history.last, true);
  for (auto session = history.earlier.rbegin(); !found && session != history.earlier.rend(); ++session) {
    found = in_sample(session->last, false);
    if (found) found->evidence = of_session(history, *session);
  }
  return found;
}

}  // namespace headroom::doctor
