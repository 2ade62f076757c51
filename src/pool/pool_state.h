// The state of a pool, and the decision about its next step. Every function here is called with the pool's
// lock held and gets the time as a value. None of them waits, loads or frees: the threads in pool.cpp do
// that.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "pool/pool.h"

namespace headroom::pool {

// How much of the budget is in use, in bytes: the charges of models, and measured memory beyond them.
struct MemoryAccount {
  Bytes budget;
  Bytes margin;    // stays free: sessions briefly use a little memory that no reading shows
  Bytes baseline;  // of runtimes and the program itself; lowered by a reading while nothing is loaded
  Bytes charged;   // charges of loaded models: the memory that each needs when it runs
  Bytes loading;   // reserved for the load in progress: its peak, which may exceed the memory that stays
  Bytes leaving;   // charges of models that are being freed, until the returned memory is measured
  Bytes stuck;     // reserved by loads and frees that hang: their real memory is unknown
  Bytes observed;  // growth of the process by loading and running models; at most their charges
  // Measured beyond baseline and observed memory: it did not come back, a model uses more than its charge, or
  // the program allocated it.
  Bytes unaccounted;

  // Takes a reading of the process's memory, made while nothing is loaded or freed. Sessions that run at
  // that time can only make `unaccounted` too large; the next reading corrects it.
  void apply_reading(Bytes measured) {
    const bool is_empty = charged.count == 0 && loading.count == 0 && leaving.count == 0 && stuck.count == 0;
    if (is_empty) baseline = std::min(baseline, measured);
    unaccounted = std::max(Bytes{}, measured - (baseline + observed + stuck));
  }
  Bytes used() const { return baseline + charged + loading + leaving + stuck + unaccounted; }
  Bytes free() const { return budget - margin - used(); }
};

struct LoadedSession {
  std::size_t model = 0;
  std::shared_ptr<void> object;
  Bytes charge, observed;  // MemoryAccount
  bool is_leased = false;
  bool is_discarded = false;  // is freed when it is released
  bool has_run = false;       // or may have run, since the last memory reading
  Nanoseconds idle_since, leased_since;
};

// Failed loads since the last successful one.
struct Failures {
  int count = 0;
  Nanoseconds retry_at;
  std::string message;
};

struct ModelEntry {
  Model model;
  ModelMemory learnt, learnt_additional;  // from the loads so far: first session, additional session
  std::list<LoadedSession> sessions;
  bool is_pinned = false, is_loading = false, has_hung = false, was_loaded = false;
  bool is_claimed = false;                 // a waiting request needs its memory (PoolState::is_withheld)
  Failures failures, failures_additional;  // first session, additional session
  // The learnt size exceeds the budget. At this time the pool forgets it and measures the model anew.
  std::optional<Nanoseconds> forget_at;
  bool is_measured_anew = false;
  int times_too_large = 0;
  Nanoseconds lease_time;  // typical duration of a lease, from the last few; 0: unknown
};

// A waiting request. It lives on its thread's stack.
struct Waiter {
  std::size_t model = 0;
  int priority = 0;
  Nanoseconds arrived;
  std::optional<Nanoseconds> deadline;  // a point in time
  std::int64_t number = 0;              // sequence number among waiting requests
  LoadedSession* session = nullptr;     // granted
  Refusal refusal = Refusal::none;
  std::string message;
  std::condition_variable wakes;
  bool is_answered() const { return session != nullptr || refusal != Refusal::none; }
};

// The next action of the pool's thread.
struct Step {
  enum class Kind { wait, unload, load } kind = Kind::wait;
  std::optional<Nanoseconds> wake_at;  // for `wait`; absent: until something happens
  std::list<LoadedSession> sessions;   // for `unload`
  UnloadCause cause = UnloadCause::evicted;
  std::size_t model = 0;       // for `load`
  bool is_additional = false;  // the model has another session
  std::shared_ptr<void> sibling;
};

// The state of one decision round, which visits the waiters by rank, highest first.
struct DecisionRound {
  Bytes free;                          // minus what waiters of higher rank wait for
  std::optional<Nanoseconds> wake_at;  // time of the next round
  bool may_evict = true;  // false: a waiter of higher rank waits for a better choice of evictions
};

// Returns the time `duration` after `from`. Absent on overflow: that means never.
std::optional<Nanoseconds> point_after(Nanoseconds from, Nanoseconds duration);

struct PoolState {
  explicit PoolState(PoolOptions given);

