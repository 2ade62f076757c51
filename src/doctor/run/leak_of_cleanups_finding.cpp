#include <fmt/format.h>

#include "doctor/new_finding.h"
#include "doctor/run/run_finding.h"
#include "monitoring/series_growth.h"

namespace headroom::doctor {

// The ends of objects and of videos, after their state was cleaned.
std::optional<Finding> leak_of_cleanups(const ModelResult& model, const BenchResult&) {
  for (const std::string level : {"object", "video"}) {
    std::vector<std::int64_t> cycles, bytes;
    for (const CleanupPoint& point : model.cleanups) {
      if (point.level != level) continue;
      bytes.push_back(point.resident.count);
      cycles.push_back(static_cast<std::int64_t>(bytes.size()));
    }
    constexpr double kLeast = 2 << 20;
    const auto growth = monitoring::growth_of(cycles, bytes, kLeast);
    if (growth.growth != monitoring::Growth::leak) continue;
    Finding finding = new_finding(
        "leak", Severity::severe,
        fmt::format("{} leaks {} with each {}", model.name,
                    format_bytes({static_cast<std::int64_t>(growth.per_cycle)}), level),
        fmt::format("Memory that was allocated for one {} remains after its cleanup, {} times in a row.",
                    level, bytes.size()),
        Confidence::likely);
    finding.figures = {{"level", level},
                       {"leak_bytes", static_cast<std::int64_t>(growth.per_cycle)},
                       {"cycles", static_cast<std::int64_t>(bytes.size())}};
    finding.cures = {
        {fmt::format("release the memory of each {} when it ends", level),
         "del predictor; gc.collect(); torch.cuda.empty_cache()", Bytes{bytes.back() - bytes.front()}},
        {"find the call stack that keeps it", "headroom trace -- COMMAND", {}}};
    return finding;
  }
  return std::nullopt;
}

}  // namespace headroom::doctor
