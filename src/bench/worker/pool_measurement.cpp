#include "bench/worker/worker_state.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/json.h"
#include "bench/worker/pool_parts.h"
#include "pool/memory_meter.h"
#include "pool/pool.h"
#include "pool/pool_events.h"

namespace headroom::bench {
namespace {

// The first run shows ONNX Runtime what a run needs; the second allocates that as one block
// (ready_session.cpp).
constexpr int kWarmRuns = 2;

// A thread that samples memory every 5 ms and counts the samples over the budget. One sample takes 30 µs: 0.6
// % of a core.
class BudgetWatch {
 public:
  struct Counts {
    std::int64_t samples = 0, over = 0;
    Bytes peak;
  };
  BudgetWatch(std::function<std::optional<Bytes>()> read, Bytes budget)
      : read_(std::move(read)),
        budget_(budget),
        thread_([this](const std::stop_token& stop) { run(stop); }) {}
  Counts counts() {
    const std::lock_guard lock(mutex_);
    return counts_;
  }

 private:
  void run(const std::stop_token& stop) {
    constexpr std::chrono::milliseconds kInterval{5};
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      lock.unlock();
      const auto bytes = read_();
      lock.lock();
      if (bytes) {
        ++counts_.samples;
        if (*bytes > budget_) ++counts_.over;
        counts_.peak = std::max(counts_.peak, *bytes);
      }
      wake_.wait_for(lock, stop, kInterval, [] { return false; });
    }
  }

  std::function<std::optional<Bytes>()> read_;
  Bytes budget_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  Counts counts_;
  std::jthread thread_;  // last, because it uses the members above
};

// What the pool loads: a model with its inputs and its task.
struct PooledSession {
  LoadedModel model;
  std::int64_t sequence;  // the sequence that its state belongs to
};

// The requests for one model; used by one thread at a time.
struct Requests {
  PooledModel counters;
  std::vector<std::int64_t> waits_ns;  // since the last send_figures()
  std::optional<FrameTimes> frame;     // times of the last request, until recorded
  Status stop;                         // an error that ends the whole run
};

class PooledRun {
 public:
  PooledRun(Worker& worker, pool::MemoryMeter meter, std::shared_ptr<PoolJournal> journal)
      : worker_(worker),
        journal_(std::move(journal)),
        read_(meter.read),
        requests_(worker.job.models.size()),
        threads_(static_cast<std::size_t>(worker.job.pool->threads)),
        pool_(options_of(worker, std::move(meter), journal_)) {}

  Status add_models() {
    for (const WorkerModel& model : worker_.job.models) {
      pool::Model added;
      added.name = model.name;
      added.keeps_run_memory = model.backend == "onnxruntime" && model.settings.arena;
      // If the pool knows the load's peak, it does not reset the process's peak, which the report needs. An
      // arena's memory is measured exactly during the load, so run_peak is not needed there.
      added.memory.load_peak = model.load_peak;
      if (!added.keeps_run_memory) added.memory.run_peak = model.run_peak;
      added.load = [this, &model](const std::shared_ptr<void>&) { return load(model); };
      if (auto done = pool_.add(std::move(added)); !done) return done;
    }
    return {};
  }

  Status run() {
    baseline_ = read_();
    watch_ = std::make_unique<BudgetWatch>(read_, worker_.job.pool->budget);
    return worker_.ring ? run_on_frames() : run_on_made_up_inputs();
  }

