#include "pool/pool_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace headroom::pool {
namespace {

constexpr Bytes kDefaultEstimate = mebibytes(64);
constexpr Nanoseconds kLongestRetry{60'000'000'000};

void earliest(std::optional<Nanoseconds>& wake_at, Nanoseconds time) {
  wake_at = wake_at ? std::min(*wake_at, time) : time;
}

Bytes larger(Bytes a, Bytes b) { return std::max(a, b); }

// The newest load counts in full when it took more, else half: others that ran meanwhile may be in it.
Bytes learn(Bytes before, Bytes now) { return larger(now, Bytes{(before.count + now.count) / 2}); }

}  // namespace

PoolState::PoolState(PoolOptions given) : options(std::move(given)), policy(options.eviction) {
  books.budget = options.budget;
  books.margin = options.margin.value_or(Bytes{options.budget.count / 16});
}

std::optional<std::size_t> PoolState::find(std::string_view name) const {
  for (std::size_t i = 0; i < models.size(); ++i)
    if (models[i].model.name == name) return i;
  return std::nullopt;
}

ModelMemory PoolState::memory_of(const ModelEntry& entry, bool is_further) const {
  const Model& model = entry.model;
  const bool is_shared = is_further && (model.next_session.run_peak.count > 0);
  ModelMemory memory = is_shared ? model.next_session : model.memory;
  const ModelMemory& learnt =
      is_further && entry.learnt_next.run_peak.count > 0 ? entry.learnt_next : entry.learnt;
  if (memory.load_peak.count == 0) memory.load_peak = learnt.load_peak;
  if (memory.run_peak.count == 0) memory.run_peak = learnt.run_peak;
  return memory;
}

Bytes PoolState::reservation(const ModelEntry& entry, bool is_further) const {
  const ModelMemory memory = memory_of(entry, is_further);
  const Bytes most = larger(memory.load_peak, memory.run_peak);
  if (most.count > 0) return most;
  return memory.estimate.count > 0 ? memory.estimate : kDefaultEstimate;
}

LoadedSession* PoolState::take_ready(std::size_t model) {
  ModelEntry& entry = models[model];
  if (entry.is_claimed) return nullptr;
  const auto wanted =
      std::any_of(waiters.begin(), waiters.end(), [&](const Waiter* w) { return w->model == model; });
  if (wanted) return nullptr;
  for (LoadedSession& session : entry.sessions) {
    if (!is_idle(session)) continue;
    session.is_leased = true;
    return &session;
  }
  return nullptr;
}

Refusal PoolState::refuse_at_once(const ModelEntry& entry, Nanoseconds now, std::string& message) const {
  if (is_stopping) {
    message = "the pool is being shut down";
    return Refusal::shut_down;
  }
  if (!entry.sessions.empty() || entry.is_loading) return Refusal::none;
  const std::string& name = entry.model.name;
  if (entry.has_hung) {
    message = fmt::format("loading {} hangs: it has taken more than {}", name,
                          format_duration(options.load_timeout));
    return Refusal::load_hangs;
  }
  if (entry.failures > 0 && now < entry.retry_at) {
    message =
        fmt::format("{}; it is tried again in {}", entry.failure, format_duration(entry.retry_at - now));
    return Refusal::load_failed;
  }
  const Bytes most = books.budget - books.margin - books.baseline;
  if (const Bytes wanted = reservation(entry, false); wanted > most) {
    message = fmt::format(
        "{} takes {} to load, but the budget of {} leaves {} beside the process itself and the margin", name,
        format_bytes(wanted), format_bytes(books.budget), format_bytes(most));
    return Refusal::too_large;
  }
  return Refusal::none;
}

void PoolState::answer(Waiter& waiter, Refusal refusal, std::string message) {
  waiter.refusal = refusal;
  waiter.message = std::move(message);
  waiters.erase(std::find(waiters.begin(), waiters.end(), &waiter));
  waiter.wakes.notify_one();
}

void PoolState::answer_all(std::size_t model, Refusal refusal, const std::string& message) {
  for (Waiter* waiter : std::vector<Waiter*>(waiters))
    if (waiter->model == model) answer(*waiter, refusal, message);
}

// Waiting raises a request's priority, so that none waits for ever behind others that keep coming.
bool PoolState::ranks_before(const Waiter& a, const Waiter& b, Nanoseconds now) const {
  const std::int64_t patience = std::max<std::int64_t>(options.patience.count, 1);
  const auto rank = [&](const Waiter& w) { return w.priority + (now - w.arrived).count / patience; };
  const std::int64_t rank_a = rank(a), rank_b = rank(b);
  if (rank_a != rank_b) return rank_a > rank_b;
  if (a.deadline != b.deadline) return a.deadline && (!b.deadline || *a.deadline < *b.deadline);
  return a.number < b.number;
}

std::vector<Waiter*> PoolState::by_rank(Nanoseconds now) const {
  std::vector<Waiter*> order = waiters;
  std::sort(order.begin(), order.end(),
            [&](const Waiter* a, const Waiter* b) { return ranks_before(*a, *b, now); });
  return order;
}

// Gives the model's idle sessions to those who wait for one, the first in rank first.
void PoolState::grant(ModelEntry& entry, std::size_t model, Nanoseconds now) {
  if (entry.is_claimed) return;
  for (LoadedSession& session : entry.sessions) {
    if (!is_idle(session)) continue;
    Waiter* first = nullptr;
    for (Waiter* waiter : waiters)
      if (waiter->model == model && (first == nullptr || ranks_before(*waiter, *first, now))) first = waiter;
    if (first == nullptr) return;
    session.is_leased = true;
    first->session = &session;
    waiters.erase(std::find(waiters.begin(), waiters.end(), first));
    first->wakes.notify_one();
  }
}

void PoolState::release(LoadedSession& session, Nanoseconds now) {
  ModelEntry& entry = models[session.model];
  session.is_leased = false;
  session.idle_since = now;
  if (session.is_unwanted) {
    const auto same = [&](const LoadedSession& other) { return &other == &session; };
    unwanted.splice(unwanted.end(), entry.sessions,
                    std::find_if(entry.sessions.begin(), entry.sessions.end(), same));
  } else {
    grant(entry, session.model, now);
  }
  if (waiters.empty() && unwanted.empty() && !options.unload_after_idle) return;
  must_look = true;
  loader_wakes.notify_one();
}

void PoolState::forget(const Waiter& waiter) {
  const auto found = std::find(waiters.begin(), waiters.end(), &waiter);
  if (found != waiters.end()) waiters.erase(found);
  must_look = true;
  loader_wakes.notify_one();
}

bool PoolState::has_waiting_loads() const {
  return std::any_of(waiters.begin(), waiters.end(),
                     [&](const Waiter* w) { return !models[w->model].is_loading; });
}

bool PoolState::any_lease() const {
  return std::any_of(models.begin(), models.end(), [](const ModelEntry& entry) {
    return std::any_of(entry.sessions.begin(), entry.sessions.end(),
                       [](const LoadedSession& session) { return session.is_leased; });
  });
}

std::vector<Resident> PoolState::candidates(std::size_t model, bool with_leased) const {
  std::vector<Resident> found;
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (i == model || models[i].is_pinned) continue;
    Resident resident{i, {}};
    for (const LoadedSession& session : models[i].sessions)
      if (with_leased || is_idle(session)) resident.size += session.charge;
    if (resident.size.count > 0) found.push_back(resident);
  }
  return found;
}

