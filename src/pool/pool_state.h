// What a pool knows, and what it does next; everything here is called with the pool's lock held, takes the
// time as a value, and neither waits nor loads nor frees. pool.cpp has the threads around it.
#pragma once

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

#include "pool/memory_books.h"
#include "pool/pool.h"

namespace headroom::pool {

struct LoadedSession {
  std::size_t model = 0;
  std::shared_ptr<void> object;
  Bytes charge, seen;  // memory_books.h
  bool is_leased = false;
  bool is_unwanted = false;  // freed when it is released
  bool has_run = false;      // or may have, since the last reading of what the process has
  Nanoseconds idle_since, leased_since;
};

// Of loads, since the last one that succeeded.
struct Failures {
  int count = 0;
  Nanoseconds retry_at;
  std::string message;
};

struct ModelEntry {
  Model model;
  ModelMemory learnt, learnt_next;  // by the loads so far, of a first session and of a further one
  std::list<LoadedSession> sessions;
  bool is_pinned = false, is_loading = false, has_hung = false, was_loaded = false;
  bool is_claimed = false;  // a request that has waited for long needs its memory (PoolState::is_kept_back)
  Failures failures, failures_next;  // of a first session and of a further one
  // What was learnt of it is more than the budget leaves: it is measured anew at this time.
  std::optional<Nanoseconds> forget_at;
  bool is_measured_anew = false;
  int times_too_large = 0;
  Nanoseconds lease_time;  // how long a lease takes, of the last few; 0: not known
};

// A request that waits; lives on its thread's stack.
struct Waiter {
  std::size_t model = 0;
  int priority = 0;
  Nanoseconds arrived;
  std::optional<Nanoseconds> deadline;  // a point in time
  std::int64_t number = 0;              // of requests that waited
  LoadedSession* session = nullptr;     // granted
  Refusal refusal = Refusal::none;
  std::string message;
  std::condition_variable wakes;
  bool is_answered() const { return session != nullptr || refusal != Refusal::none; }
};

// What the pool's thread is to do next.
struct Step {
  enum class Kind { wait, unload, load } kind = Kind::wait;
  std::optional<Nanoseconds> wake_at;  // wait: absent: until something happens
  std::list<LoadedSession> sessions;   // unload
  UnloadCause cause = UnloadCause::evicted;
  std::size_t model = 0;    // load
  bool is_further = false;  // beside another session of it
  std::shared_ptr<void> sibling;
};

// What one look at the waiters has to give, the first in rank first.
struct Room {
  Bytes free;                          // less what an earlier one in rank waits for
  std::optional<Nanoseconds> wake_at;  // to look again
  bool may_evict = true;               // no: an earlier one waits for what is better to give up
};

// The time `duration` after `from`; absent: beyond all times, never.
std::optional<Nanoseconds> point_after(Nanoseconds from, Nanoseconds duration);

struct PoolState {
  explicit PoolState(PoolOptions given);

  std::optional<std::size_t> find(std::string_view name) const;
  // Leases a session that is ready and that no other request is to have before; null: none.
  LoadedSession* take_ready(std::size_t model, Nanoseconds now);
  // Why a request for it is refused at once; none: it is not. `message` says it.
  Refusal refuse_at_once(ModelEntry& entry, Nanoseconds now, std::string& message);
  void answer(Waiter& waiter, Refusal refusal, std::string message, Nanoseconds now);
  void note_refusal(std::string name, Refusal refusal, std::string message, Nanoseconds took);
  void release(LoadedSession& session, Nanoseconds now);
  // The waiter has gone: what was claimed for it is free for others.
  void forget(const Waiter& waiter);

  // Decides, and moves what is to be freed out of the models.
  Step next_step(Nanoseconds now);
  // The books hold what the step will take, until it is finished or given up.
  void begin(const Step& step, Nanoseconds now);
  bool has_waiting_loads() const;
  // When the process is to be read again though nobody waits: what is loaded may have to go. Absent: nothing
  // is.
  std::optional<Nanoseconds> reading_due() const;
  // `growth` of the process by the load; absent: it could not be read, and nothing is learnt. `peak` of it;
  // absent: nobody watched it.
  void finish_load(const Step& step, Result<std::shared_ptr<void>> made, std::optional<Bytes> growth,
                   std::optional<Bytes> peak, Nanoseconds took, Nanoseconds now);
  void finish_unload(const Step& step, Bytes returned, Nanoseconds took);
  // Sessions that nobody uses leave their models; what they were charged is not on the books any more.
  void unload_idle(std::size_t model);
  std::list<LoadedSession> take_all_idle();
  // The step in progress has taken too long: its thread is left to itself.
  void give_up_step(Nanoseconds now);
  // A step that was given up came to its end after all.
  void end_given_up(const Step& step, Bytes held);

