// The output of a session: figures by name, JSON, text. Each function takes the session lock.
#pragma once

#include <ostream>
#include <string>

#include "headroom/memory_tracer.h"
#include "memory_tracer/session.h"

namespace headroom::memory_tracer {

std::map<std::string, LayerMemoryStats> layer_stats(const Session& session, Device device);
std::vector<MemoryEvent> events_of(const Session& session);
std::map<std::string, std::int64_t> memory_at_peak(const Session& session, Device device);
MemoryByUse memory_by_use(const Session& session, Device device);
std::vector<MemoryGrowth> growth_of(const Session& session, Device device);
struct Totals {
  std::int64_t allocated = 0, reserved = 0, peak = 0, peak_reserved = 0;
};
Totals totals_of(const Session& session, Device device);

void write_flame_graph(const Session& session, std::ostream& out);
void write_timeline(const Session& session, std::ostream& out);
std::string stats_json(const Session& session, Device device);  // all figures above, without the events
std::string events_json(const Session& session);
std::string summary_of(const Session& session);

}  // namespace headroom::memory_tracer