// Moves the idle sessions of a model to the step that frees them.
void PoolState::take_out(ModelEntry& entry, Step& step, bool also_recent, Nanoseconds now) {
  for (auto session = entry.sessions.begin(); session != entry.sessions.end();) {
    const auto next = std::next(session);
    const bool is_old = options.unload_after_idle && now - session->idle_since >= *options.unload_after_idle;
    if (is_idle(*session) && (also_recent || is_old))
      step.sessions.splice(step.sessions.end(), entry.sessions, session);
    session = next;
  }
}

Step PoolState::unload_of(const std::vector<std::size_t>& chosen) {
  Step step;
  step.kind = Step::Kind::unload;
  for (const std::size_t model : chosen) {
    take_out(models[model], step, true, {});
    ++metrics.evictions;
  }
  return step;
}

Step PoolState::load_step(std::size_t model, bool is_further) {
  Step step;
  step.kind = Step::Kind::load;
  step.model = model;
  step.is_further = is_further;
  if (is_further) step.sibling = models[model].sessions.front().object;
  return step;
}

Step PoolState::step_for(Waiter& waiter, Nanoseconds now, std::optional<Nanoseconds>& wake_at,
                         bool& is_blocked) {
  ModelEntry& entry = models[waiter.model];
  const bool is_further = !entry.sessions.empty();
  if (entry.is_loading) return {};
  if (is_further && (static_cast<int>(entry.sessions.size()) >= entry.model.most_sessions || entry.has_hung ||
                     now < entry.retry_at))
    return {};
  std::string message;
  if (const Refusal refusal = refuse_at_once(entry, now, message); refusal != Refusal::none) {
    answer(waiter, refusal, std::move(message));
    return {};
  }
  const Bytes missing = reservation(entry, is_further) - books.free();
  if (missing.count <= 0) return load_step(waiter.model, is_further);
  if (is_further) return {};  // one of its sessions will be released
  const auto evict_from = [&](const std::vector<Resident>& residents) {
    std::vector<std::size_t> chosen;
    for (const std::size_t i : policy.choose(residents, missing)) chosen.push_back(residents[i].model);
    return chosen;
  };
  if (const auto chosen = evict_from(candidates(waiter.model, false)); !chosen.empty())
    return unload_of(chosen);
  const auto chosen = evict_from(candidates(waiter.model, true));
  if (chosen.empty() && any_lease()) return {};  // what runs may take more for a moment than it keeps
  if (chosen.empty()) {
    answer(waiter, Refusal::no_room,
           fmt::format(
               "there is no room for {}: it takes {} to load, and of the budget of {} the process itself has "
               "{}, pinned models and what did not come back the rest",
               entry.model.name, format_bytes(reservation(entry, false)), format_bytes(books.budget),
               format_bytes(books.baseline)));
    return {};
  }
  // Only leases that end make room. Others may load before it as long as it has patience; from then on
  // nothing does, and what it needs is not leased again.
  const Nanoseconds until = waiter.arrived + options.patience;
  if (now < until) {
    earliest(wake_at, until);
    return {};
  }
  for (const std::size_t model : chosen) models[model].is_claimed = true;
  is_blocked = true;
  return {};
}

