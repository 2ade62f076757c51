// Decides the pool thread's next step. A round visits the waiting requests by rank:
//
// 1. An idle session of the model answers the request.
// 2. If enough memory is free, the model is loaded.
// 3. Otherwise the eviction policy chooses idle models to unload. If its choice among idle and leased models
//    is better, the round may wait for the leases to end.
// 4. If only leased models can free enough, the request waits. After its patience it claims them: they get
//    no new leases, and no waiter of lower rank may use the memory that they will free.
// 5. If even all charges are too small, memory beyond the charges is in use (step_beyond_charges()).
#include <fmt/format.h>

#include <algorithm>

#include "pool/pool_state.h"

namespace headroom::pool {
namespace {

// A request that has waited longer than its patience claims the models that it needs for this many
// patiences. Then it lets others use them for one patience, and so on: their leases may never end.
constexpr std::int64_t kClaimedPart = 8;
constexpr std::int64_t kUnusualLease = 4;  // times the usual duration: its end cannot be predicted

std::vector<std::size_t> models_of(const std::vector<Resident>& residents) {
  std::vector<std::size_t> models;
  for (const Resident& resident : residents) models.push_back(resident.model);
  return models;
}

void earliest(std::optional<Nanoseconds>& wake_at, std::optional<Nanoseconds> time) {
  if (time) wake_at = wake_at ? std::min(*wake_at, *time) : time;
}

}  // namespace

bool PoolState::any_lease() const {
  return std::ranges::any_of(models, [](const ModelEntry& entry) {
    return std::ranges::any_of(entry.sessions, &LoadedSession::is_leased);
  });
}

Bytes PoolState::charged_to_pinned() const {
  Bytes sum;
  for (const ModelEntry& entry : models)
    if (entry.is_pinned) sum += charged_to(entry);
  return sum;
}

Bytes PoolState::charged_to(const ModelEntry& entry) {
  Bytes sum;
  for (const LoadedSession& session : entry.sessions) sum += session.charge;
  return sum;
}

// If other sessions of the model are leased, the largest charge stays with one of them (remove_session()):
// it may include the weights that all of them share.
Bytes PoolState::returned_by_idle(const ModelEntry& entry) {
  Bytes sum, largest_idle, largest_leased;
  for (const LoadedSession& session : entry.sessions) {
    Bytes& largest = session.is_leased ? largest_leased : largest_idle;
    largest = std::max(largest, session.charge);
    if (!session.is_leased) sum += session.charge;
  }
  if (largest_leased.count == 0) return sum;
  return sum - std::max(Bytes{}, largest_idle - largest_leased);
}

std::vector<Resident> PoolState::candidates(std::size_t model, bool with_leased, bool with_claimed) const {
  std::vector<Resident> found;
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (i == model || models[i].is_pinned || (models[i].is_claimed && !with_claimed)) continue;
    Resident resident{i, with_leased ? charged_to(models[i]) : returned_by_idle(models[i])};
    if (resident.size.count > 0) found.push_back(resident);  // every session has a charge
  }
  return found;
}

// Sessions of a model may share weights, which the first one was charged. The weights stay as long as any
// session does, so the largest charge passes to a remaining session.
void PoolState::remove_sessions(Sessions& from, Sessions& to,
                                const std::function<bool(const LoadedSession&)>& leaves) {
  for (auto session = from.begin(); session != from.end();) {
    const auto left = session++;
    if (!leaves(*left)) continue;
    to.splice(to.end(), from, left);
    const auto most = std::ranges::max_element(from, {}, &LoadedSession::charge);
    if (most == from.end() || most->charge >= left->charge) continue;
    std::swap(most->charge, left->charge);
    std::swap(most->observed, left->observed);
  }
}

// Moves idle sessions of a model to the step that frees them.
void PoolState::take_idle_sessions(ModelEntry& entry, Step& step, bool also_recent, Nanoseconds now) {
  remove_sessions(entry.sessions, step.sessions, [&](const LoadedSession& session) {
    const bool is_old = options.unload_after_idle && now - session.idle_since >= *options.unload_after_idle;
    return !session.is_leased && (also_recent || is_old);
  });
}