  std::optional<std::size_t> find(std::string_view name) const;
  // Leases an idle session unless a waiting request has precedence. Null: none.
  LoadedSession* take_ready(std::size_t model, Nanoseconds now);
  // Returns why a request for the model must be refused at once, and sets `message`. `none`: the request may
  // wait.
  Refusal refuse_at_once(ModelEntry& entry, Nanoseconds now, std::string& message);
  void answer(Waiter& waiter, Refusal refusal, std::string message, Nanoseconds now);
  void note_refusal(std::string name, Refusal refusal, std::string message, Nanoseconds took);
  void release(LoadedSession& session, Nanoseconds now);

  // Decides the next step, and moves sessions that it will free out of their models.
  Step next_step(Nanoseconds now);
  // Charges what the step will take, until it is finished or abandoned.
  void begin(const Step& step, Nanoseconds now);
  bool has_waiting_loads() const;
  // When to read the process's memory again, even without a waiter: the process may exceed the budget, so
  // that the pool must evict. Absent: nothing is loaded.
  std::optional<Nanoseconds> reading_due() const;
  // `growth`: how much the process grew during the load; absent if it could not be read, then nothing is
  // learnt. `peak`: peak of that growth; absent if it was not watched.
  void finish_load(const Step& step, Result<std::shared_ptr<void>> made, std::optional<Bytes> growth,
                   std::optional<Bytes> peak, Nanoseconds took, Nanoseconds now);
  void finish_unload(const Step& step, Bytes returned, Nanoseconds took);
  // Moves idle sessions out of their models and removes their charges.
  void unload_idle(std::size_t model);
  std::list<LoadedSession> take_all_idle();
  // Call it if the step in progress takes too long: leaves the step to its thread and counts its memory as
  // stuck. Another thread continues with the next step.
  void abandon_step(Nanoseconds now);
  // Call it if an abandoned step has ended after all. `held`: the bytes that it reserved.
  void finish_abandoned(const Step& step, Bytes held);

  // Takes a reading of the process's memory, made while nothing is loaded or freed.
  void apply_reading(Bytes measured);
  // Makes the pool's thread decide again.
  void wake_loader() {
    must_look = true;
    loader_wakes.notify_one();
  }
  void note_use() { metrics.peak_used = std::max(metrics.peak_used, account.used()); }
  Event event(EventKind kind, std::string model, Nanoseconds took) const;

  mutable std::mutex mutex;
  std::condition_variable loader_wakes, loader_ended, step_ended;
  const PoolOptions options;
  EvictionPolicy policy;
  MemoryAccount account;
  Metrics metrics;
  std::deque<ModelEntry> models;  // waiters and sessions refer to entries by index
  std::vector<Waiter*> waiters;
  std::list<LoadedSession> pending_unloads;  // sessions to be freed: discarded, or unloaded by request
  std::vector<Event> events;                 // to be passed to the observer once the lock is released
  std::int64_t waiters_so_far = 0;
  std::int64_t gathered_waiters = 0;  // waiters with lower numbers are no longer delayed (is_delayed)