  // Sends the last figures and unloads all models. Returns false if a load or unload still hangs and uses its
  // memory.
  bool end() {
    // A request continues before the pool has reported the load that it waited for.
    constexpr Nanoseconds kAtMost{1'000'000'000};
    const pool::Metrics so_far = pool_.metrics();
    journal_->wait_for(so_far.loads, so_far.unloads, kAtMost);
    send_figures();
    watch_.reset();
    pool_.shut_down();
    const pool::Metrics metrics = pool_.metrics();
    journal_->write(pool::metrics_line(metrics, monotonic_now(), journal_->lost()));
    return metrics.stuck == Bytes{};
  }

 private:
  static pool::PoolOptions options_of(const Worker& worker, pool::MemoryMeter meter,
                                      const std::shared_ptr<PoolJournal>& journal) {
    pool::PoolOptions options;
    options.budget = worker.job.pool->budget;
    options.load_timeout = worker.job.pool->load_timeout;
    options.meter = std::move(meter);
    options.observer = [journal](const pool::Event& event) { journal->add(event); };
    return options;
  }

  // Runs on the pool's thread.
  Result<std::shared_ptr<void>> load(const WorkerModel& model) {
    auto loaded = LoadedModel::load(*find_backend(worker_, model), model, worker_.job);
    if (!loaded) return forward_error(loaded);
    auto session = std::make_shared<PooledSession>(PooledSession{std::move(*loaded), sequence_});
    FrameTimes times;
    for (int i = 0; i < kWarmRuns; ++i)
      if (auto ran = session->model.process_blank(times); !ran) return forward_error(ran);
    return std::shared_ptr<void>(std::move(session));
  }

  // `frame` is nullptr if no model takes frames. The threads request the due models in order. The frame ends
  // when the last model has run.
  Status run_frame(const FrameView* frame, Nanoseconds decode) {
    const Nanoseconds began = monotonic_now();
    due_.clear();
    for (std::size_t m = 0; m < requests_.size(); ++m)
      if (frames_ % worker_.job.models[m].every == 0) due_.push_back(m);
    threads_.run(
        due_.size(), [&](std::size_t i) { run_model(due_[i], frame, decode); },
        [this] { worker_.events.alive(); });
    ++frames_;
    frame_times_.push_back((monotonic_now() - began).count);
    Status stop;
    for (const std::size_t m : due_) {
      if (const auto times = std::exchange(requests_[m].frame, {})) worker_.events.record(m, *times);
      if (!requests_[m].stop) stop = requests_[m].stop;
    }
    return stop;
  }

  void run_model(std::size_t m, const FrameView* frame, Nanoseconds decode) {
    if (is_out_of_memory_) return;
    Requests& requests = requests_[m];
    const Nanoseconds asked = monotonic_now();
    pool::Lease lease = pool_.acquire(worker_.job.models[m].name);
    const Nanoseconds waited = monotonic_now() - asked;
    ++requests.counters.requests;
    if (!lease) {
      ++requests.counters.refusals;
      requests.counters.error = lease.message();
      return;
    }
    if (lease.was_ready())
      ++requests.counters.hits;
    else
      requests.waits_ns.push_back(waited.count);
    auto& session = *static_cast<PooledSession*>(lease.session());
    FrameTimes times;
    times.decode = decode;
    Status ran;
    if (std::exchange(session.sequence, sequence_.load()) != sequence_) ran = session.model.clean();
    if (ran)
      ran = frame != nullptr ? session.model.process(*frame, times) : session.model.process_blank(times);
    if (ran) {
      requests.frame = times;
      return;
    }
    // An isolated model ran out of memory in its own process, which does not affect this one.
    if (inference::is_out_of_memory(ran.error()) && !worker_.job.models[m].isolated) {
      is_out_of_memory_ = true;
      requests.stop = ran;
      return;
    }
    lease.discard();  // the other models are still served
    ++requests.counters.failures;
    requests.counters.error = ran.error().sentence();
  }

  Status run_on_frames() {
    FrameWalk walk(*worker_.ring, worker_.events, worker_.job.max_frames, worker_.job.window_frames);
    for (std::size_t s = 0; s < worker_.job.sequences.size(); ++s) {
      const std::size_t objects = std::max<std::size_t>(1, worker_.job.sequences[s].objects.size());
      for (std::size_t object = 0; object < objects; ++object) {
        ++sequence_;
        if (auto started = walk.start(static_cast<std::int32_t>(s)); !started) return started;
        for (;;) {
          if (auto got = walk.next_window(); !got) return got;
          if (walk.slots().empty()) break;
          for (const media::FrameSlot& slot : walk.slots()) {
            const FrameView view = walk.view(slot);
            if (auto ran = run_frame(&view, {slot.decode_ns}); !ran) return ran;
          }
          worker_.events.flush();
          worker_.events.held(walk.slots().size(), walk.take_skipped());
          send_figures();
        }
      }
    }
    return {};
  }

  Status run_on_made_up_inputs() {
    constexpr std::int64_t kFramesBetweenReports = 100;
    for (std::int64_t i = 0; i < worker_.job.max_frames; ++i) {
      if (auto ran = run_frame(nullptr, {}); !ran) return ran;
      if (i % kFramesBetweenReports == 0) send_figures();
    }
    worker_.events.flush();
    send_figures();
    return {};
  }

  // Sends the new figures since the last call, and the counters.
  void send_figures() {
    const pool::Metrics metrics = pool_.metrics();
    PoolAccount event;
    event.frames = std::exchange(frame_times_, {});
    for (std::size_t m = 0; m < requests_.size(); ++m) {
      PooledAccount& model = event.models.emplace_back(journal_->take(worker_.job.models[m].name));
      PooledModel& counters = requests_[m].counters;
      counters.unloads = model.counters.unloads;
      counters.evictions = model.counters.evictions;
      counters.charge = model.counters.charge;
      model.counters = counters;
      model.waits = std::exchange(requests_[m].waits_ns, {});
    }
    event.baseline = baseline_;
    event.books_peak = metrics.peak_used;
    event.load_time = metrics.load_time;
    event.reload_time = metrics.reload_time;
    if (watch_ != nullptr) {
      const BudgetWatch::Counts counts = watch_->counts();
      event.samples = counts.samples;
      event.samples_over = counts.over;
      event.peak = counts.peak;
    }
    worker_.events.send("pool", message_to_json(event));
  }

  Worker& worker_;
  std::shared_ptr<PoolJournal> journal_;
  std::function<std::optional<Bytes>()> read_;
  std::vector<Requests> requests_;  // one per model
  std::vector<std::size_t> due_;    // models that run on this frame
  std::vector<std::int64_t> frame_times_;
  std::int64_t frames_ = 0;
  std::atomic<std::int64_t> sequence_ = 0;  // also read by the threads that load
  std::atomic<bool> is_out_of_memory_ = false;
  std::optional<Bytes> baseline_;
  std::unique_ptr<BudgetWatch> watch_;
  TaskThreads threads_;
  pool::Pool pool_;  // destroyed first, because its loads use the members above
};

Result<pool::MemoryMeter> meter_of(const WorkerJob& job) {
  const std::string& device = job.models.front().settings.device;
  return device == "cpu" ? pool::process_meter() : pool::device_meter(device);
}

// Ends the process without destructors: a thread that hangs in a runtime still uses the objects that they
// would destroy.
[[noreturn]] void end_at_once(Worker& worker, const Status& ran) {
  if (!ran) {
    worker.events.send_error(ran.error(), inference::is_out_of_memory(ran.error()));
    ::_exit(1);
  }
  worker.events.send("done");
  ::_exit(0);
}

}  // namespace

Status run_pooled(Worker& worker) {
  // Makes freed memory go back to the system. Otherwise it stays resident and counts in the budget
  // (docs/model-pool.md).
  ::mallopt(M_MMAP_THRESHOLD, 64 << 10);
  ::mallopt(M_ARENA_MAX, 2);
  // so that frames count as the process's memory, not as a model's
  if (worker.ring) worker.ring->touch_pages();
  // The figures of a model are found by its position in the job, so each model is announced, even if it is
  // never loaded.
  for (const WorkerModel& model : worker.job.models)
    worker.events.send("model", message_to_json(ModelFacts{.name = model.name}));
  auto meter = meter_of(worker.job);
  if (!meter) return forward_error(meter);
  auto journal = PoolJournal::open(worker.job.pool->events_to);
  if (!journal) return forward_error(journal);
  PooledRun run(worker, std::move(*meter), std::move(*journal));
  if (auto added = run.add_models(); !added) return added;
  worker.events.mark(Phase::model_loaded);
  worker.events.mark(Phase::warm);
  auto ran = run.run();
  worker.events.mark(Phase::running);
  const bool all_ended = run.end();
  if (!all_ended) end_at_once(worker, ran);
  if (!ran) return ran;
  worker.ring.reset();
  worker.events.mark(Phase::unloaded);
  return {};
}

}  // namespace headroom::bench
