// The fields of RuntimeSettings in JSON, shared by the report, the footprint and the jobs of workers.
#pragma once

#include "model/runtime_settings.h"
#include "report/json_fields.h"

namespace headroom::report {

template <>
inline constexpr std::array kAll<ArenaExtend>{ArenaExtend::next_power_of_two, ArenaExtend::same_as_requested};

void describe(auto& field, a<RuntimeSettings> auto& settings) {
  field("threads", settings.threads);
  field("arena", settings.arena);
  field("arena_extend", settings.arena_extend);
  field("memory_pattern", settings.memory_pattern);
  field("prepacking", settings.prepacking);
  field("graph_level", settings.graph_level);
  field("spinning", settings.spinning);
  field("device", settings.device);
}

}  // namespace headroom::report
