// The recording (.hrec) that a MemoryTracer writes as it runs, with the recorder of `headroom trace`. There
// is one per process, and it needs no hooks. Layers are entered and left under the lock of session.h.
#pragma once

#include <cstdint>
#include <string>

#include "memory_tracer/account.h"

namespace headroom::memory_tracer {

// Throws std::runtime_error with the reason. A second call with the same path continues that recording.
void start_stream(const std::string& path);
void stream_allocation(Device device, const void* address, std::uint64_t bytes);
void stream_release(Device device, const void* address);
void stream_enter(Account& account, LayerId layer);
void stream_leave();
// Completes the recording so far, and writes its checksums.
void seal_stream();

}  // namespace headroom::memory_tracer
