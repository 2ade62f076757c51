// A MemoryTracer's own half: its account, its recording, and its place among the sessions that events go to.
//
// One lock guards all of it. It is the innermost: PyTorch's allocators call in with theirs held, and nothing
// that is done under it calls out. Uncontended it costs 12 ns (session_mutex.h), where an allocation costs
// twenty times that and tensors are allocated some 10,000 times a second; a lock for each session or device
// would cost the same.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "memory_tracer/account.h"
#include "memory_tracer/backward_nodes.h"

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
  bool is_recorded = false;
  AddressMap<LayerId> modules;  // of Python, by identity; the model keeps them alive
};

// Held by whoever touches a session's account. Nothing else may be locked or called while it is.
class SessionLock {
 public:
  SessionLock();
  ~SessionLock();
  SessionLock(const SessionLock&) = delete;
  SessionLock& operator=(const SessionLock&) = delete;
};

// From the first trace on a session hears what is released, so that what is live stays true between traces.
void open_trace(Session& session, const std::vector<WeightBlock>& weights);
void close_trace(Session& session);
// In this process: a child after fork has none, and everything passes by.
bool any_trace_is_open();

// Events of the calling thread.
void on_allocated(Device device, const void* address, std::uint64_t bytes);
// `bytes`: 0 where the allocator does not tell them.
void on_released(Device device, const void* address, std::uint64_t bytes = 0);
void on_reserve_changed(Device device, std::int64_t bytes);
void enter_layer(Session& session, std::string_view name);
void leave_layer(Session& session);

// Each enters a layer in every session with an open trace that knows it, and gives a bit for each of those,
// for leave_entered(). A call of a Python module:
std::uint32_t enter_module(const void* module);
// A phase:
std::uint32_t enter_phase(const char* name, LayerKind kind);
// A node of autograd's graph, which computes the gradients of what was done at that place:
std::uint32_t enter_backward_node(const char* name, const ForwardPlace& place);
void leave_entered(std::uint32_t entered);

}  // namespace headroom::memory_tracer
