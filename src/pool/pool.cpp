#include "pool/pool.h"

#include <fmt/format.h>
#include <malloc.h>

#include <chrono>
#include <exception>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "headroom/scope.h"
#include "pool/pool_state.h"

namespace headroom::pool {
namespace {

using Lock = std::unique_lock<std::mutex>;

constexpr Nanoseconds kStartsAgain{100'000'000};  // a thread that could not be started
using TimePoint = std::chrono::steady_clock::time_point;

// Both count from the same moment on Linux.
TimePoint time_point(Nanoseconds time) { return TimePoint(std::chrono::nanoseconds(time.count)); }

// Tells the observer what has happened; without the lock, which is held again afterwards.
void tell(PoolState& state, Lock& lock) {
  while (!state.events.empty()) {
    const std::vector<Event> events = std::exchange(state.events, {});
    if (!state.options.observer) continue;
    lock.unlock();
    for (const Event& event : events) state.options.observer(event);
    lock.lock();
  }
}

void wait(std::condition_variable& wakes, Lock& lock, std::optional<Nanoseconds> until) {
  if (until)
    wakes.wait_until(lock, time_point(*until));
  else
    wakes.wait(lock);
}

Result<std::shared_ptr<void>> load_guarded(const Model& model, const std::shared_ptr<void>& sibling) {
  try {
    const Scope scope(("load " + model.name).c_str());  // in a recording of headroom trace
    auto made = model.load(sibling);
    if (made && *made == nullptr) return failure("loading " + model.name + " gave nothing");
    return made;
  } catch (const std::exception& exception) {
    return failure("cannot load " + model.name, exception.what());
  } catch (...) {
    return failure("cannot load " + model.name, "it threw something that is no exception");
  }
}

// What the process has; absent: it cannot be read, for want of a file descriptor, say.
std::optional<Bytes> measure(const PoolState& state) { return state.options.meter.read(); }

void do_load(PoolState& state, Lock& lock, Step& step, std::int64_t generation) {
  const Model& model = state.models[step.model].model;
  const Bytes held = state.books.loading;
  lock.unlock();
  const Nanoseconds began = monotonic_now();
  const std::optional<Bytes> before = measure(state);
  std::function<Bytes()> peak;
  if (model.memory.load_peak.count == 0 && state.options.meter.watch_peak)
    peak = state.options.meter.watch_peak();
  auto made = load_guarded(model, step.sibling);
  step.sibling.reset();
  const std::optional<Bytes> peak_growth = peak ? std::optional(peak()) : std::nullopt;
  const Nanoseconds now = monotonic_now();
  ::malloc_trim(0);  // what was needed to load it alone
  const std::optional<Bytes> after = measure(state);
  std::optional<Bytes> growth;
  if (before && after) growth = *after - *before;
  lock.lock();
  if (after) state.metrics.measured = *after;
  if (generation == state.generation) {
    state.finish_load(step, std::move(made), growth, peak_growth, now - began, now);
    return;
  }
  lock.unlock();
  made = failure("too late");  // frees it
  ::malloc_trim(0);
  lock.lock();
  state.end_given_up(step, held);
}

void do_unload(PoolState& state, Lock& lock, Step& step, std::int64_t generation) {
  const Bytes held = state.books.leaving;
  lock.unlock();
  const Nanoseconds began = monotonic_now();
  const std::optional<Bytes> before = measure(state);
  for (LoadedSession& session : step.sessions) session.object.reset();
  ::malloc_trim(0);
  const std::optional<Bytes> after = measure(state);
  const Nanoseconds took = monotonic_now() - began;
  lock.lock();
  if (generation != state.generation) {
    state.end_given_up(step, held);
    return;
  }
  state.finish_unload(step, before && after ? *before - *after : Bytes{}, took);
  if (after) state.follow(*after);
}

// The end of the pool: what nobody uses is freed, as a step like others.
void free_all(PoolState& state, Lock& lock, std::int64_t generation) {
  Step step;
  step.kind = Step::Kind::unload;
  step.cause = UnloadCause::end;
  step.sessions = state.take_all_idle();
  if (step.sessions.empty()) return;
  state.begin(step, monotonic_now());
  do_unload(state, lock, step, generation);
  tell(state, lock);
}

// The pool's thread. Everything is decided under the lock and done without it.
// It keeps the state, which a step that hangs outlives the pool with.
void run_loader(const std::shared_ptr<PoolState>& kept, std::int64_t generation) {
  PoolState& state = *kept;
  Lock lock(state.mutex);
  while (!state.is_stopping && generation == state.generation) {
    state.must_look = false;
    if (state.is_growing(monotonic_now())) {
      const auto until =
          state.growth_began ? point_after(*state.growth_began, state.options.load_timeout) : std::nullopt;
      wait(state.loader_wakes, lock, until);
      continue;
    }
    const auto due = state.reading_due();
    if (state.has_waiting_loads() || (due && monotonic_now() >= *due)) {
      lock.unlock();
      const std::optional<Bytes> measured = measure(state);
      lock.lock();
      if (state.is_stopping || generation != state.generation) break;
      if (state.is_growing(monotonic_now())) continue;  // since then
      if (measured) state.follow(*measured);
      state.last_reading = monotonic_now();  // one that is not to be had is tried again as late
    }
    Step step = state.next_step(monotonic_now());
    if (step.kind == Step::Kind::load) do_load(state, lock, step, generation);
    if (step.kind == Step::Kind::unload) do_unload(state, lock, step, generation);
    tell(state, lock);
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

// False: the system has no thread for it now.
bool start_loader(const std::shared_ptr<PoolState>& state) {
  try {
    state->loader = std::thread(run_loader, state, state->generation);
  } catch (const std::system_error&) {
    state->lacks_loader = true;
    return false;
  }
  state->lacks_loader = false;
  ++state->threads;
  return true;
}

// Where the step in progress has taken too long its thread is left to itself, and another one takes over. At
// the pool's end that is for shut_down() alone: nobody would join a thread that is started after it.
void check_for_hang(const std::shared_ptr<PoolState>& state, Nanoseconds now) {
  if (state->is_stopping) return;
  if (state->step_began && now - *state->step_began >= state->options.load_timeout) {
    state->give_up_step(now);
    state->loader.detach();
    state->lacks_loader = true;
  }
  if (state->lacks_loader) start_loader(state);
}

std::string words_for_deadline(const PoolState& state, const Waiter& waiter, Nanoseconds waited) {
  const ModelEntry& entry = state.models[waiter.model];
  const char* why = entry.is_loading          ? "it is still being loaded"
                    : !entry.sessions.empty() ? "its sessions are all in use"
                                              : "there was no room for it yet";
  return fmt::format("{} was not ready within {}: {}", entry.model.name, format_duration(waited), why);
}

// A waiter among those who wait. Whatever is thrown meanwhile, nobody keeps its address, and a session that
// it was given is given back.
class WaitsInLine {
 public:
  WaitsInLine(PoolState& state, Waiter& waiter) : state_(state), waiter_(waiter) {
    state_.waiters.push_back(&waiter);
  }
  WaitsInLine(const WaitsInLine&) = delete;
  ~WaitsInLine() {
    if (is_told_) return;
    state_.forget(waiter_);
    if (waiter_.session != nullptr) state_.release(*waiter_.session, monotonic_now());
  }
  void is_told() { is_told_ = true; }

 private:
  PoolState& state_;
  Waiter& waiter_;
  bool is_told_ = false;
};

// Waits until the request is answered or its deadline has passed.
void wait_for_answer(const std::shared_ptr<PoolState>& state, Lock& lock, Waiter& waiter) {
  WaitsInLine line(*state, waiter);
  state->must_look = true;
  state->loader_wakes.notify_one();
  Nanoseconds now = monotonic_now();
  while (!waiter.is_answered()) {
    if (waiter.deadline && now >= *waiter.deadline) {
      const std::string words = words_for_deadline(*state, waiter, now - waiter.arrived);
      state->forget(waiter);
      state->note_refusal(state->models[waiter.model].model.name, Refusal::deadline, words,
                          now - waiter.arrived);
      waiter.refusal = Refusal::deadline;
      waiter.message = words;
      break;
    }
    std::optional<Nanoseconds> until =
        point_after(state->step_began.value_or(now), state->options.load_timeout);
    if (state->lacks_loader) until = now + kStartsAgain;
    if (waiter.deadline) until = until ? std::min(*until, *waiter.deadline) : *waiter.deadline;
    wait(waiter.wakes, lock, until);
    now = monotonic_now();
    check_for_hang(state, now);
  }
  state->metrics.wait_time += now - waiter.arrived;
  line.is_told();
}

}  // namespace

Lease::Lease(Lease&& other) noexcept
    : state_(std::move(other.state_)),
      session_(std::exchange(other.session_, nullptr)),
      was_ready_(other.was_ready_),
      refusal_(other.refusal_),
      message_(std::move(other.message_)) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  release();
  state_ = std::move(other.state_);
  session_ = std::exchange(other.session_, nullptr);
  was_ready_ = other.was_ready_;
  refusal_ = other.refusal_;
  message_ = std::move(other.message_);
  return *this;
}

void* Lease::session() const { return session_ == nullptr ? nullptr : session_->object.get(); }

void Lease::release() {
  if (session_ == nullptr) return;
  std::shared_ptr<void> last;  // freed behind the lock
  {
    const Lock lock(state_->mutex);
    if (state_->is_stopping) last = std::move(session_->object);
    state_->release(*std::exchange(session_, nullptr), monotonic_now());
  }
  state_.reset();
}

void Lease::discard() {
  if (session_ == nullptr) return;
  {
    const Lock lock(state_->mutex);
    session_->is_unwanted = true;
  }
  release();
}

Pool::Pool(PoolOptions options) {
  if (options.meter.is_empty()) options.meter = process_meter();
  state_ = std::make_shared<PoolState>(std::move(options));
  const std::optional<Bytes> measured = measure(*state_);
  if (!measured) throw std::runtime_error("cannot read what this process has: is /proc mounted?");
  const Lock lock(state_->mutex);
  state_->books.baseline = state_->metrics.measured = *measured;
  state_->note_use();
  if (!start_loader(state_)) throw std::runtime_error("cannot start the pool's thread: too many are running");
}

Pool::~Pool() { shut_down(); }

void Pool::shut_down() {
  Lock lock(state_->mutex);
  if (state_->is_stopping) return;
  state_->is_stopping = true;
  const Nanoseconds began = monotonic_now();
  if (state_->lacks_loader) start_loader(state_);  // who frees what is loaded
  for (Waiter* waiter : std::vector<Waiter*>(state_->waiters))
    state_->answer(*waiter, Refusal::shut_down, "the pool is being shut down", began);
  state_->loader_wakes.notify_all();
  // Threads whose step was given up are not waited for: they hold the state, and end with it. After one load
  // that hangs another thread frees what it can; a free that hangs, too, is the end.
  while (state_->threads > state_->hanging) {
    const Nanoseconds now = monotonic_now();
    const bool was_load = state_->step_kind == Step::Kind::load;
    if (state_->step_began && now - *state_->step_began >= state_->options.load_timeout) {
      state_->give_up_step(now);
      state_->loader.detach();
      if (!was_load || !start_loader(state_)) break;
    }
    wait(state_->loader_ended, lock,
         point_after(state_->step_began.value_or(now), state_->options.load_timeout));
  }
  tell(*state_, lock);
  std::thread loader = std::move(state_->loader);
  lock.unlock();
  if (loader.joinable()) loader.join();
}

void Pool::grow_baseline(const std::function<void()>& grow) {
  PoolState& state = *state_;
  Lock lock(state.mutex);
  ++state.growths;
  for (;;) {
    const Nanoseconds now = monotonic_now();
    check_for_hang(state_, now);
    state.is_growing(now);
    const auto began = state.step_began ? state.step_began : state.growth_began;
    if (!began) break;
    wait(state.step_ended, lock, point_after(*began, state.options.load_timeout));
  }
  state.growth_began = monotonic_now();
  const std::int64_t number = state.growth_number;
  state.loader_wakes.notify_one();  // it knows now for how long it waits
  lock.unlock();
  std::exception_ptr thrown;
  const std::optional<Bytes> before = measure(state);
  try {
    grow();
  } catch (...) {
    thrown = std::current_exception();
  }
  const std::optional<Bytes> after = measure(state);
  lock.lock();
  if (number == state.growth_number) {  // else loads went on beside it, and nobody knows whose the memory is
    state.end_growth();
    if (before && after) state.books.baseline = std::max(Bytes{}, state.books.baseline + (*after - *before));
  }
  lock.unlock();
  if (thrown) std::rethrow_exception(thrown);
}

Status Pool::add(Model model) {
  if (!model.load) return internal_error("cannot add " + model.name, "nothing says how it is loaded");
  const Lock lock(state_->mutex);
  if (state_->find(model.name))
    return usage_error("cannot add " + model.name, "the pool has a model of this name",
                       "give each its own name");
  state_->models.emplace_back();
  state_->models.back().model = std::move(model);
  return {};
}

Lease Pool::get(std::string_view name, const Request& request, bool is_preload) {
  Lease lease;
  const std::shared_ptr<PoolState> state = state_;  // this may be gone when a waiter is answered
  Lock lock(state->mutex);
  const Nanoseconds began = monotonic_now();
  check_for_hang(state, began);
  if (!is_preload) ++state->metrics.requests;
  const auto ends_with = [&](Refusal refusal, std::string message) {
    lease.refusal_ = refusal;
    lease.message_ = std::move(message);
    tell(*state, lock);
    return std::move(lease);
  };
  const auto refuse = [&](Refusal refusal, std::string message) {
    state->note_refusal(std::string(name), refusal, message, monotonic_now() - began);
    return ends_with(refusal, std::move(message));
  };
  const auto model = state->find(name);
  if (!model) return refuse(Refusal::unknown_model, fmt::format("the pool has no model named {}", name));
  const auto give = [&](LoadedSession* session) {
    lease.state_ = state;
    lease.session_ = session;
    tell(*state, lock);
    return std::move(lease);
  };
  if (is_preload && !state->is_stopping && !state->models[*model].sessions.empty())
    return ends_with(Refusal::none, "");  // it is loaded, whoever uses it
  state->policy.requested(*model);        // a preload, too: it is about to be used
  if (!state->is_stopping)
    if (LoadedSession* ready = state->take_ready(*model, began)) {
      if (!is_preload) ++state->metrics.hits;
      lease.was_ready_ = true;
      return give(ready);
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
  if (waiter.session == nullptr) return ends_with(waiter.refusal, std::move(waiter.message));
  return give(waiter.session);
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
  if (found && !pinned) {
    state_->must_look = true;
    state_->loader_wakes.notify_one();
  }
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
  const MemoryBooks& books = state_->books;
  metrics.budget = books.budget;
  metrics.used = books.used();
  metrics.resident = books.charged;
  metrics.loading = books.loading;
  metrics.unaccounted = books.unaccounted;
  metrics.stuck = books.stuck;
  return metrics;
}

}  // namespace headroom::pool
