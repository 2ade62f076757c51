#include <fmt/format.h>

#include "report/plan/plan_views.h"

namespace headroom::report {

Bytes running_bytes(const BudgetComponent& component) {
  const MemoryNeed& need = component.need;
  return need.run_peak.value_or(Bytes{}) + need.frame_bytes() + need.transient;
}

std::string notes_of_row(const planning::MemoryPlan& plan, std::size_t component) {
  const BudgetComponent& row = plan.budget.components[component];
  const MemoryNeed& need = row.need;
  const bool decimal = plan.budget.is_decimal;
  std::string notes = row.notes;
  const auto add = [&](const std::string& words) { notes += (notes.empty() ? "" : "; ") + words; };
  for (const auto& [key, value] : row.settings)
    if (need.origin.kind != FigureOrigin::Kind::measured) add(fmt::format("{} {}", key, value));
  for (const FrameBuffers& frames : need.frames)
    add(fmt::format("frames {} × {} × {} × {} B × {} = {}", frames.width, frames.height, frames.channels,
                    frames.channel_bytes, frames.count, planning::words_for_part(frames.bytes(), decimal)));
  if (need.frames.empty() && need.measured_frames > Bytes{})
    add(fmt::format("frames {}", planning::words_for_part(need.measured_frames, decimal)));
  if (need.transient > Bytes{})
    add(fmt::format("transient {}", planning::words_for_part(need.transient, decimal)));
  const Bytes run = need.run_peak.value_or(Bytes{});
  if (need.load_peak && *need.load_peak != run)
    add(fmt::format("load peak {}", planning::words_for_part(*need.load_peak, decimal)));
  if (need.gpu_apart > Bytes{})
    add(fmt::format("GPU memory {} not counted", planning::words_for_part(need.gpu_apart, decimal)));
  if (!row.group.empty()) add(fmt::format("one at a time: {}", row.group));
  if (row.is_lazy) add("on demand");
  if (need.origin.kind == FigureOrigin::Kind::measured) add("measured");
  if (need.origin.kind == FigureOrigin::Kind::estimate) add("estimate: " + need.origin.source);
  return notes;
}

}  // namespace headroom::report
