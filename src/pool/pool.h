// A pool of models that share one memory budget. The pool loads a model's session on request. When the
// budget is full, it evicts the sessions with the lowest expected cost of loading them again
// (eviction_policy.h). See docs/model-pool.md.
//
// One pool thread does all loads and frees, one at a time, so that the memory of each can be measured. The
// thread holds no lock during a load or free, so requests for loaded models are served meanwhile. If a load
// hangs, the pool abandons that thread, keeps the reservation charged, and starts another thread.
//
// The pool does not know what a session is: a function makes it, and its last owner frees it. The sessions
// of include/headroom/model_pool.h are inference::Session. Those of `headroom bench` also have inputs and a
// task.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "pool/eviction_policy.h"
#include "pool/memory_meter.h"
#include "pool/pool_events.h"

namespace headroom::pool {

struct PoolState;
struct LoadedSession;

// The memory of a model, in addition to what the process already uses. 0 means unknown. The pool then
// reserves `estimate` for the first load and learns the real values from it. Until then the budget is only
// as safe as the estimate.
struct ModelMemory {
  Bytes load_peak;  // peak while it is loaded and warmed up
  Bytes run_peak;   // peak while it runs; the pool charges this to a loaded session
  Bytes estimate;
};

struct Model {
  std::string name;
  // Makes a session that is ready to run. The load fails if this returns an error or throws. It is called
  // on the pool's thread. `sibling` is another session of this model, which may be running, or null.
  std::function<Result<std::shared_ptr<void>>(const std::shared_ptr<void>& sibling)> load;
  ModelMemory memory;
  // Whether the session keeps the memory that a run needs, as an arena does. If not, a loaded session is
  // charged its load peak: the load includes warm-up runs, and each later run needs that memory again.
  bool keeps_run_memory = true;
  int most_sessions = 1;  // at the same time; an additional one is loaded only if nothing must be evicted
};

struct PoolOptions {
  Bytes budget{};  // for everything that `meter` reads, including what the process used before the pool
  std::optional<Bytes> margin{};                   // part of the budget that stays free; absent: 1/16
  Nanoseconds load_timeout{60'000'000'000};        // a load or free that takes longer counts as hanging
  std::optional<Nanoseconds> unload_after_idle{};  // absent: unload only to free memory for others
  // A waiting request gains one priority level per `patience`. At least 1 ms.
  Nanoseconds patience{250'000'000};
  // While sessions are in use, a load that needs evictions waits up to this long. Requests with a deadline
  // do not wait.
  Nanoseconds load_delay{};
  Nanoseconds retry_after{1'000'000'000};  // after a failed load; doubles up to one minute
  Eviction eviction = Eviction::by_cost;
  // Empty: process_meter(). The meter, the load functions and the observer may be called after ~Pool, by a
  // thread whose step was abandoned.
  MemoryMeter meter{};
  Observer observer{};
};

struct Request {
  std::optional<Nanoseconds> deadline;  // from now; 0: only if a session is ready; absent: no deadline
  int priority = 0;                     // higher first
};

// Exclusive use of a session until the lease ends. A lease may outlive the pool.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&& other) noexcept : held_(std::exchange(other.held_, {})) {}
  Lease& operator=(Lease&& other) noexcept;
  Lease(const Lease&) = delete;
  ~Lease() { release(); }

  explicit operator bool() const { return held_.session != nullptr; }
  void* session() const;
  Refusal refusal() const { return held_.refusal; }             // why there is no session
  const std::string& message() const { return held_.message; }  // the refusal as one sentence
  bool was_ready() const { return held_.was_ready; }            // the session was ready at once: a cache hit
  void release();
  // Releases the session and frees it, so that it is never used again.
  void discard();

 private:
  friend class Pool;
  struct Held {
    std::shared_ptr<PoolState> state;
    LoadedSession* session = nullptr;
    bool was_ready = false;
    Refusal refusal = Refusal::none;
    std::string message;
  } held_;
};

// Any thread may call any function.
class Pool {
 public:
  // Throws std::runtime_error if the process's memory cannot be measured or no thread can be started.
  explicit Pool(PoolOptions options);
  // Calls shut_down().
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Fails if the name is in use or the model has no load function.
  Status add(Model model);
  // Waits for a session of the model. A thread that already holds a lease should set a deadline: the pool
  // may need the memory of the first session to load the second.
  Lease acquire(std::string_view model, const Request& request = {});
  // Loads a session without leasing it. Does nothing if the model has a session. The eviction policy counts
  // a load as one use; the metrics don't count a request.
  Status preload(std::string_view model, const Request& request = {});
  // A pinned model is never evicted once it is loaded. Returns false if the model is unknown.
  bool pin(std::string_view model, bool pinned = true);
  // Frees the model's idle sessions, on the pool's thread. Returns false if the model is unknown.
  bool unload(std::string_view model);
  Metrics metrics() const;
  // Calls `grow` on this thread while nothing is loaded or freed, and adds the memory that it takes (a
  // runtime's, for example) to the baseline. Rethrows exceptions of `grow`. A model's `load` must not call
  // this: it would wait for itself.
  void grow_baseline(const std::function<void()>& grow);
  // Refuses all waiting and later requests, waits for a load or free in progress, then frees the idle
  // sessions. Each of these two waits takes at most load_timeout.
  void shut_down();

 private:
  Lease get(std::string_view model, const Request& request, bool is_preload);
  std::shared_ptr<PoolState> state_;
};

}  // namespace headroom::pool