std::vector<Resident> PoolState::without_waiters(std::vector<Resident> residents) const {
  for (const Waiter* waiter : waiters)
    std::erase_if(residents, [&](const Resident& resident) { return resident.model == waiter->model; });
  return residents;
}

Step PoolState::unload_step(const std::vector<std::size_t>& chosen) {
  Step step;
  step.kind = Step::Kind::unload;
  for (const std::size_t model : chosen) {
    take_idle_sessions(models[model], step, true, {});
    ++metrics.evictions;
  }
  return step;
}

Step PoolState::load_step(std::size_t model, bool is_additional) {
  Step step;
  step.kind = Step::Kind::load;
  step.model = model;
  step.is_additional = is_additional;
  if (is_additional) step.sibling = models[model].sessions.front().object;
  return step;
}

bool PoolState::is_claiming(const Waiter& waiter, Nanoseconds now, DecisionRound& round) const {
  const auto begins = point_after(waiter.arrived, patience());
  if (!begins) return false;
  if (now < *begins) {
    earliest(round.wake_at, begins);
    return false;
  }
  const std::int64_t part = (now - *begins).count / patience().count % (kClaimedPart + 1);
  const std::int64_t parts_left = part < kClaimedPart ? kClaimedPart - part : 1;
  earliest(round.wake_at, point_after(now, {patience().count * parts_left}));
  return part < kClaimedPart;
}

Step PoolState::step_for(Waiter& waiter, Nanoseconds now, DecisionRound& round) {
  ModelEntry& entry = models[waiter.model];
  grant(entry, waiter.model, now);
  if (waiter.is_answered() || entry.is_loading || entry.is_claimed) return {};
  const bool is_additional = !entry.sessions.empty();
  if (is_additional &&
      (static_cast<int>(entry.sessions.size()) >= entry.model.most_sessions || entry.has_hung))
    return {};
  if (is_additional && now < entry.failures_additional.retry_at) {
    earliest(round.wake_at, entry.failures_additional.retry_at);
    return {};
  }
  std::string message;
  if (const Refusal refusal = refuse_at_once(entry, now, message); refusal != Refusal::none) {
    answer(waiter, refusal, std::move(message), now);
    return {};
  }
  const Bytes missing = reservation(entry, is_additional) - round.free;
  if (missing.count <= 0) return load_step(waiter.model, is_additional);
  // An additional session is no reason to evict: one of the model's sessions will be released.
  if (is_additional || !round.may_evict) return {};
  const auto evict_from = [&](const std::vector<Resident>& residents) {
    std::vector<std::size_t> chosen;
    for (const std::size_t i : policy.choose(residents, missing)) chosen.push_back(residents[i].model);
    return chosen;
  };
  const std::vector<Resident> all = candidates(waiter.model, true);
  if (const auto idle = evict_from(candidates(waiter.model, false)); !idle.empty()) {
    const std::vector<Resident> unasked = without_waiters(all);
    const auto better = evict_from(unasked);
    if (is_delayed(waiter, now, round)) return {};
    if (!is_worth_waiting(better, idle, now, round)) return unload_step(idle);
    claim(better, unasked, missing, round);
    round.may_evict = false;
    return {};
  }
  const auto chosen = evict_from(all);
  if (chosen.empty()) {
    // The models that a waiter of higher rank has claimed would free enough: this waiter is next after it.
    if (!evict_from(candidates(waiter.model, true, true)).empty()) return {};
    return step_beyond_charges(waiter, now, round);
  }
  // Only the end of leases frees enough. While this waiter has patience, others may load first. After that
  // the models that it needs get no new leases, and others may use only what they leave.
  if (is_claiming(waiter, now, round)) claim(chosen, all, missing, round);
  return {};
}

