#include "pool/pool.h"

#include <fmt/format.h>
#include <malloc.h>

#include <chrono>
#include <exception>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "headroom/scope.h"
#include "pool/pool_state.h"

namespace headroom::pool {
namespace {

using Lock = std::unique_lock<std::mutex>;

constexpr Nanoseconds kThreadRetryDelay{100'000'000};  // when starting the pool's thread failed

// Passes the recorded events to the observer, without the lock; locks it again afterwards.
void notify_observer(PoolState& state, Lock& lock) {
  while (!state.events.empty()) {
    const std::vector<Event> events = std::exchange(state.events, {});
    if (!state.options.observer) continue;
    lock.unlock();
    for (const Event& event : events) state.options.observer(event);
    lock.lock();
  }
}

// On Linux, steady_clock and monotonic_now() read the same clock.
void wait(std::condition_variable& wakes, Lock& lock, std::optional<Nanoseconds> until) {
  using TimePoint = std::chrono::steady_clock::time_point;
  if (!until) return wakes.wait(lock);
  wakes.wait_until(lock, TimePoint(std::chrono::nanoseconds(until->count)));
}

Result<std::shared_ptr<void>> load_guarded(const Model& model, const std::shared_ptr<void>& sibling) {
  try {
    const Scope scope(("load " + model.name).c_str());  // in a recording of headroom trace
    auto made = model.load(sibling);
    if (made && *made == nullptr) return failure("loading " + model.name + " returned no session");
    return made;
  } catch (const std::exception& exception) {
    return failure("cannot load " + model.name, exception.what());
  } catch (...) {
    return failure("cannot load " + model.name, "it threw a value that is not a std::exception");
  }
}

void do_load(PoolState& state, Lock& lock, Step& step, std::int64_t generation) {
  const Model& model = state.models[step.model].model;
  const Bytes held = state.account.loading;
  lock.unlock();
  const Nanoseconds began = monotonic_now();
  const std::optional<Bytes> before = state.options.meter.read();
  std::function<Bytes()> peak;
  if (model.memory.load_peak.count == 0 && state.options.meter.watch_peak)
    peak = state.options.meter.watch_peak();
  auto made = load_guarded(model, step.sibling);
  step.sibling.reset();
  const std::optional<Bytes> peak_growth = peak ? std::optional(peak()) : std::nullopt;
  const Nanoseconds now = monotonic_now();
  ::malloc_trim(0);  // return memory that only the load needed
  const std::optional<Bytes> after = state.options.meter.read();
  std::optional<Bytes> growth;
  if (before && after) growth = *after - *before;
  lock.lock();
  if (after) state.metrics.measured = *after;
  if (generation == state.generation) {
    state.finish_load(step, std::move(made), growth, peak_growth, now - began, now);
    return;
  }
  lock.unlock();
  made = failure("too late");  // frees the session
  ::malloc_trim(0);
  lock.lock();
  state.finish_abandoned(step, held);
}

void do_unload(PoolState& state, Lock& lock, Step& step, std::int64_t generation) {
  const Bytes held = state.account.leaving;
  lock.unlock();
  const Nanoseconds began = monotonic_now();
  const std::optional<Bytes> before = state.options.meter.read();
  for (LoadedSession& session : step.sessions) session.object.reset();
  ::malloc_trim(0);
  const std::optional<Bytes> after = state.options.meter.read();
  const Nanoseconds took = monotonic_now() - began;
  lock.lock();
  if (generation != state.generation) {
    state.finish_abandoned(step, held);
    return;
  }
  state.finish_unload(step, before && after ? *before - *after : Bytes{}, took);
  if (after) state.apply_reading(*after);
}

// At shutdown: frees the idle sessions, as a normal step.
void free_all(PoolState& state, Lock& lock, std::int64_t generation) {
  Step step;
  step.kind = Step::Kind::unload;
  step.cause = UnloadCause::end;
  step.sessions = state.take_all_idle();
  if (step.sessions.empty()) return;
  state.begin(step, monotonic_now());
  do_unload(state, lock, step, generation);
  notify_observer(state, lock);
}

// The pool's thread. It decides with the lock held and acts without it. It shares ownership of the state,
// because a hanging step may outlive the pool.
void run_loader(const std::shared_ptr<PoolState>& kept, std::int64_t generation) {
  PoolState& state = *kept;
  Lock lock(state.mutex);
  while (!state.is_stopping && generation == state.generation) {
    state.must_look = false;
    if (state.growths > 0) {
      state.loader_wakes.wait(lock);
      continue;
    }
    const auto due = state.reading_due();
    if (state.has_waiting_loads() || (due && monotonic_now() >= *due)) {
      lock.unlock();
      const std::optional<Bytes> measured = state.options.meter.read();
      lock.lock();
      if (state.is_stopping || generation != state.generation) break;
      if (state.growths > 0) continue;  // a growth began during the reading
      if (measured) state.apply_reading(*measured);
      state.last_reading =
          monotonic_now();  // a failed reading, too, is repeated only after the usual interval
    }
    Step step = state.next_step(monotonic_now());
    if (step.kind == Step::Kind::load) do_load(state, lock, step, generation);
    if (step.kind == Step::Kind::unload) do_unload(state, lock, step, generation);
    notify_observer(state, lock);
    if (step.kind == Step::Kind::wait && !state.must_look && !state.is_stopping &&
        generation == state.generation) {
      std::optional<Nanoseconds> until = step.wake_at;
      if (const auto next = state.reading_due()) until = until ? std::min(*until, *next) : next;
      wait(state.loader_wakes, lock, until);
    }
  }
  if (state.is_stopping && generation == state.generation) free_all(state, lock, generation);
  --state.threads;
  state.loader_ended.notify_all();
}

// Returns no thread if the system cannot start one now.
std::thread start_loader(const std::shared_ptr<PoolState>& state, std::int64_t generation) {
  try {
    std::thread started(run_loader, state, generation);
    ++state->threads;
    return started;
  } catch (const std::system_error&) {
    return {};
  }
}

bool is_hanging(const PoolState& state, Nanoseconds now) {
  return state.step_began && now - *state.step_began >= state.options.load_timeout;
}

// Abandons the thread of a step that takes too long and starts another thread. If no thread can be started,
// the next call tries again. During shutdown only shut_down() may do this: no other thread would join the new
// one.
void check_for_hang(const std::shared_ptr<PoolState>& state, Nanoseconds now) {
  if (state->is_stopping || !is_hanging(*state, now)) return;
  std::thread next = start_loader(state, state->generation + 1);
  if (!next.joinable()) return;
  state->abandon_step(now);
  state->loader.detach();
  state->loader = std::move(next);
}

std::string deadline_message(const PoolState& state, const Waiter& waiter, Nanoseconds waited) {
  const ModelEntry& entry = state.models[waiter.model];
  const char* why = entry.is_loading          ? "it is still loading"
                    : !entry.sessions.empty() ? "all its sessions are in use"
                                              : "not enough memory was free";
  return fmt::format("{} was not ready within {}: {}", entry.model.name, format_duration(waited), why);
}

// Waits until the request is answered or its deadline has passed.
void wait_for_answer(const std::shared_ptr<PoolState>& state, Lock& lock, Waiter& waiter) {
  state->waiters.push_back(&waiter);
  state->wake_loader();
  Nanoseconds now = monotonic_now();
  while (!waiter.is_answered()) {
    if (waiter.deadline && now >= *waiter.deadline) {
      state->answer(waiter, Refusal::deadline, deadline_message(*state, waiter, now - waiter.arrived), now);
      state->wake_loader();  // the models that it claimed become free for others
      break;
    }
    std::optional<Nanoseconds> until =
        point_after(state->step_began.value_or(now), state->options.load_timeout);
    if (is_hanging(*state, now)) until = now + kThreadRetryDelay;
    if (waiter.deadline) until = until ? std::min(*until, *waiter.deadline) : *waiter.deadline;
    wait(waiter.wakes, lock, until);
    now = monotonic_now();
    check_for_hang(state, now);
  }
  state->metrics.wait_time += now - waiter.arrived;
}

}  // namespace

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  release();
  held_ = std::exchange(other.held_, {});
  return *this;
}