Step PoolState::idle_step(Nanoseconds now, std::optional<Nanoseconds>& wake_at) {
  Step step;
  if (!options.unload_after_idle) return step;
  for (ModelEntry& entry : models) {
    if (entry.is_pinned) continue;
    take_out(entry, step, false, now);
    for (const LoadedSession& session : entry.sessions)
      earliest(wake_at, (is_idle(session) ? session.idle_since : now) + *options.unload_after_idle);
  }
  if (!step.sessions.empty()) step.kind = Step::Kind::unload;
  return step;
}

Step PoolState::next_step(Nanoseconds now) {
  Step step;
  std::optional<Nanoseconds> wake_at;
  if (!unwanted.empty()) {
    step.kind = Step::Kind::unload;
    step.sessions.splice(step.sessions.end(), unwanted);
  }
  if (step.kind == Step::Kind::wait) {
    // Claims are made anew by whoever is first now.
    for (ModelEntry& entry : models) entry.is_claimed = false;
    bool is_blocked = false;
    for (Waiter* waiter : by_rank(now)) {
      step = step_for(*waiter, now, wake_at, is_blocked);
      if (step.kind != Step::Kind::wait || is_blocked) break;
    }
    for (std::size_t i = 0; i < models.size(); ++i) grant(models[i], i, now);
  }
  if (step.kind == Step::Kind::wait) step = idle_step(now, wake_at);

  step.wake_at = wake_at;
  if (step.kind == Step::Kind::unload) {
    for (const LoadedSession& session : step.sessions) {
      books.charged = books.charged - session.charge;
      books.seen = books.seen - session.seen;
      books.leaving += session.charge;
    }
  } else if (step.kind == Step::Kind::load) {
    models[step.model].is_loading = true;
    books.loading = reservation(models[step.model], step.is_further);
  }
  if (step.kind != Step::Kind::wait) step_began = now;
  step_kind = step.kind;
  step_model = step.model;
  note_use();
  return step;
}