void PoolState::claim(const std::vector<std::size_t>& chosen, const std::vector<Resident>& residents,
                      Bytes missing, DecisionRound& round) {
  Bytes claimed;
  for (const std::size_t model : chosen) models[model].is_claimed = true;
  for (const Resident& resident : residents)
    if (models[resident.model].is_claimed) claimed += resident.size;
  round.free = std::min(round.free, claimed - missing);
}

// Threads that use loaded sessions continue until they, too, need another model. Then all models requested
// meanwhile are loaded together, and an evicted model is reloaded once instead of once per request.
bool PoolState::is_delayed(const Waiter& waiter, Nanoseconds now, DecisionRound& round) {
  if (options.load_delay.count <= 0 || waiter.deadline || waiter.number < gathered_waiters) return false;
  const auto end = point_after(waiter.arrived, options.load_delay);
  if (any_lease() && end && now < *end) {
    earliest(round.wake_at, end);
    return true;
  }
  gathered_waiters = waiters_so_far;
  return false;
}

// Example: the model that was loaded for the last request is leased when the next request needs memory. The
// idle model is often requested, and idle only because it is served quickly. Evicting it now would defeat
// the policy's choice.
bool PoolState::is_worth_waiting(const std::vector<std::size_t>& better, const std::vector<std::size_t>& idle,
                                 Nanoseconds now, DecisionRound& round) const {
  double better_worth = 0, idle_worth = 0, idle_seconds = 0;
  for (const std::size_t model : idle) {
    idle_worth += policy.worth(model);
    idle_seconds += policy.reload_time(model).seconds();
  }
  Nanoseconds wait, latest = now;
  bool any_leased = false;
  for (const std::size_t model : better) {
    better_worth += policy.worth(model);
    const Nanoseconds usual = models[model].lease_time;
    for (const LoadedSession& session : models[model].sessions) {
      if (!session.is_leased) continue;
      any_leased = true;
      const Nanoseconds held = now - session.leased_since;
      if (held.count >= kUnusualLease * usual.count) return false;  // also if the usual duration is unknown
      wait = std::max(wait, usual - held);
      latest = std::max(latest, Nanoseconds{session.leased_since.count + kUnusualLease * usual.count});
    }
  }
  if (!any_leased || better_worth >= idle_worth ||
      wait.seconds() >= idle_seconds * (1 - better_worth / idle_worth))
    return false;
  earliest(round.wake_at, latest);
  return true;
}

// The charges of all models that could be evicted are smaller than the missing bytes. Models hold more than
// their charges, or the program or running sessions hold memory.
Step PoolState::step_beyond_charges(Waiter& waiter, Nanoseconds now, DecisionRound& round) {
  const ModelEntry& entry = models[waiter.model];
  const Bytes needed = reservation(entry, false);
  const Bytes most = most_for_one() - account.stuck - charged_to_pinned();
  const std::vector<Resident> idle = candidates(waiter.model, false);
  Bytes at_most = account.unaccounted;  // is freed together with them
  for (const Resident& resident : idle) at_most += resident.size;
  if (needed <= most && account.unaccounted.count > 0 && !idle.empty() && needed - round.free <= at_most)
    return unload_step(models_of(idle));
  // Running sessions may use more memory temporarily and free it again: wait for that at most as long as a
  // load may take.
  const auto latest = point_after(waiter.arrived, options.load_timeout);
  const bool may_come_back = needed <= most && any_lease() && !(latest && now >= *latest);
  if (!may_come_back) {
    answer(
        waiter, Refusal::no_room,
        fmt::format(
            "not enough memory for {}: it needs {} to load. Of the budget of {}, the process itself uses {}, "
            "pinned models {}, hanging loads {} and unknown allocations {}",
            entry.model.name, format_bytes(needed), format_bytes(account.budget),
            format_bytes(account.baseline), format_bytes(charged_to_pinned()), format_bytes(account.stuck),
            format_bytes(account.unaccounted)),
        now);
    return {};
  }
  earliest(round.wake_at, latest);
  earliest(round.wake_at, point_after(now, patience()));
  const std::vector<Resident> all = candidates(waiter.model, true);
  if (all.empty() || !is_claiming(waiter, now, round)) return {};
  for (const Resident& resident : all) models[resident.model].is_claimed = true;
  round.free = {};
  return {};
}

