#include "pool/pool.h"

#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "pool/pool_state.h"
#include "pool/process_bytes.h"
#include "sources/process_memory.h"

namespace headroom::pool {
namespace {

using Lock = std::unique_lock<std::mutex>;
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
    auto made = model.load(sibling);
    if (made && *made == nullptr) return failure("loading " + model.name + " gave nothing");
    return made;
  } catch (const std::exception& exception) {
    return failure("cannot load " + model.name, exception.what());
  } catch (...) {
    return failure("cannot load " + model.name, "it threw something that is no exception");
  }
}

// Sets the kernel's peak back, and tells how far above `before` it has been since. The peak is of all that
// the process has, so with sessions running meanwhile it is an upper bound.
class PeakOfLoad {
 public:
  explicit PeakOfLoad(bool is_wanted)
      : is_wanted_(is_wanted && sources::reset_peak_rss(::getpid())),
        before_(is_wanted_ ? resident() : Bytes{}) {}
  Bytes growth() const {
    if (!is_wanted_) return {};
    const auto memory = sources::read_process_memory(::getpid(), sources::ProcessDetail::status);
    return std::max(Bytes{}, memory.rss_peak.value_or(Bytes{}) - before_);
  }

 private:
  static Bytes resident() {
    return sources::read_process_memory(::getpid(), sources::ProcessDetail::status).rss.value_or(Bytes{});
  }
  bool is_wanted_;
  Bytes before_;
};

void do_load(PoolState& state, Lock& lock, Step& step, std::int64_t generation) {
  const Model& model = state.models[step.model].model;
  const Bytes held = state.books.loading;
  lock.unlock();
  const Nanoseconds began = monotonic_now();
  const Bytes before = state.options.measure();
  const PeakOfLoad peak(model.memory.load_peak.count == 0);
  auto made = load_guarded(model, step.sibling);
  step.sibling.reset();
  const Bytes peak_growth = peak.growth();
  const Nanoseconds now = monotonic_now();
  ::malloc_trim(0);  // what was needed to load it alone
  const Bytes growth = state.options.measure() - before;
  lock.lock();
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
  const Bytes before = state.options.measure();
  for (LoadedSession& session : step.sessions) session.object.reset();
  ::malloc_trim(0);
  const Bytes after = state.options.measure();
  const Nanoseconds took = monotonic_now() - began;
  lock.lock();
  if (generation == state.generation) {
    state.finish_unload(step, before - after, took);
    state.books.follow(after);
    state.metrics.measured = after;
  } else {
    state.end_given_up(step, held);
  }
}

// The pool's thread. Everything is decided under the lock and done without it.
// It keeps the state, which a step that hangs outlives the pool with.
void run_loader(const std::shared_ptr<PoolState>& kept, std::int64_t generation) {
  PoolState& state = *kept;
  Lock lock(state.mutex);
  while (!state.is_stopping && generation == state.generation) {
    state.must_look = false;
    if (state.has_waiting_loads()) {
      lock.unlock();
      const Bytes measured = state.options.measure();
      lock.lock();
      if (state.is_stopping || generation != state.generation) break;
      state.books.follow(measured);
      state.metrics.measured = measured;
    }
    Step step = state.next_step(monotonic_now());
    if (step.kind == Step::Kind::load) do_load(state, lock, step, generation);
    if (step.kind == Step::Kind::unload) do_unload(state, lock, step, generation);
    tell(state, lock);
    if (step.kind == Step::Kind::wait && !state.must_look && !state.is_stopping &&
        generation == state.generation)
      wait(state.loader_wakes, lock, step.wake_at);
  }
  --state.threads;
  state.loader_ended.notify_all();
}

void start_loader(const std::shared_ptr<PoolState>& state) {
  ++state->threads;
  std::thread(run_loader, state, state->generation).detach();
}

// True where the step in progress has taken too long; another thread then takes over.
void check_for_hang(const std::shared_ptr<PoolState>& state, Nanoseconds now) {
  if (!state->step_began || now - *state->step_began < state->options.load_timeout) return;
  state->give_up_step(now);
  start_loader(state);
}

std::string words_for_deadline(const PoolState& state, const Waiter& waiter, Nanoseconds waited) {
  const ModelEntry& entry = state.models[waiter.model];
  const char* why = entry.is_loading          ? "it is still being loaded"
                    : !entry.sessions.empty() ? "its sessions are all in use"
                                              : "there was no room for it yet";
  return fmt::format("{} was not ready within {}: {}", entry.model.name, format_duration(waited), why);
}

