// What a pool tells of itself: counters since it was made, and events as they happen. Plain data.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/units.h"

namespace headroom::pool {

// Why a request got no session.
enum class Refusal {
  none,
  unknown_model,
  too_large,    // its load peak is more than the budget leaves beside the process itself
  no_room,      // what is pinned, or did not come back, leaves too little
  deadline,     // it was not ready in time
  load_failed,  // also for a while after a failure: docs/model-pool.md
  load_hangs,
  shut_down,
};
std::string_view name_of(Refusal refusal);  // "too_large"

struct Metrics {
  std::int64_t requests = 0, hits = 0;  // a hit got a loaded session at once
  std::int64_t waits = 0;               // for a load, or for a session that another thread had
  std::int64_t loads = 0, load_failures = 0, hangs = 0;
  std::int64_t evictions = 0;  // models given up for others
  std::int64_t unloads = 0;    // all sessions that were freed: evicted, idle for long, discarded, asked for
  std::int64_t refusals = 0;
  Nanoseconds load_time;    // of all loads
  Nanoseconds reload_time;  // of those of models that had been loaded before
  Nanoseconds wait_time;
  Bytes budget, used, peak_used;  // by the books (memory_books.h)
  Bytes resident, loading, unaccounted, stuck;
  Bytes measured;                  // the last reading of what the process has
  Bytes promised, returned;        // by all unloads
  std::int64_t short_returns = 0;  // unloads that gave back less than nine tenths of what they promised
};

enum class EventKind { loaded, load_failed, load_hangs, unload_hangs, unloaded, refused };
std::string_view name_of(EventKind kind);  // "load_failed"

// Why sessions were freed.
enum class UnloadCause {
  evicted,    // for another model, or because the process passed the budget
  idle,       // for longer than unload_after_idle
  discarded,  // by whoever had it
  asked,      // Pool::unload()
  end,        // of the pool
};
std::string_view name_of(UnloadCause cause);  // "evicted"

struct Event {
  EventKind kind = EventKind::loaded;
  Nanoseconds time;                          // monotonic
  std::string model;                         // of an unload of several: the names, separated by ", "
  UnloadCause cause = UnloadCause::evicted;  // of an unload
  Nanoseconds took;                          // to load, to unload, to wait before the refusal
  Bytes promised;                            // loaded: its charge; unloaded: what was to come back
  Bytes changed;                             // loaded: how much the process grew; unloaded: what came back
  Bytes used, budget;                        // by the books, afterwards
  Refusal refusal = Refusal::none;
  std::string message;  // why it failed or was refused
};

// Called by the thread that it happened on, with nothing locked: it may call the pool. It must not throw.
using Observer = std::function<void(const Event&)>;

}  // namespace headroom::pool
