// What a pool reports: counters since its start, and events as they happen. Plain data.
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
  too_large,    // its load peak exceeds the budget minus the baseline and the margin
  no_room,      // pinned models, hanging loads or memory that did not come back leave too little
  deadline,     // no session was ready in time
  load_failed,  // also until the next retry: docs/model-pool.md
  load_hangs,
  shut_down,
};
std::string_view name_of(Refusal refusal);  // "too_large"

struct Metrics {
  std::int64_t requests = 0, hits = 0;  // a hit gets a loaded session at once
  std::int64_t waits = 0;               // for a load, or for a session that another thread uses
  std::int64_t loads = 0, load_failures = 0, hangs = 0;
  std::int64_t evictions = 0;  // models unloaded for others, or because the process exceeded the budget
  std::int64_t unloads = 0;    // all freed sessions: evicted, idle, discarded, or unloaded by request
  std::int64_t refusals = 0;
  Nanoseconds load_time;    // of all loads
  Nanoseconds reload_time;  // of loads of models that had been loaded before
  Nanoseconds wait_time;
  Bytes budget, used, peak_used;  // from the account (memory_account.h)
  Bytes resident, loading, unaccounted, stuck;
  Bytes measured;                  // the meter's last reading
  Bytes promised, returned;        // totals of all unloads
  std::int64_t short_returns = 0;  // unloads that freed less than nine tenths of what they promised
};

enum class EventKind { loaded, load_failed, load_hangs, unload_hangs, unloaded, refused };
std::string_view name_of(EventKind kind);  // "load_failed"

// Why sessions were freed.
enum class UnloadCause {
  evicted,    // for another model, or because the process exceeded the budget
  idle,       // for longer than unload_after_idle
  discarded,  // by the holder of its lease
  asked,      // Pool::unload()
  end,        // the pool shuts down
};
std::string_view name_of(UnloadCause cause);  // "evicted"

struct Event {
  EventKind kind = EventKind::loaded;
  Nanoseconds time;   // monotonic
  std::string model;  // if an unload frees several models: their names, separated by ", "
  UnloadCause cause = UnloadCause::evicted;  // of an unload
  Nanoseconds took;                          // time to load, to unload, or to wait until the refusal
  Bytes promised;                            // loaded: its charge; unloaded: the expected bytes
  Bytes changed;       // loaded: growth of the process; unloaded: the bytes that came back
  Bytes used, budget;  // from the account, after the event
  Refusal refusal = Refusal::none;
  std::string message;  // why it failed or was refused
};

// Called on the thread that caused the event, without a lock held, so it may call the pool. It must not
// throw.
using Observer = std::function<void(const Event&)>;

}  // namespace headroom::pool