Event PoolState::event(EventKind kind, std::string model, Nanoseconds took) const {
  Event made;
  made.kind = kind;
  made.time = monotonic_now();
  made.model = std::move(model);
  made.took = took;
  made.used = books.used();
  made.budget = books.budget;
  return made;
}

void PoolState::finish_load(const Step& step, Result<std::shared_ptr<void>> made, Bytes growth, Bytes peak,
                            Nanoseconds took, Nanoseconds now) {
  ModelEntry& entry = models[step.model];
  entry.is_loading = false;
  step_began.reset();
  books.loading = {};
  const std::string& name = entry.model.name;
  if (!made) {
    ++metrics.load_failures;
    entry.failures = std::min(entry.failures + 1, 30);
    entry.failure = made.error().sentence();
    const std::int64_t delay = options.retry_after.count << std::min(entry.failures - 1, 6);
    entry.retry_at = now + std::min(Nanoseconds{delay}, std::max(kLongestRetry, options.retry_after));
    if (!step.is_further) answer_all(step.model, Refusal::load_failed, entry.failure);
    events.push_back(event(EventKind::load_failed, name, took));
    events.back().message = entry.failure;
    return;
  }
  ModelMemory& learnt = step.is_further ? entry.learnt_next : entry.learnt;
  learnt.load_peak = learn(learnt.load_peak, larger(peak, growth));
  learnt.run_peak = learn(learnt.run_peak, growth);
  LoadedSession session;
  session.model = step.model;
  session.object = std::move(*made);
  session.charge = memory_of(entry, step.is_further).run_peak;
  session.seen = std::clamp(growth, Bytes{}, session.charge);
  session.idle_since = now;
  books.charged += session.charge;
  books.seen += session.seen;
  entry.sessions.push_back(std::move(session));
  entry.failures = 0;
  ++metrics.loads;
  metrics.load_time += took;
  if (entry.was_loaded) metrics.reload_time += took;
  entry.was_loaded = true;
  if (!step.is_further) policy.loaded(step.model, took);
  grant(entry, step.model, now);
  note_use();
  events.push_back(event(EventKind::loaded, name, took));
  events.back().promised = entry.sessions.back().charge;
  events.back().changed = growth;
}

void PoolState::finish_unload(const Step& step, Bytes returned, Nanoseconds took) {
  step_began.reset();
  Bytes promised;
  std::string names;
  for (const LoadedSession& session : step.sessions) {
    books.leaving = books.leaving - session.charge;
    promised += session.seen;
    names += (names.empty() ? "" : ", ") + models[session.model].model.name;
    ++metrics.unloads;
  }
  metrics.promised += promised;
  metrics.returned += returned;
  if (returned.count < promised.count / 10 * 9) ++metrics.short_returns;
  events.push_back(event(EventKind::unloaded, std::move(names), took));
  events.back().promised = promised;
  events.back().changed = returned;
}

void PoolState::give_up_step(Nanoseconds now) {
  ++generation;
  ++hanging;
  ++metrics.hangs;
  const Nanoseconds took = now - *step_began;
  step_began.reset();
  books.stuck += books.loading + books.leaving;
  const bool was_load = step_kind == Step::Kind::load;
  books.loading = books.leaving = {};
  std::string what = "freeing";
  if (was_load) {
    ModelEntry& entry = models[step_model];
    entry.is_loading = false;
    entry.has_hung = true;
    what = entry.model.name;
    std::string message;
    refuse_at_once(entry, now, message);
    if (entry.sessions.empty()) answer_all(step_model, Refusal::load_hangs, message);
  }
  events.push_back(event(EventKind::load_hangs, what, took));
  events.back().message = fmt::format("{} has taken more than {}", was_load ? "loading " + what : what,
                                      format_duration(options.load_timeout));
}

void PoolState::end_given_up(const Step& step, Bytes held) {
  --hanging;
  books.stuck = larger(Bytes{}, books.stuck - held);
  if (step.kind == Step::Kind::load) models[step.model].has_hung = false;
  must_look = true;
  loader_wakes.notify_one();
}

}  // namespace headroom::pool
