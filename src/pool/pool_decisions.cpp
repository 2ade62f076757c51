// What the pool's thread does next: who is served, what is given up for whom, who waits for what.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "pool/pool_state.h"

namespace headroom::pool {
namespace {

// A request that has waited longer than its patience keeps others from what it needs for this many patiences,
// then lets them have it for one, and so on: what it waits for may never be released.
constexpr std::int64_t kClaimedPart = 8;
constexpr std::int64_t kUnusualLease = 4;  // times as long as usual: nobody knows when it ends

void earliest(std::optional<Nanoseconds>& wake_at, std::optional<Nanoseconds> time) {
  if (time) wake_at = wake_at ? std::min(*wake_at, *time) : time;
}

}  // namespace

bool PoolState::any_lease() const {
  return std::any_of(models.begin(), models.end(), [](const ModelEntry& entry) {
    return std::any_of(entry.sessions.begin(), entry.sessions.end(),
                       [](const LoadedSession& session) { return session.is_leased; });
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

// Where others of the model are leased the largest charge stays with one of those (move_out()): it may be
// that of the weights that they share.
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
    if (resident.size.count > 0) found.push_back(resident);  // each session is charged something
  }
  return found;
}

// Sessions of one model may share its weights, which the first was charged: they stay as long as one of them.
void PoolState::move_out(Sessions& from, Sessions::iterator session, Sessions& to) {
  const auto left = session;
  to.splice(to.end(), from, session);
  const auto most = std::max_element(from.begin(), from.end(),
                                     [](const auto& a, const auto& b) { return a.charge < b.charge; });
  if (most == from.end() || most->charge >= left->charge) return;
  std::swap(most->charge, left->charge);
  std::swap(most->seen, left->seen);
}

// Moves the idle sessions of a model to the step that frees them.
void PoolState::take_out(ModelEntry& entry, Step& step, bool also_recent, Nanoseconds now) {
  for (auto session = entry.sessions.begin(); session != entry.sessions.end();) {
    const auto next = std::next(session);
    const bool is_old = options.unload_after_idle && now - session->idle_since >= *options.unload_after_idle;
    if (is_idle(*session) && (also_recent || is_old)) move_out(entry.sessions, session, step.sessions);
    session = next;
  }
}

std::vector<Resident> PoolState::without_waiters(std::vector<Resident> residents) const {
  for (const Waiter* waiter : waiters)
    std::erase_if(residents, [&](const Resident& resident) { return resident.model == waiter->model; });
  return residents;
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

bool PoolState::is_claiming(const Waiter& waiter, Nanoseconds now, Room& room) const {
  const auto begins = point_after(waiter.arrived, patience());
  if (!begins) return false;
  if (now < *begins) {
    earliest(room.wake_at, begins);
    return false;
  }
  const std::int64_t part = (now - *begins).count / patience().count % (kClaimedPart + 1);
  const std::int64_t parts_left = part < kClaimedPart ? kClaimedPart - part : 1;
  earliest(room.wake_at, point_after(now, {patience().count * parts_left}));
  return part < kClaimedPart;
}

Step PoolState::step_for(Waiter& waiter, Nanoseconds now, Room& room) {
  ModelEntry& entry = models[waiter.model];
  grant(entry, waiter.model, now);
  if (waiter.is_answered() || entry.is_loading || entry.is_claimed) return {};
  const bool is_further = !entry.sessions.empty();
  if (is_further && (static_cast<int>(entry.sessions.size()) >= entry.model.most_sessions || entry.has_hung))
    return {};
  if (is_further && now < entry.failures_next.retry_at) {
    earliest(room.wake_at, entry.failures_next.retry_at);
    return {};
  }
  std::string message;
  if (const Refusal refusal = refuse_at_once(entry, now, message); refusal != Refusal::none) {
    answer(waiter, refusal, std::move(message), now);
    return {};
  }
  const Bytes missing = reservation(entry, is_further) - room.free;
  if (missing.count <= 0) return load_step(waiter.model, is_further);
  if (is_further || !room.may_evict) return {};  // a further one: one of its sessions will be released
  const auto evict_from = [&](const std::vector<Resident>& residents) {
    std::vector<std::size_t> chosen;
    for (const std::size_t i : policy.choose(residents, missing)) chosen.push_back(residents[i].model);
    return chosen;
  };
  const std::vector<Resident> all = candidates(waiter.model, true);
  if (const auto idle = evict_from(candidates(waiter.model, false)); !idle.empty()) {
    const std::vector<Resident> unasked = without_waiters(all);
    const auto better = evict_from(unasked);
    if (is_delayed(waiter, now, room)) return {};
    if (!is_worth_waiting(better, idle, now, room)) return unload_of(idle);
    claim(better, unasked, missing, room);
    room.may_evict = false;
    return {};
  }
  const auto chosen = evict_from(all);
  if (chosen.empty()) {
    // What an earlier one waits for would do: then it is this one's turn after that.
    if (!evict_from(candidates(waiter.model, true, true)).empty()) return {};
    return step_beyond_charges(waiter, now, room);
  }
  // Only leases that end make room. Others may load before it as long as it has patience; from then on what
  // it needs is not leased again, and others have what that leaves.
  if (is_claiming(waiter, now, room)) claim(chosen, all, missing, room);
  return {};
}

void PoolState::claim(const std::vector<std::size_t>& chosen, const std::vector<Resident>& residents,
                      Bytes missing, Room& room) {
  Bytes claimed;
  for (const std::size_t model : chosen) models[model].is_claimed = true;
  for (const Resident& resident : residents)
    if (models[resident.model].is_claimed) claimed += resident.size;
  room.free = std::min(room.free, claimed - missing);
}

// Threads that are served by what is loaded go on until they, too, ask for something else. Then all that was
// asked for meanwhile is loaded, and what was given up for it is loaded again once and not for each.
bool PoolState::is_delayed(const Waiter& waiter, Nanoseconds now, Room& room) {
  if (options.load_delay.count <= 0 || waiter.deadline || waiter.number < gathered_waiters) return false;
  const auto end = point_after(waiter.arrived, options.load_delay);
  if (any_lease() && end && now < *end) {
    earliest(room.wake_at, end);
    return true;
  }
  gathered_waiters = waiters_so_far;
  return false;
}

// What was just loaded for one request is in use when room is needed for the next: giving up what happens to
// be idle instead, because it is asked for so often that it is served at once, would undo the whole choice.
bool PoolState::is_worth_waiting(const std::vector<std::size_t>& better, const std::vector<std::size_t>& idle,
                                 Nanoseconds now, Room& room) const {
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
      if (held.count >= kUnusualLease * usual.count) return false;  // also where nothing is known of it
      wait = std::max(wait, usual - held);
      latest = std::max(latest, Nanoseconds{session.leased_since.count + kUnusualLease * usual.count});
    }
  }
  if (!any_leased || better_worth >= idle_worth ||
      wait.seconds() >= idle_seconds * (1 - better_worth / idle_worth))
    return false;
  earliest(room.wake_at, latest);
  return true;
}

// All that could be given up is charged less than is missing: what it holds beyond that, or the program, or
// what runs for a moment, has the rest.
Step PoolState::step_beyond_charges(Waiter& waiter, Nanoseconds now, Room& room) {
  const ModelEntry& entry = models[waiter.model];
  const Bytes needed = reservation(entry, false);
  const Bytes most = most_for_one() - books.stuck - charged_to_pinned();
  const std::vector<Resident> idle = candidates(waiter.model, false);
  Bytes at_most = books.unaccounted;  // comes back with them
  for (const Resident& resident : idle) at_most += resident.size;
  if (needed <= most && books.unaccounted.count > 0 && !idle.empty() && needed - room.free <= at_most) {
    std::vector<std::size_t> chosen;
    for (const Resident& resident : idle) chosen.push_back(resident.model);
    return unload_of(chosen);
  }
  // What runs may take more for a moment than it keeps, and gives it back: within the time of a load.
  const auto latest = point_after(waiter.arrived, options.load_timeout);
  const bool may_come_back = needed <= most && any_lease() && !(latest && now >= *latest);
  if (!may_come_back) {
    answer(
        waiter, Refusal::no_room,
        fmt::format(
            "there is no room for {}: it takes {} to load, and of the budget of {} the process itself "
            "has {}, pinned models {}, loads that hang {}, and {} are taken beyond what models are "
            "known to hold",
            entry.model.name, format_bytes(needed), format_bytes(books.budget), format_bytes(books.baseline),
            format_bytes(charged_to_pinned()), format_bytes(books.stuck), format_bytes(books.unaccounted)),
        now);
    return {};
  }
  earliest(room.wake_at, latest);
  earliest(room.wake_at, point_after(now, patience()));
  const std::vector<Resident> all = candidates(waiter.model, true);
  if (all.empty() || !is_claiming(waiter, now, room)) return {};
  for (const Resident& resident : all) models[resident.model].is_claimed = true;
  room.free = {};
  return {};
}

Step PoolState::idle_step(Nanoseconds now, std::optional<Nanoseconds>& wake_at) {
  Step step;
  if (!options.unload_after_idle) return step;
  for (ModelEntry& entry : models) {
    if (entry.is_pinned) continue;
    take_out(entry, step, false, now);
    for (const LoadedSession& session : entry.sessions)
      if (is_idle(session)) earliest(wake_at, point_after(session.idle_since, *options.unload_after_idle));
  }
  if (!step.sessions.empty()) step.kind = Step::Kind::unload;
  step.cause = UnloadCause::idle;
  return step;
}

Step PoolState::unwanted_step() {
  Step step;
  step.kind = Step::Kind::unload;
  step.cause = unwanted.front().is_unwanted ? UnloadCause::discarded : UnloadCause::asked;
  for (auto session = unwanted.begin(); session != unwanted.end();) {
    const auto next = std::next(session);
    if (session->is_unwanted == (step.cause == UnloadCause::discarded))
      step.sessions.splice(step.sessions.end(), unwanted, session);
    session = next;
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

// The program, or what models took beyond their charge, has pushed everything over the budget.
Step PoolState::step_within_budget() {
  const Bytes over = books.used() - books.budget;
  if (over.count <= 0) return {};
  const std::vector<Resident> idle = candidates(models.size(), false);
  std::vector<std::size_t> chosen;
  for (const std::size_t i : policy.choose(idle, over)) chosen.push_back(idle[i].model);
  if (chosen.empty())  // all of it is too little, and all that can be done
    for (const Resident& resident : idle) chosen.push_back(resident.model);
  return chosen.empty() ? Step{} : unload_of(chosen);
}

Step PoolState::next_step(Nanoseconds now) {
  Step step;
  if (!unwanted.empty()) step = unwanted_step();
  Room room{books.free(), {}, true};
  if (step.kind == Step::Kind::wait) {
    // Claims are made anew, by those who are first now.
    for (ModelEntry& entry : models) entry.is_claimed = false;
    for (Waiter* waiter : by_rank(now)) {
      if (waiter->is_answered()) continue;  // meanwhile
      step = step_for(*waiter, now, room);
      if (step.kind != Step::Kind::wait) break;
    }
    for (std::size_t i = 0; i < models.size(); ++i) grant(models[i], i, now);
  }
  if (step.kind == Step::Kind::wait) step = idle_step(now, room.wake_at);
  if (step.kind == Step::Kind::wait) step = step_within_budget();

  step.wake_at = room.wake_at;
  begin(step, now);
  return step;
}

void PoolState::begin(const Step& step, Nanoseconds now) {
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
  step_cause = step.cause;
  step_names = names_of(step);
  note_use();
}

}  // namespace headroom::pool
