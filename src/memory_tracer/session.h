// The implementation of a MemoryTracer: its account, its recording, and its place in the list of sessions
// that receive events.
//
// One lock guards everything. It is the innermost lock: PyTorch's allocators call in while holding theirs,
// and no code under it calls out. Uncontended it costs 15 ns. An allocation costs ten times that, and
// programs allocate about 10,000 tensors a second. A lock per session or device would cost the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "memory_tracer/account.h"
#include "memory_tracer/torch_sources.h"

namespace headroom::memory_tracer {

class Session {
 public:
  Session(std::size_t max_events, Device device, bool tracks_fragmentation)
      : account(max_events, device, tracks_fragmentation) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  Account account;
  int open_traces = 0;
  std::uint32_t bit = 0;  // while it has an open trace: distinguishes it from the others
  bool is_recorded = false;
  AddressMap<LayerId> modules;  // of Python modules, by identity; the model keeps them alive
};

// Locks all sessions' accounts. While it is held, take no other lock and call no other code.
class SessionLock {
 public:
  SessionLock();
  ~SessionLock();
  SessionLock(const SessionLock&) = delete;
  SessionLock& operator=(const SessionLock&) = delete;
};

// From its first trace on, a session is notified of releases, so that its live bytes stay correct between
// traces.
void open_trace(Session& session, const std::vector<WeightBlock>& weights);
void close_trace(Session& session);
// Whether a session of this process has an open trace. A forked child has none, and all its events are
// ignored.
bool any_trace_is_open();

// Events of the calling thread.
void on_allocated(Device device, const void* address, std::uint64_t bytes);
// `bytes`: 0 if the allocator does not report them.
void on_released(Device device, const void* address, std::uint64_t bytes = 0);
void on_reserve_changed(Device device, std::int64_t bytes);
void enter_layer(Session& session, std::string_view name);
void leave_layer(Session& session);

// Each of these three functions enters a layer in every session that has an open trace and knows the layer.
// It returns one bit per such session, for leave_entered(). A call of a Python module:
std::uint32_t enter_module(const void* module);
// A phase of training:
std::uint32_t enter_phase(const char* name, LayerKind kind);
// An autograd node, which computes the gradients of the operator at that place:
std::uint32_t enter_backward_node(const char* name, const ForwardPlace& place);
void leave_entered(std::uint32_t entered);

// The recording (.hrec) that a MemoryTracer writes as it runs, with the recorder of `headroom trace`. There
// is one per process, and it needs no hooks. Layers are entered and left under the lock of session.h.

// Throws std::runtime_error with the reason. A second call with the same path continues that recording.
void start_stream(const std::string& path);
void stream_allocation(Device device, const void* address, std::uint64_t bytes);
void stream_release(Device device, const void* address);
void stream_enter(Account& account, LayerId layer);
void stream_leave();
// Completes the recording so far, and writes its checksums.
void seal_stream();

}  // namespace headroom::memory_tracer
