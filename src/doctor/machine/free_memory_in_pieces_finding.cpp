#include <fmt/format.h>

#include "doctor/machine/machine_finding.h"
#include "doctor/new_finding.h"

namespace headroom::doctor {

std::optional<Finding> free_memory_in_pieces(const MachineHistory& history) {
  constexpr std::int64_t kLeast = 30'000'000'000;  // as the alert waits
  if (history.in_pieces.count < kLeast) return std::nullopt;
  Finding finding = new_finding(
      "free-memory-in-pieces", Severity::warning,
      fmt::format(
          "The largest free block was up to {:.1f} times smaller than before, with the same free memory",
          history.worst_factor),
      "Physical memory is fragmented: large device allocations can fail.", Confidence::likely);
  finding.figures = {{"worst_factor", history.worst_factor}};
  finding.cures = {
      {"compact free pages into large blocks", "echo 1 | sudo tee /proc/sys/vm/compact_memory", {}}};
  return finding;
}

}  // namespace headroom::doctor