  // A reading of what the process has, while nothing is loaded or freed.
  void follow(Bytes measured);
  void note_use() { metrics.peak_used = std::max(metrics.peak_used, books.used()); }
  Event event(EventKind kind, std::string model, Nanoseconds took) const;

  // No step begins while the process takes memory of its own, or is about to (Pool::grow_baseline()). One
  // that takes longer than load_timeout is not waited for.
  bool is_growing(Nanoseconds now);
  void end_growth();

  mutable std::mutex mutex;
  std::condition_variable loader_wakes, loader_ended, step_ended;
  const PoolOptions options;
  EvictionPolicy policy;
  MemoryBooks books;
  Metrics metrics;
  std::deque<ModelEntry> models;  // in place: waiters and sessions refer to them by number
  std::vector<Waiter*> waiters;
  std::list<LoadedSession> unwanted;  // discarded, to be freed
  std::vector<Event> events;          // to be told once the lock is released
  std::int64_t waiters_so_far = 0;
  std::int64_t gathered_waiters = 0;  // those with lower numbers are no longer delayed

  // The thread that loads and frees: a step belongs to the thread whose number is `generation`.
  std::int64_t generation = 0;
  std::optional<Nanoseconds> step_began;
  Step::Kind step_kind = Step::Kind::wait;
  std::string step_names;  // of its models
  std::size_t step_model = 0;
  UnloadCause step_cause = UnloadCause::evicted;
  std::thread loader;            // the one of `generation`
  bool lacks_loader = false;     // it could not be started
  int threads = 0, hanging = 0;  // of the pool; those of steps that were given up
  bool must_look = false;        // something happened since the last decision
  Nanoseconds last_reading;      // of what the process has
  bool is_stopping = false;
  int growths = 0;  // that are wanted, the one in progress included
  std::optional<Nanoseconds> growth_began;
  std::int64_t growth_number = 0;  // of the one in progress

 private:
  void end_step();
  // Less would be spent looking, and would make priorities worth nothing.
  Nanoseconds patience() const { return std::max(options.patience, Nanoseconds{1'000'000}); }
  ModelMemory memory_of(const ModelEntry& entry, bool is_further) const;
  Bytes reservation(const ModelEntry& entry, bool is_further) const;
  Bytes most_for_one() const { return books.budget - books.margin - books.baseline; }
  std::vector<Waiter*> by_rank(Nanoseconds now) const;
  bool ranks_before(const Waiter& a, const Waiter& b, Nanoseconds now) const;
  void grant(ModelEntry& entry, std::size_t model, Nanoseconds now);
  void answer_all(std::size_t model, Refusal refusal, const std::string& message, Nanoseconds now);
  // No new leases of it. Not while something is loaded or freed: nothing could be loaded in its place
  // meanwhile, and the look after that claims anew.
  bool is_kept_back(const ModelEntry& entry) const { return entry.is_claimed && !step_began; }
  bool any_lease() const;
  bool is_idle(const LoadedSession& session) const { return !session.is_leased; }
  static Bytes charged_to(const ModelEntry& entry);
  // What giving up its sessions that nobody uses makes free.
  static Bytes returned_by_idle(const ModelEntry& entry);
  Bytes charged_to_pinned() const;
  // Whether a request has waited long enough to keep others from what it needs.
  bool is_claiming(const Waiter& waiter, Nanoseconds now, Room& room) const;
  // What could be given up for `model`: of each unpinned other model the sessions that nobody uses, or all.
  // `with_claimed`: also what an earlier waiter of this look is to have.
  std::vector<Resident> candidates(std::size_t model, bool with_leased, bool with_claimed = false) const;
  std::vector<Resident> without_waiters(std::vector<Resident> residents) const;
  Step unload_of(const std::vector<std::size_t>& models);
  Step step_for(Waiter& waiter, Nanoseconds now, Room& room);
  // Whether to wait for `better`, of which some are leased, rather than to give up `idle` now.
  bool is_delayed(const Waiter& waiter, Nanoseconds now, Room& room);
  bool is_worth_waiting(const std::vector<std::size_t>& better, const std::vector<std::size_t>& idle,
                        Nanoseconds now, Room& room) const;
  void claim(const std::vector<std::size_t>& chosen, const std::vector<Resident>& residents, Bytes missing,
             Room& room);
  static void lease(LoadedSession& session, Nanoseconds now);
  Step step_beyond_charges(Waiter& waiter, Nanoseconds now, Room& room);
  Step load_step(std::size_t model, bool is_further);
  using Sessions = std::list<LoadedSession>;
  static void move_out(Sessions& from, Sessions::iterator session, Sessions& to);
  void take_out(ModelEntry& entry, Step& step, bool also_recent, Nanoseconds now);
  // What was discarded, or else what was asked to go.
  Step unwanted_step();
  std::string names_of(const Step& step) const;
  Step idle_step(Nanoseconds now, std::optional<Nanoseconds>& wake_at);
  Step step_within_budget();
};

}  // namespace headroom::pool
