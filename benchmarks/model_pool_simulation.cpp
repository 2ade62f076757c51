#include "model_pool_simulation.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "pool/pool_state.h"

namespace headroom::bench {
namespace {

constexpr Nanoseconds kUnloadTime{1'000'000};

struct Thread {
  pool::Waiter waiter;
  bool is_waiting = false;
  pool::LoadedSession* session = nullptr;
  Nanoseconds until;  // the model runs until then
};

class Simulation {
 public:
  Simulation(const std::vector<SimulatedModel>& models, const std::vector<std::size_t>& trace,
             pool::PoolOptions options, Bytes baseline, int threads)
      : models_(models), trace_(trace), state_(std::move(options)) {
    state_.account.baseline = baseline;
    for (std::size_t m = 0; m < models.size(); ++m) {
      state_.models.emplace_back();
      state_.models.back().model.name = std::to_string(m);
      state_.models.back().model.memory = {models[m].load_peak, models[m].run_peak, {}};
    }
    for (int t = 0; t < threads; ++t) threads_.emplace_back();
  }

  Simulated run() {
    for (Thread& thread : threads_) ask(thread);
    for (;;) {
      look();
      const std::optional<Nanoseconds> next = next_event();
      if (!next) break;
      now_ = std::max(now_, *next);
      if (step_ends_ && *step_ends_ <= now_) end_step();
      for (Thread& thread : threads_)
        if (thread.session != nullptr && thread.until <= now_) {
          state_.release(*std::exchange(thread.session, nullptr), now_);
          ask(thread);
        }
      if (wake_at_ && *wake_at_ <= now_) {
        wake_at_.reset();
        state_.must_look = true;
      }
    }
    result_.reload_seconds = state_.metrics.reload_time.seconds();
    result_.loads = state_.metrics.loads;
    result_.all_seconds = now_.seconds();
    return result_;
  }

 private:
  void ask(Thread& thread) {
    if (next_ == trace_.size()) return;
    const std::size_t model = trace_[next_++];
    state_.policy.requested(model);
    if (pool::LoadedSession* ready = state_.take_ready(model, now_)) return start(thread, *ready);
    thread.waiter.model = model;
    thread.waiter.arrived = now_;
    thread.waiter.number = state_.waiters_so_far++;
    thread.waiter.session = nullptr;
    thread.is_waiting = true;
    state_.waiters.push_back(&thread.waiter);
    state_.must_look = true;
  }

  void start(Thread& thread, pool::LoadedSession& session) {
    thread.session = &session;
    thread.until = now_ + models_[session.model].run_time;
  }

  // Simulates the pool's own thread while nothing else happens, and the threads that it answers.
  void look() {
    while (!step_ends_ && state_.must_look) {
      state_.must_look = false;
      step_ = state_.next_step(now_);
      wake_at_ = step_.wake_at;
      if (step_.kind == pool::Step::Kind::load) step_ends_ = now_ + models_[step_.model].load_time;
      if (step_.kind == pool::Step::Kind::unload) step_ends_ = now_ + kUnloadTime;
    }
    for (Thread& thread : threads_) {
      if (!thread.is_waiting || !thread.waiter.is_answered()) continue;
      if (thread.waiter.session == nullptr) {
        std::fprintf(stderr, "model_pool: %s\n", thread.waiter.message.c_str());
        std::exit(1);
      }
      result_.longest_wait = std::max(result_.longest_wait, (now_ - thread.waiter.arrived).seconds());
      thread.is_waiting = false;
      start(thread, *thread.waiter.session);
    }
  }

  std::optional<Nanoseconds> next_event() const {
    std::optional<Nanoseconds> next = step_ends_;
    const auto sooner = [&](Nanoseconds time) { next = next ? std::min(*next, time) : time; };
    if (wake_at_ && !step_ends_) sooner(*wake_at_);
    bool is_busy = false;
    for (const Thread& thread : threads_) {
      if (thread.session != nullptr) sooner(thread.until);
      is_busy = is_busy || thread.session != nullptr || thread.is_waiting;
    }
    return is_busy ? next : std::nullopt;
  }

  void end_step() {
    step_ends_.reset();
    if (step_.kind == pool::Step::Kind::load) {
      const SimulatedModel& model = models_[step_.model];
      state_.finish_load(step_, std::make_shared<int>(0), model.run_peak, model.load_peak, model.load_time,
                         now_);
    } else {
      state_.finish_unload(step_, {}, kUnloadTime);
    }
    state_.must_look = true;
    state_.events.clear();
  }

  const std::vector<SimulatedModel>& models_;
  const std::vector<std::size_t>& trace_;
  pool::PoolState state_;
  std::deque<Thread> threads_;
  std::size_t next_ = 0;
  Nanoseconds now_;
  pool::Step step_;
  std::optional<Nanoseconds> step_ends_, wake_at_;
  Simulated result_;
};

}  // namespace

Simulated simulate_pool(const std::vector<SimulatedModel>& models, const std::vector<std::size_t>& trace,
                        Bytes budget, Bytes margin, Bytes baseline, int threads, pool::Eviction eviction,
                        Nanoseconds load_delay) {
  pool::PoolOptions options;
  options.budget = budget;
  options.margin = margin;
  options.eviction = eviction;
  options.load_delay = load_delay;
  return Simulation(models, trace, std::move(options), baseline, threads).run();
}

}  // namespace headroom::bench
