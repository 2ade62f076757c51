// Many models, one budget: sessions are loaded when they are asked for, and given up by what it costs to load
// them again, so that what the process has never passes the budget. docs/model-pool.md
//
// One thread of the pool's own loads and frees, one thing at a time, so that what a load took and what a free
// gave back can be measured. It holds no lock meanwhile: loaded models are served on. A load that hangs is
// left to itself with its thread, its reservation stays on the books, and another thread takes over.
//
// What a session is, the pool does not know: it is made by a function and freed by its last owner. The models
// of include/headroom/model_pool.h are inference::Session, those of headroom bench have inputs and a task,
// too.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "pool/eviction_policy.h"
#include "pool/memory_meter.h"
#include "pool/pool_events.h"

namespace headroom::pool {

struct PoolState;
struct LoadedSession;

// What a model takes beside what the process has already. 0: not known. The pool then reserves `estimate` for
// the first load and learns from it; until then the budget is only as safe as the estimate.
struct ModelMemory {
  Bytes load_peak;  // most while it is loaded and warmed
  Bytes run_peak;   // most when it runs; what a loaded session is charged
  Bytes estimate;
};

struct Model {
  std::string name;
  // Makes a session that is ready to run: an error, or what it throws, is a failed load. Called on the pool's
  // thread. `sibling` is another session of this model, which may run meanwhile, or null.
  std::function<Result<std::shared_ptr<void>>(const std::shared_ptr<void>& sibling)> load;
  ModelMemory memory;
  ModelMemory next_session;  // of a session beside another one, where they share weights; else as the first
  // Whether what a run needs stays with the session, as in an arena. If not, a loaded session is charged the
  // peak of its load, in which it was warmed: that comes again with each run.
  bool keeps_run_memory = true;
  int most_sessions = 1;  // at the same time; a further one is made only where there is room without evicting
};

struct PoolOptions {
  Bytes budget;  // of all that `meter` reads: what is there already when the pool is made is part of it
  std::optional<Bytes> margin;                   // of the budget that is kept free; absent: a sixteenth
  Nanoseconds load_timeout{60'000'000'000};      // a load or free that takes longer hangs
  std::optional<Nanoseconds> unload_after_idle;  // absent: only to make room
  Nanoseconds patience{250'000'000};  // each raises a waiting request's priority by one; at least 1 ms
  // Most that a load for which others must be given up waits while sessions are in use; not one with a
  // deadline.
  Nanoseconds load_delay{};
  Nanoseconds retry_after{1'000'000'000};  // after a failed load; doubles to a minute
  Eviction eviction = Eviction::by_cost;
  // Empty: process_meter(). As loads and the observer it may be called after ~Pool, by a thread whose step
  // was given up.
  MemoryMeter meter;
  Observer observer;
};

struct Request {
  std::optional<Nanoseconds> deadline;  // from now; 0: only if it is ready; absent: as long as it takes
  int priority = 0;                     // higher first
};

// A session that this thread has to itself, until the lease's end. It may outlive the pool.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  Lease(const Lease&) = delete;
  ~Lease() { release(); }

  explicit operator bool() const { return session_ != nullptr; }
  void* session() const;
  Refusal refusal() const { return refusal_; }             // if there is no session
  const std::string& message() const { return message_; }  // the same as one sentence
  bool was_ready() const { return was_ready_; }            // it was had at once: a hit
  void release();
  // Releases a session that is not to be used again: it is freed.
  void discard();

 private:
  friend class Pool;
  std::shared_ptr<PoolState> state_;
  LoadedSession* session_ = nullptr;
  bool was_ready_ = false;
  Refusal refusal_ = Refusal::none;
  std::string message_;
};

// All functions may be called by any thread.
class Pool {
 public:
  // Throws std::runtime_error where what the process has cannot be measured, or there is no thread.
  explicit Pool(PoolOptions options);
  // Calls shut_down().
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // An error for a name that is taken, or a model that has no function.
  Status add(Model model);
  // Waits for a session of the model. A thread that has a lease should ask for a second one with a deadline:
  // the memory of the first may be what the second one needs.
  Lease acquire(std::string_view model, const Request& request = {});
  // Loads it without using it, as acquire() would; no request is counted, but one use of it.
  Status preload(std::string_view model, const Request& request = {});
  // A pinned model is not given up once it is loaded. False: unknown.
  bool pin(std::string_view model, bool pinned = true);
  // Frees its sessions that nobody uses, soon. False: unknown.
  bool unload(std::string_view model);
  Metrics metrics() const;
  // Calls `grow` on this thread while nothing is loaded or freed: what the process has more afterwards, a
  // runtime say, is its own. Passes on what it throws. Where it takes longer than load_timeout loads go on
  // beside it, and what it took is unaccounted. Not to be called by a model's `load`, which it would wait
  // for.
  void grow_baseline(const std::function<void()>& grow);
  // Tells those who wait, waits for a load or free in progress, frees what is not leased; each of these at
  // most load_timeout. Requests are refused from then on.
  void shut_down();

 private:
  Lease get(std::string_view model, const Request& request, bool is_preload);
  std::shared_ptr<PoolState> state_;
};

}  // namespace headroom::pool