// Waits until the request is answered or its deadline has passed.
void wait_for_answer(const std::shared_ptr<PoolState>& state, Lock& lock, Waiter& waiter) {
  state->waiters.push_back(&waiter);
  state->must_look = true;
  state->loader_wakes.notify_one();
  Nanoseconds now = monotonic_now();
  while (!waiter.is_answered()) {
    if (waiter.deadline && now >= *waiter.deadline) {
      const std::string words = words_for_deadline(*state, waiter, now - waiter.arrived);
      state->forget(waiter);
      waiter.refusal = Refusal::deadline;
      waiter.message = words;
      break;
    }
    Nanoseconds until = (state->step_began ? *state->step_began : now) + state->options.load_timeout;
    if (waiter.deadline) until = std::min(until, *waiter.deadline);
    wait(waiter.wakes, lock, until);
    now = monotonic_now();
    check_for_hang(state, now);
  }
  state->metrics.wait_time += now - waiter.arrived;
}

}  // namespace

Lease::Lease(Lease&& other) noexcept
    : state_(std::move(other.state_)),
      session_(std::exchange(other.session_, nullptr)),
      refusal_(other.refusal_),
      message_(std::move(other.message_)) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  release();
  state_ = std::move(other.state_);
  session_ = std::exchange(other.session_, nullptr);
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
  if (!options.measure) options.measure = [] { return own_bytes().value_or(Bytes{}); };
  state_ = std::make_shared<PoolState>(std::move(options));
  const Bytes measured = state_->options.measure();
  const Lock lock(state_->mutex);
  state_->books.baseline = state_->metrics.measured = measured;
  state_->note_use();
  start_loader(state_);
}

Pool::~Pool() {
  Lock lock(state_->mutex);
  state_->is_stopping = true;
  for (Waiter* waiter : std::vector<Waiter*>(state_->waiters))
    state_->answer(*waiter, Refusal::shut_down, "the pool is being shut down");
  state_->loader_wakes.notify_all();
  const TimePoint latest = time_point(monotonic_now() + state_->options.load_timeout);
  // Threads whose step was given up are not waited for: they hold the state, and end with it.
  state_->loader_ended.wait_until(lock, latest, [&] { return state_->threads <= state_->hanging; });
  std::list<std::shared_ptr<void>> idle;
  for (ModelEntry& entry : state_->models)
    for (LoadedSession& session : entry.sessions)
      if (!session.is_leased) idle.push_back(std::move(session.object));
  for (LoadedSession& session : state_->unwanted) idle.push_back(std::move(session.object));
  lock.unlock();
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
  const auto refuse = [&](Refusal refusal, std::string message) {
    lease.refusal_ = refusal;
    lease.message_ = std::move(message);
    ++state->metrics.refusals;
    Event event = state->event(EventKind::refused, std::string(name), monotonic_now() - began);
    event.refusal = refusal;
    event.message = lease.message_;
    state->events.push_back(std::move(event));
    tell(*state, lock);
    return std::move(lease);
  };
  const auto model = state->find(name);
  if (!model) return refuse(Refusal::unknown_model, fmt::format("the pool has no model named {}", name));
  if (!is_preload) state->policy.requested(*model);
  const auto give = [&](LoadedSession* session) {
    lease.state_ = state;
    lease.session_ = session;
    tell(*state, lock);
    return std::move(lease);
  };
  if (!state->is_stopping)
    if (LoadedSession* ready = state->take_ready(*model)) {
      if (!is_preload) ++state->metrics.hits;
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
  if (request.deadline) waiter.deadline = began + *request.deadline;
  waiter.number = state->waiters_so_far++;
  if (request.deadline && request.deadline->count <= 0)
    return refuse(Refusal::deadline, fmt::format("{} is not ready", name));
  ++state->metrics.waits;
  wait_for_answer(state, lock, waiter);
  if (waiter.session == nullptr) return refuse(waiter.refusal, std::move(waiter.message));
  return give(waiter.session);
}

Lease Pool::acquire(std::string_view model, const Request& request) { return get(model, request, false); }

Status Pool::preload(std::string_view model, const Request& request) {
  const Lease lease = get(model, request, true);
  if (lease) return {};
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
  auto& sessions = state_->models[*found].sessions;
  for (auto session = sessions.begin(); session != sessions.end();) {
    const auto next = std::next(session);
    if (!session->is_leased) state_->unwanted.splice(state_->unwanted.end(), sessions, session);
    session = next;
  }
  state_->must_look = true;
  state_->loader_wakes.notify_one();
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