  // The thread that loads and frees. A step belongs to the thread whose number is `generation`.
  std::int64_t generation = 0;
  std::optional<Nanoseconds> step_began;
  Step::Kind step_kind = Step::Kind::wait;
  std::string step_names;  // names of the models in the step
  std::size_t step_model = 0;
  UnloadCause step_cause = UnloadCause::evicted;
  std::thread loader;            // the thread with number `generation`
  int threads = 0, hanging = 0;  // all pool threads; threads of abandoned steps
  bool must_look = false;        // something happened since the last decision
  Nanoseconds last_reading;      // time of the last memory reading
  bool is_stopping = false;
  // No step begins while the program grows its baseline or is about to (Pool::grow_baseline()).
  int growths = 0;          // requested calls, including the one in progress
  bool is_growing = false;  // one is in progress

 private:
  void end_step();
  // At least 1 ms: with less, the pool would decide without pause, and waiting would outweigh every
  // priority.
  Nanoseconds patience() const { return std::max(options.patience, Nanoseconds{1'000'000}); }
  ModelMemory memory_of(const ModelEntry& entry, bool is_additional) const;
  Bytes reservation(const ModelEntry& entry, bool is_additional) const;
  Bytes most_for_one() const { return account.budget - account.margin - account.baseline; }
  std::vector<Waiter*> by_rank(Nanoseconds now) const;
  bool ranks_before(const Waiter& a, const Waiter& b, Nanoseconds now) const;
  void grant(ModelEntry& entry, std::size_t model, Nanoseconds now);
  void answer_all(std::size_t model, Refusal refusal, const std::string& message, Nanoseconds now);
  // Whether the model gets no new leases. During a step it gets some: no other load can begin then, and the
  // next round renews the claims.
  bool is_withheld(const ModelEntry& entry) const { return entry.is_claimed && !step_began; }
  bool any_lease() const;
  static Bytes charged_to(const ModelEntry& entry);
  // How many bytes evicting the model's idle sessions frees.
  static Bytes returned_by_idle(const ModelEntry& entry);
  Bytes charged_to_pinned() const;
  // Whether a request has waited long enough to withhold from others the models that it needs evicted.
  bool is_claiming(const Waiter& waiter, Nanoseconds now, DecisionRound& round) const;
  // Models that could be evicted for `model`: of each unpinned other model the idle sessions, or all of
  // them. `with_claimed`: also models that a waiter of higher rank has claimed in this round.
  std::vector<Resident> candidates(std::size_t model, bool with_leased, bool with_claimed = false) const;
  std::vector<Resident> without_waiters(std::vector<Resident> residents) const;
  Step unload_step(const std::vector<std::size_t>& models);
  Step step_for(Waiter& waiter, Nanoseconds now, DecisionRound& round);
  // Whether PoolOptions::load_delay postpones this waiter's evictions.
  bool is_delayed(const Waiter& waiter, Nanoseconds now, DecisionRound& round);
  // Whether to wait for `better`, some of which are leased, instead of evicting `idle` now.
  bool is_worth_waiting(const std::vector<std::size_t>& better, const std::vector<std::size_t>& idle,
                        Nanoseconds now, DecisionRound& round) const;
  void claim(const std::vector<std::size_t>& chosen, const std::vector<Resident>& residents, Bytes missing,
             DecisionRound& round);
  static void lease(LoadedSession& session, Nanoseconds now);
  Step step_beyond_charges(Waiter& waiter, Nanoseconds now, DecisionRound& round);
  Step load_step(std::size_t model, bool is_additional);
  using Sessions = std::list<LoadedSession>;
  static void remove_sessions(Sessions& from, Sessions& to,
                              const std::function<bool(const LoadedSession&)>& leaves);
  void take_idle_sessions(ModelEntry& entry, Step& step, bool also_recent, Nanoseconds now);
  // Frees the discarded sessions; if there are none, those unloaded by request.
  Step pending_unload_step();
  std::string names_of(const Step& step) const;
  Step idle_step(Nanoseconds now, std::optional<Nanoseconds>& wake_at);
  Step step_within_budget();
};

}  // namespace headroom::pool
