#include "pool/pool_state.h"

#include <fmt/format.h>

namespace headroom::pool {
namespace {

constexpr Nanoseconds kBetweenReadings{1'000'000'000};  // a reading takes 30 µs
constexpr Bytes kDefaultEstimate = mebibytes(64);
constexpr Nanoseconds kLongestRetry{60'000'000'000};
constexpr int kMostDoublings = 6;             // of the delay until a new measurement: up to about an hour
constexpr Bytes kLeastCharge = kibibytes(4);  // a page

Bytes larger(Bytes a, Bytes b) { return std::max(a, b); }

// A load that took more than before counts fully. A smaller one counts half: sessions that ran meanwhile
// may distort it.
Bytes learn(Bytes before, Bytes now) { return larger(now, Bytes{(before.count + now.count) / 2}); }

// The bytes to reserve for a first load.
Bytes estimate_of(const Model& model) {
  return model.memory.estimate.count > 0 ? model.memory.estimate : kDefaultEstimate;
}

}  // namespace

std::optional<Nanoseconds> point_after(Nanoseconds from, Nanoseconds duration) {
  Nanoseconds point;
  if (__builtin_add_overflow(from.count, duration.count, &point.count)) return std::nullopt;
  return point;
}

PoolState::PoolState(PoolOptions given) : options(std::move(given)), policy(options.eviction) {
  account.budget = options.budget;
  account.margin = options.margin.value_or(Bytes{options.budget.count / 16});
}

std::optional<std::size_t> PoolState::find(std::string_view name) const {
  for (std::size_t i = 0; i < models.size(); ++i)
    if (models[i].model.name == name) return i;
  return std::nullopt;
}

ModelMemory PoolState::memory_of(const ModelEntry& entry, bool is_additional) const {
  ModelMemory memory = entry.model.memory;
  if (is_additional && entry.learnt_additional.run_peak.count > 0) {
    // If the first session was stated to take more than observed, an additional one takes that much more,
    // too.
    ModelMemory next = entry.learnt_additional;
    next.run_peak += larger(Bytes{}, memory.run_peak - entry.learnt.run_peak);
    return next;
  }
  if (memory.load_peak.count == 0) memory.load_peak = entry.learnt.load_peak;
  memory.run_peak = larger(memory.run_peak, entry.learnt.run_peak);  // the stated size may be too small
  return memory;
}

Bytes PoolState::reservation(const ModelEntry& entry, bool is_additional) const {
  if (entry.is_measured_anew) return most_for_one();
  const ModelMemory memory = memory_of(entry, is_additional);
  if (memory.load_peak.count > 0) return larger(memory.load_peak, memory.run_peak);
  return larger(memory.run_peak, estimate_of(entry.model));
}

void PoolState::lease(LoadedSession& session, Nanoseconds now) {
  session.is_leased = session.has_run = true;
  session.leased_since = now;
}

LoadedSession* PoolState::take_ready(std::size_t model, Nanoseconds now) {
  ModelEntry& entry = models[model];
  if (is_withheld(entry)) return nullptr;
  const auto wanted = std::ranges::any_of(waiters, [&](const Waiter* w) { return w->model == model; });
  if (wanted) return nullptr;
  for (LoadedSession& session : entry.sessions) {
    if (session.is_leased) continue;
    lease(session, now);
    return &session;
  }
  return nullptr;
}

Refusal PoolState::refuse_at_once(ModelEntry& entry, Nanoseconds now, std::string& message) {
  if (is_stopping) {
    message = "the pool is being shut down";
    return Refusal::shut_down;
  }
  if (!entry.sessions.empty() || entry.is_loading) return Refusal::none;
  const std::string& name = entry.model.name;
  if (entry.has_hung) {
    message =
        fmt::format("loading {} hangs: it takes more than {}", name, format_duration(options.load_timeout));
    return Refusal::load_hangs;
  }
  if (entry.failures.count > 0 && now < entry.failures.retry_at) {
    message = fmt::format("{}; next attempt in {}", entry.failures.message,
                          format_duration(entry.failures.retry_at - now));
    return Refusal::load_failed;
  }
  if (reservation(entry, false) <= most_for_one()) return Refusal::none;
  message = fmt::format(
      "{} needs {} to load, but the budget of {} leaves {} after the process itself and the margin", name,
      format_bytes(reservation(entry, false)), format_bytes(account.budget), format_bytes(most_for_one()));
  const ModelMemory& stated = entry.model.memory;
  if (larger(stated.load_peak, stated.run_peak) > most_for_one() || entry.learnt.load_peak.count == 0)
    return Refusal::too_large;
  // The size was learnt from a load. The program may have allocated memory during that load.
  if (!entry.forget_at)
    entry.forget_at =
        now + Nanoseconds{kLongestRetry.count << std::min(entry.times_too_large, kMostDoublings)};
  if (now >= *entry.forget_at) {
    // The size is unknown now: the next load reserves all the memory that one model may have.
    entry.learnt = {};
    entry.is_measured_anew = true;
    entry.forget_at.reset();
    ++entry.times_too_large;
    message.clear();
    return refuse_at_once(entry, now, message);
  }
  message += fmt::format("; its last load measured this; the next measurement is in {}",
                         format_duration(*entry.forget_at - now));
  return Refusal::too_large;
}

void PoolState::note_refusal(std::string name, Refusal refusal, std::string message, Nanoseconds took) {
  ++metrics.refusals;
  events.push_back(event(EventKind::refused, std::move(name), took));
  events.back().refusal = refusal;
  events.back().message = std::move(message);
}

void PoolState::answer(Waiter& waiter, Refusal refusal, std::string message, Nanoseconds now) {
  std::erase(waiters, &waiter);
  note_refusal(models[waiter.model].model.name, refusal, message, now - waiter.arrived);
  waiter.refusal = refusal;
  waiter.message = std::move(message);
  waiter.wakes.notify_one();
}

void PoolState::answer_all(std::size_t model, Refusal refusal, const std::string& message, Nanoseconds now) {
  for (Waiter* waiter : std::vector<Waiter*>(waiters))
    if (waiter->model == model) answer(*waiter, refusal, message, now);
}

// Waiting raises a request's priority, so that newer requests cannot delay it forever.
bool PoolState::ranks_before(const Waiter& a, const Waiter& b, Nanoseconds now) const {
  const auto rank = [&](const Waiter& w) { return w.priority + (now - w.arrived).count / patience().count; };
  const std::int64_t rank_a = rank(a), rank_b = rank(b);
  if (rank_a != rank_b) return rank_a > rank_b;
  if (a.deadline != b.deadline) return a.deadline && (!b.deadline || *a.deadline < *b.deadline);
  return a.number < b.number;
}

std::vector<Waiter*> PoolState::by_rank(Nanoseconds now) const {
  std::vector<Waiter*> order = waiters;
  std::ranges::sort(order, [&](const Waiter* a, const Waiter* b) { return ranks_before(*a, *b, now); });
  return order;
}

// Gives the model's idle sessions to its waiters, in order of rank.
void PoolState::grant(ModelEntry& entry, std::size_t model, Nanoseconds now) {
  if (is_withheld(entry)) return;
  for (LoadedSession& session : entry.sessions) {
    if (session.is_leased) continue;
    Waiter* first = nullptr;
    for (Waiter* waiter : waiters)
      if (waiter->model == model && (first == nullptr || ranks_before(*waiter, *first, now))) first = waiter;
    if (first == nullptr) return;
    lease(session, now);
    first->session = &session;
    std::erase(waiters, first);
    first->wakes.notify_one();
  }
}

void PoolState::release(LoadedSession& session, Nanoseconds now) {
  ModelEntry& entry = models[session.model];
  session.is_leased = false;
  session.idle_since = now;
  const Nanoseconds held = now - session.leased_since;
  entry.lease_time =
      entry.lease_time.count == 0 ? held : Nanoseconds{(entry.lease_time.count * 3 + held.count) / 4};
  if (session.is_discarded) {
    remove_sessions(entry.sessions, pending_unloads,
                    [&](const LoadedSession& other) { return &other == &session; });
  } else {
    grant(entry, session.model, now);
  }
  if (waiters.empty() && pending_unloads.empty() && !options.unload_after_idle) return;
  wake_loader();
}

bool PoolState::has_waiting_loads() const {
  return std::ranges::any_of(waiters, [&](const Waiter* w) { return !models[w->model].is_loading; });
}

std::optional<Nanoseconds> PoolState::reading_due() const {
  const bool any =
      std::ranges::any_of(models, [](const ModelEntry& entry) { return !entry.sessions.empty(); });
  return any ? point_after(last_reading, kBetweenReadings) : std::nullopt;
}

Event PoolState::event(EventKind kind, std::string model, Nanoseconds took) const {
  Event made;
  made.kind = kind;
  made.time = monotonic_now();
  made.model = std::move(model);
  made.took = took;
  made.used = account.used();
  made.budget = account.budget;
  return made;
}

void PoolState::end_step() {
  step_began.reset();
  step_ended.notify_all();
}

void PoolState::finish_load(const Step& step, Result<std::shared_ptr<void>> made, std::optional<Bytes> growth,
                            std::optional<Bytes> peak, Nanoseconds took, Nanoseconds now) {
  ModelEntry& entry = models[step.model];
  entry.is_loading = false;
  end_step();
  const Bytes reserved = std::exchange(account.loading, {});
  const std::string& name = entry.model.name;
  if (!made) {
    ++metrics.load_failures;
    Failures& failures = step.is_additional ? entry.failures_additional : entry.failures;
    failures.message = made.error().sentence();
    const Nanoseconds doubled{options.retry_after.count << std::min(failures.count, 6)};
    failures.retry_at = now + std::max(options.retry_after, std::min(doubled, kLongestRetry));
    ++failures.count;
    events.push_back(event(EventKind::load_failed, name, took));
    events.back().message = failures.message;
    if (!step.is_additional) answer_all(step.model, Refusal::load_failed, failures.message, now);
    return;
  }
  entry.is_measured_anew = false;
  // Negative growth: the program freed memory meanwhile.
  const Bytes grown = larger(Bytes{}, growth.value_or(Bytes{}));
  if (growth) {
    ModelMemory& learnt = step.is_additional ? entry.learnt_additional : entry.learnt;
    // Without a measured peak the temporary memory of the load is unknown. The reservation of a first load
    // was enough.
    const ModelMemory& stated = entry.model.memory;
    const Bytes expected = stated.load_peak.count > 0 ? stated.load_peak : estimate_of(entry.model);
    const Bytes load_peak = larger(grown, peak.value_or(step.is_additional ? Bytes{} : expected));
    learnt.load_peak = learn(learnt.load_peak, load_peak);
    const bool is_grown = entry.model.keeps_run_memory || (!peak && stated.run_peak.count > 0);
    learnt.run_peak = learn(learnt.run_peak, is_grown ? grown : load_peak);
  }
  if (!step.is_additional && reservation(entry, false) <= most_for_one()) entry.times_too_large = 0;
  LoadedSession session;
  session.model = step.model;
  session.object = std::move(*made);
  session.charge = larger(kLeastCharge, memory_of(entry, step.is_additional).run_peak);
  // If the size is neither stated nor measured, charge everything that was reserved.
  if (!growth && memory_of(entry, step.is_additional).run_peak.count == 0) session.charge = reserved;
  session.observed = std::min(grown, session.charge);
  session.idle_since = now;
  account.charged += session.charge;
  account.observed += session.observed;
  entry.sessions.push_back(std::move(session));
  (step.is_additional ? entry.failures_additional : entry.failures).count = 0;
  ++metrics.loads;
  metrics.load_time += took;
  if (entry.was_loaded) metrics.reload_time += took;
  entry.was_loaded = true;
  if (!step.is_additional) policy.loaded(step.model, took);
  grant(entry, step.model, now);
  note_use();
  events.push_back(event(EventKind::loaded, name, took));
  events.back().promised = entry.sessions.back().charge;
  events.back().changed = growth.value_or(Bytes{});
}

void PoolState::finish_unload(const Step& step, Bytes returned, Nanoseconds took) {
  end_step();
  Bytes promised;
  for (const LoadedSession& session : step.sessions) {
    account.leaving = account.leaving - session.charge;
    promised += session.observed;
    ++metrics.unloads;
  }
  metrics.promised += promised;
  metrics.returned += returned;
  if (returned.count < promised.count / 10 * 9) ++metrics.short_returns;
  events.push_back(event(EventKind::unloaded, names_of(step), took));
  events.back().cause = step.cause;
  events.back().promised = promised;
  events.back().changed = returned;
}

void PoolState::unload_idle(std::size_t model) {
  remove_sessions(models[model].sessions, pending_unloads,
                  [](const LoadedSession& session) { return !session.is_leased; });
  wake_loader();
}

std::list<LoadedSession> PoolState::take_all_idle() {
  for (std::size_t i = 0; i < models.size(); ++i) unload_idle(i);
  return std::exchange(pending_unloads, {});
}

void PoolState::apply_reading(Bytes measured) {
  // Growth since the last reading is first attributed to sessions that ran meanwhile, up to their charges.
  // Counted as unaccounted it would count twice, for as long as an arena keeps it.
  Bytes grown =
      std::min(measured - metrics.measured, measured - (account.baseline + account.observed + account.stuck));
  for (ModelEntry& entry : models)
    for (LoadedSession& session : entry.sessions) {
      if (!std::exchange(session.has_run, session.is_leased) || grown.count <= 0) continue;
      const Bytes its_own = std::min(grown, session.charge - session.observed);
      session.observed += its_own;
      account.observed += its_own;
      grown = grown - its_own;
    }
  account.apply_reading(measured);
  metrics.measured = measured;
  note_use();
}

void PoolState::abandon_step(Nanoseconds now) {
  ++generation;
  ++hanging;
  ++metrics.hangs;
  const Nanoseconds took = now - *step_began;
  end_step();
  account.stuck += account.loading + account.leaving;
  const bool was_load = step_kind == Step::Kind::load;
  account.loading = account.leaving = {};
  if (was_load) {
    ModelEntry& entry = models[step_model];
    entry.is_loading = false;
    entry.has_hung = true;
    std::string message;
    refuse_at_once(entry, now, message);
    if (entry.sessions.empty()) answer_all(step_model, Refusal::load_hangs, message, now);
  }
  events.push_back(event(was_load ? EventKind::load_hangs : EventKind::unload_hangs, step_names, took));
  events.back().cause = step_cause;
  events.back().message = fmt::format("{} {} takes more than {}", was_load ? "loading" : "freeing",
                                      step_names, format_duration(options.load_timeout));
}

void PoolState::finish_abandoned(const Step& step, Bytes held) {
  --hanging;
  account.stuck = larger(Bytes{}, account.stuck - held);
  if (step.kind == Step::Kind::load) models[step.model].has_hung = false;
  wake_loader();
}

}  // namespace headroom::pool