void* Lease::session() const { return held_.session == nullptr ? nullptr : held_.session->object.get(); }

void Lease::release() {
  if (held_.session == nullptr) return;
  std::shared_ptr<void> last;  // freed after the lock is released
  {
    const Lock lock(held_.state->mutex);
    if (held_.state->is_stopping) last = std::move(held_.session->object);
    held_.state->release(*std::exchange(held_.session, nullptr), monotonic_now());
  }
  held_.state.reset();
}

void Lease::discard() {
  if (held_.session == nullptr) return;
  {
    const Lock lock(held_.state->mutex);
    held_.session->is_discarded = true;
  }
  release();
}

Pool::Pool(PoolOptions options) {
  if (options.meter.is_empty()) options.meter = process_meter();
  state_ = std::make_shared<PoolState>(std::move(options));
  const std::optional<Bytes> measured = state_->options.meter.read();
  if (!measured) throw std::runtime_error("cannot read this process's memory: is /proc mounted?");
  const Lock lock(state_->mutex);
  state_->account.baseline = state_->metrics.measured = *measured;
  state_->note_use();
  state_->loader = start_loader(state_, state_->generation);
  if (!state_->loader.joinable())
    throw std::runtime_error("cannot start the pool's thread: too many are running");
}

Pool::~Pool() { shut_down(); }

