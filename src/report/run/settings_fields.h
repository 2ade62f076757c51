// The fields of RuntimeSettings in JSON, shared by the report, the footprint and the jobs of workers.
#pragma once

#include "report/run/json_fields.h"
#include "types/runtime_settings.h"

namespace headroom::report {

template <>
inline constexpr ArenaExtend kLast<ArenaExtend> = ArenaExtend::same_as_requested;

template <>
inline constexpr ConvSearch kLast<ConvSearch> = ConvSearch::standard;

template <>
inline constexpr Precision kLast<Precision> = Precision::bf16;

void describe(auto& field, a<RuntimeSettings> auto& settings) {
  field("threads", settings.threads);
  field("arena", settings.arena);
  field("arena_extend", settings.arena_extend);
  field("memory_pattern", settings.memory_pattern);
  field("prepacking", settings.prepacking);
  field("graph_level", settings.graph_level);
  field("spinning", settings.spinning);
  field.unless_zero("mapped", settings.mapped);
  field("device", settings.device);
  field.unless_zero("precision", settings.precision);
  // Of GPUs; left out where they are the runtime's own.
  field.unless_zero("conv_search", settings.conv_search);
  field.unless_zero("conv_small_workspace", settings.conv_small_workspace);
  field.unless_zero("device_graph", settings.device_graph);
}

}  // namespace headroom::report