Step PoolState::idle_step(Nanoseconds now, std::optional<Nanoseconds>& wake_at) {
  Step step;
  if (!options.unload_after_idle) return step;
  for (ModelEntry& entry : models) {
    if (entry.is_pinned) continue;
    take_idle_sessions(entry, step, false, now);
    for (const LoadedSession& session : entry.sessions)
      if (!session.is_leased) earliest(wake_at, point_after(session.idle_since, *options.unload_after_idle));
  }
  if (!step.sessions.empty()) step.kind = Step::Kind::unload;
  step.cause = UnloadCause::idle;
  return step;
}

Step PoolState::pending_unload_step() {
  Step step;
  step.kind = Step::Kind::unload;
  step.cause = pending_unloads.front().is_discarded ? UnloadCause::discarded : UnloadCause::asked;
  for (auto next = pending_unloads.begin(); next != pending_unloads.end();) {
    const auto session = next++;
    if (session->is_discarded == (step.cause == UnloadCause::discarded))
      step.sessions.splice(step.sessions.end(), pending_unloads, session);
  }
  return step;
}

std::string PoolState::names_of(const Step& step) const {
  if (step.kind == Step::Kind::load) return models[step.model].model.name;
  std::string names;
  for (const LoadedSession& session : step.sessions)
    names += (names.empty() ? "" : ", ") + models[session.model].model.name;
  return names;
}

// The process exceeds the budget: the program, or models beyond their charges, allocated more.
Step PoolState::step_within_budget() {
  const Bytes over = account.used() - account.budget;
  if (over.count <= 0) return {};
  const std::vector<Resident> idle = candidates(models.size(), false);
  std::vector<std::size_t> chosen;
  for (const std::size_t i : policy.choose(idle, over)) chosen.push_back(idle[i].model);
  if (chosen.empty()) chosen = models_of(idle);  // all together free too little; evict them anyway
  return chosen.empty() ? Step{} : unload_step(chosen);
}

Step PoolState::next_step(Nanoseconds now) {
  Step step;
  if (!pending_unloads.empty()) step = pending_unload_step();
  DecisionRound round{account.free(), {}, true};
  if (step.kind == Step::Kind::wait) {
    // Each round makes new claims, by current rank.
    for (ModelEntry& entry : models) entry.is_claimed = false;
    for (Waiter* waiter : by_rank(now)) {
      if (waiter->is_answered()) continue;  // answered by an earlier waiter's decision
      step = step_for(*waiter, now, round);
      if (step.kind != Step::Kind::wait) break;
    }
    for (std::size_t i = 0; i < models.size(); ++i) grant(models[i], i, now);
  }
  if (step.kind == Step::Kind::wait) step = idle_step(now, round.wake_at);
  if (step.kind == Step::Kind::wait) step = step_within_budget();

  step.wake_at = round.wake_at;
  begin(step, now);
  return step;
}

void PoolState::begin(const Step& step, Nanoseconds now) {
  if (step.kind == Step::Kind::unload) {
    for (const LoadedSession& session : step.sessions) {
      account.charged = account.charged - session.charge;
      account.observed = account.observed - session.observed;
      account.leaving += session.charge;
    }
  } else if (step.kind == Step::Kind::load) {
    models[step.model].is_loading = true;
    account.loading = reservation(models[step.model], step.is_additional);
  }
  if (step.kind != Step::Kind::wait) step_began = now;
  step_kind = step.kind;
  step_model = step.model;
  step_cause = step.cause;
  step_names = names_of(step);
  note_use();
}

}  // namespace headroom::pool