void Pool::shut_down() {
  Lock lock(state_->mutex);
  if (state_->is_stopping) return;
  state_->is_stopping = true;
  const Nanoseconds began = monotonic_now();
  for (Waiter* waiter : std::vector<Waiter*>(state_->waiters))
    state_->answer(*waiter, Refusal::shut_down, "the pool is being shut down", began);
  state_->loader_wakes.notify_all();
  // Abandoned threads are not waited for: they share ownership of the state. If a load hangs now, another
  // thread frees the idle sessions. If a free hangs, too, the shutdown ends without it.
  while (state_->threads > state_->hanging) {
    const Nanoseconds now = monotonic_now();
    const bool was_load = state_->step_kind == Step::Kind::load;
    if (is_hanging(*state_, now)) {
      state_->abandon_step(now);
      state_->loader.detach();
      if (was_load) state_->loader = start_loader(state_, state_->generation);
      if (!state_->loader.joinable()) break;
    }
    wait(state_->loader_ended, lock,
         point_after(state_->step_began.value_or(now), state_->options.load_timeout));
  }
  notify_observer(*state_, lock);
  std::thread loader = std::move(state_->loader);
  lock.unlock();
  if (loader.joinable()) loader.join();
}

void Pool::grow_baseline(const std::function<void()>& grow) {
  PoolState& state = *state_;
  Lock lock(state.mutex);
  ++state.growths;
  while (state.is_growing || state.step_began) {
    std::optional<Nanoseconds> until;
    if (state.step_began) until = point_after(*state.step_began, state.options.load_timeout);
    wait(state.step_ended, lock, until);
    check_for_hang(state_, monotonic_now());
  }
  state.is_growing = true;
  lock.unlock();
  std::exception_ptr thrown;
  const std::optional<Bytes> before = state.options.meter.read();
  try {
    grow();
  } catch (...) {
    thrown = std::current_exception();
  }
  const std::optional<Bytes> after = state.options.meter.read();
  lock.lock();
  if (before && after)
    state.account.baseline = std::max(Bytes{}, state.account.baseline + (*after - *before));
  state.is_growing = false;
  --state.growths;
  state.step_ended.notify_all();
  state.loader_wakes.notify_one();
  lock.unlock();
  if (thrown) std::rethrow_exception(thrown);
}

