// The output of a tracer for Python. Each function takes the session lock.
#pragma once

#include <string>
#include <string_view>

#include "headroom/memory_tracer.h"
#include "memory_tracer/session.h"

namespace headroom {

// Gives access to a tracer's session, which its class does not expose.
struct MemoryTracerAccess {
  static memory_tracer::Session& session(const MemoryTracer& tracer) { return *tracer.session_; }
};

namespace memory_tracer {

// All figures of a device, without the events; an empty name is the tracer's device.
std::string stats_json(const MemoryTracer& tracer, std::string_view device);
std::string events_json(const MemoryTracer& tracer);

}  // namespace memory_tracer
}  // namespace headroom
