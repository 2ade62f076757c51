// What a pool reports: counters since its start, events as they happen, and the files that publish both.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/files.h"
#include "types/enum_names.h"
#include "types/sample.h"

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
constexpr std::string_view name_of(Refusal refusal) {
  return name_in(
      {"none", "unknown_model", "too_large", "no_room", "deadline", "load_failed", "load_hangs", "shut_down"},
      refusal);
}

// With the figures of the sample that monitors see.
struct Metrics : PoolSample {
  std::int64_t hangs = 0, unloads = 0;  // unloads: all freed sessions, whatever the cause
  Nanoseconds reload_time;              // of loads of models that had been loaded before
  Bytes peak_used;                      // from the account (MemoryAccount)
  Bytes promised, returned;             // totals of all unloads
  std::int64_t short_returns = 0;       // unloads that freed less than nine tenths of what they promised
};

enum class EventKind { loaded, load_failed, load_hangs, unload_hangs, unloaded, refused };
constexpr std::string_view name_of(EventKind kind) {
  return name_in({"loaded", "load_failed", "load_hangs", "unload_hangs", "unloaded", "refused"}, kind);
}

// Why sessions were freed.
enum class UnloadCause {
  evicted,    // for another model, or because the process exceeded the budget
  idle,       // for longer than unload_after_idle
  discarded,  // by the holder of its lease
  asked,      // Pool::unload()
  end,        // the pool shuts down
};
constexpr std::string_view name_of(UnloadCause cause) {
  return name_in({"evicted", "idle", "discarded", "asked", "end"}, cause);
}

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

// Formats a pool's events as JSON lines: one object per event, bytes and nanoseconds as integers
// (docs/model-pool.md).
//
// {"event":"loaded","time_ns":…,"model":"face","took_ns":…,"used_bytes":…,"budget_bytes":…, …}, without a
// newline.
std::string event_line(const Event& event);
// {"event":"metrics", …}: every counter. `lost_events`: earlier lines that could not be written.
std::string metrics_line(const Metrics& metrics, Nanoseconds time, std::int64_t lost_events);

// Writes a pool's events to a file, one JSON line each. Never blocks on a slow reader: if a pipe is full or
// has no reader, the line is lost and counted. Any thread may write.
class EventFile {
 public:
  static Result<EventFile> open(const std::string& path);
  EventFile(EventFile&& other) noexcept : fd_(std::move(other.fd_)), lost_(other.lost_.load()) {}
  void write(const std::string& line);
  std::int64_t lost() const { return lost_; }

 private:
  explicit EventFile(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
  std::atomic<std::int64_t> lost_ = 0;
};

// Publishes a pool's metrics in a file that `headroom watch` and `headroom serve` read (types/sample.h).
// A thread of this object writes the file four times a second. The destructor deletes it.
class StatusFile {
 public:
  // `read` returns the current metrics; this class adds name, pid and device. Fails if the file cannot be
  // created or another pool of this process has the name.
  static Result<std::unique_ptr<StatusFile>> open(const std::string& name, const std::string& device,
                                                  std::function<PoolSample()> read);
  ~StatusFile();
  StatusFile(const StatusFile&) = delete;

 private:
  StatusFile() = default;
  void write();

  std::string path_;
  UniqueFd fd_;
  std::function<PoolSample()> read_;
  std::int64_t start_ticks_ = 0, sequence_ = 0;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // declared last: it uses the members above
};

}  // namespace headroom::pool