Status Pool::add(Model model) {
  if (!model.load) return internal_error("cannot add " + model.name, "it has no load function");
  const Lock lock(state_->mutex);
  if (state_->find(model.name))
    return usage_error("cannot add " + model.name, "the pool already has a model of this name",
                       "use another name");
  state_->models.emplace_back();
  state_->models.back().model = std::move(model);
  return {};
}

Lease Pool::get(std::string_view name, const Request& request, bool is_preload) {
  Lease lease;
  const std::shared_ptr<PoolState> state = state_;  // the Pool may be destroyed before a waiter is answered
  Lock lock(state->mutex);
  const Nanoseconds began = monotonic_now();
  check_for_hang(state, began);
  if (!is_preload) ++state->metrics.requests;
  const auto ends_with = [&](Refusal refusal, std::string message, LoadedSession* session = nullptr) {
    lease.held_.refusal = refusal;
    lease.held_.message = std::move(message);
    lease.held_.session = session;
    if (session != nullptr) lease.held_.state = state;
    notify_observer(*state, lock);
    return std::move(lease);
  };
  const auto refuse = [&](Refusal refusal, std::string message) {
    state->note_refusal(std::string(name), refusal, message, monotonic_now() - began);
    return ends_with(refusal, std::move(message));
  };
  const auto model = state->find(name);
  if (!model) return refuse(Refusal::unknown_model, fmt::format("the pool has no model named {}", name));
  if (is_preload && !state->is_stopping && !state->models[*model].sessions.empty())
    return ends_with(Refusal::none, "");  // loaded already, whether idle or leased
  state->policy.requested(*model);        // a preload counts, too: the model will be used soon
  if (!state->is_stopping)
    if (LoadedSession* ready = state->take_ready(*model, began)) {
      if (!is_preload) ++state->metrics.hits;
      lease.held_.was_ready = true;
      return ends_with(Refusal::none, "", ready);
    }
  std::string message;
  if (const Refusal refusal = state->refuse_at_once(state->models[*model], began, message);
      refusal != Refusal::none)
    return refuse(refusal, std::move(message));
  Waiter waiter;
  waiter.model = *model;
  waiter.priority = request.priority;
  waiter.arrived = began;
  if (request.deadline) waiter.deadline = point_after(began, *request.deadline);
  waiter.number = state->waiters_so_far++;
  if (request.deadline && request.deadline->count <= 0)
    return refuse(Refusal::deadline, fmt::format("{} is not ready", name));
  if (!is_preload) ++state->metrics.waits;
  wait_for_answer(state, lock, waiter);
  return ends_with(waiter.refusal, std::move(waiter.message), waiter.session);
}

Lease Pool::acquire(std::string_view model, const Request& request) { return get(model, request, false); }

Status Pool::preload(std::string_view model, const Request& request) {
  const Lease lease = get(model, request, true);
  if (lease.refusal() == Refusal::none) return {};
  return failure("cannot preload " + std::string(model), lease.message());
}

bool Pool::pin(std::string_view model, bool pinned) {
  const Lock lock(state_->mutex);
  const auto found = state_->find(model);
  if (found) state_->models[*found].is_pinned = pinned;
  if (found && !pinned) state_->wake_loader();
  return found.has_value();
}

bool Pool::unload(std::string_view model) {
  const Lock lock(state_->mutex);
  const auto found = state_->find(model);
  if (!found) return false;
  state_->unload_idle(*found);
  return true;
}

Metrics Pool::metrics() const {
  const Lock lock(state_->mutex);
  Metrics metrics = state_->metrics;
  const MemoryAccount& account = state_->account;
  metrics.budget = account.budget;
  metrics.used = account.used();
  metrics.resident = account.charged;
  metrics.loading = account.loading;
  metrics.unaccounted = account.unaccounted;
  metrics.stuck = account.stuck;
  return metrics;
}

}  // namespace headroom::pool
