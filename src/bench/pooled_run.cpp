#include "bench/pooled_run.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/json.h"
#include "bench/frame_walk.h"
#include "pool/event_file.h"
#include "pool/event_lines.h"
#include "pool/memory_meter.h"
#include "pool/pool.h"

namespace headroom::bench {
namespace {

// The first run shows ONNX Runtime what a run needs, the second takes that as one block (ready_session.cpp).
constexpr int kWarmRuns = 2;
// A reading takes 30 µs: 0.6 % of a core.
constexpr std::chrono::milliseconds kBetweenSamples{5};

// What the pool loads: a model with its own inputs and task.
struct PooledSession {
  LoadedModel model;
  std::int64_t sequence;  // whose state it has
};

// What the pool tells from its own thread, of one model since it was last asked.
struct Loads {
  std::vector<std::int64_t> took_ns;
  std::int64_t unloads = 0, evictions = 0;  // so far
  std::optional<Bytes> charge;
};

// Outlives the pool: a thread whose load was given up may still tell of it.
class PoolJournal {
 public:
  explicit PoolJournal(std::optional<pool::EventFile> file) : file_(std::move(file)) {}

  void add(const pool::Event& event) {
    if (file_) file_->write(pool::event_line(event));
    const std::lock_guard lock(mutex_);
    if (event.kind == pool::EventKind::loaded) {
      loads_[event.model].took_ns.push_back(event.took.count);
      loads_[event.model].charge = event.promised;
    } else if (event.kind == pool::EventKind::unloaded) {
      // Of several the names, separated by ", ": no name of a model here has a comma.
      for (std::size_t from = 0; from <= event.model.size();) {
        const std::size_t comma = std::min(event.model.find(", ", from), event.model.size());
        Loads& loads = loads_[event.model.substr(from, comma - from)];
        ++loads.unloads;
        if (event.cause == pool::UnloadCause::evicted) ++loads.evictions;
        from = comma + 2;
      }
    }
  }
  Loads take(const std::string& model) {
    const std::lock_guard lock(mutex_);
    Loads& loads = loads_[model];
    return {std::exchange(loads.took_ns, {}), loads.unloads, loads.evictions, loads.charge};
  }
  void write(const std::string& line) {
    if (file_) file_->write(line);
  }
  std::int64_t lost() const { return file_ ? file_->lost() : 0; }

 private:
  std::optional<pool::EventFile> file_;
  std::mutex mutex_;
  std::map<std::string, Loads> loads_;
};

// Reads what the budget is of every 5 ms, on a thread of its own.
class BudgetWatch {
 public:
  BudgetWatch(std::function<std::optional<Bytes>()> read, Bytes budget)
      : read_(std::move(read)), budget_(budget), thread_([this] { run(); }) {}
  BudgetWatch(const BudgetWatch&) = delete;
  ~BudgetWatch() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  struct Seen {
    std::int64_t samples = 0, over = 0;
    Bytes peak;
  };
  Seen seen() {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!stopped_) {
      lock.unlock();
      const auto bytes = read_();
      lock.lock();
      if (bytes) {
        ++seen_.samples;
        if (*bytes > budget_) ++seen_.over;
        seen_.peak = std::max(seen_.peak, *bytes);
      }
      wake_.wait_for(lock, kBetweenSamples, [this] { return stopped_; });
    }
  }

  std::function<std::optional<Bytes>()> read_;
  Bytes budget_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopped_ = false;
  Seen seen_;
  std::thread thread_;  // last: it uses what stands above
};

struct Requests {
  std::int64_t requests = 0, hits = 0, refusals = 0, failures = 0;
  std::string error;
  std::vector<std::int64_t> waits_ns;  // since they were told last
};

class PooledRun {
 public:
  PooledRun(Worker& worker, pool::MemoryMeter meter, std::shared_ptr<PoolJournal> journal)
      : worker_(worker),
        journal_(std::move(journal)),
        read_(meter.read),
        requests_(worker.job.models.size()),
        pool_(options_of(worker, std::move(meter), journal_)) {}

  Status add_models() {
    for (const WorkerModel& model : worker_.job.models) {
      pool::Model added;
      added.name = model.name;
      added.keeps_run_memory = model.backend == "onnxruntime" && model.settings.arena;
      // With the peak of its load known the pool does not set back the process's, which the report tells.
      // What an arena keeps is seen to the page when it is loaded.
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

  // Tells the last figures and frees all models. False: a load or free still hangs, with what it uses.
  bool end() {
    tell();
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

  // On the pool's thread.
  Result<std::shared_ptr<void>> load(const WorkerModel& model) {
    const auto same = [&](const inference::Backend& backend) { return backend.name() == model.backend; };
    inference::Backend& backend = *std::find_if(worker_.backends.begin(), worker_.backends.end(), same);
    auto loaded = LoadedModel::load(backend, model, worker_.job);
    if (!loaded) return forward_error(loaded);
    auto session = std::make_shared<PooledSession>(PooledSession{std::move(*loaded), sequence_});
    FrameTimes times;
    for (int i = 0; i < kWarmRuns; ++i)
      if (auto ran = session->model.process_blank(times); !ran) return forward_error(ran);
    return std::shared_ptr<void>(std::move(session));
  }

  // `frame` is absent where no model takes one.
  Status run_frame(const FrameView* frame, Nanoseconds decode) {
    const Nanoseconds began = monotonic_now();
    for (std::size_t m = 0; m < requests_.size(); ++m) {
      if (frames_ % worker_.job.models[m].every != 0) continue;
      if (auto ran = run_model(m, frame, decode); !ran) return ran;
      worker_.events.alive();
    }
    ++frames_;
    frame_times_.push_back((monotonic_now() - began).count);
    return {};
  }

  Status run_model(std::size_t m, const FrameView* frame, Nanoseconds decode) {
    Requests& requests = requests_[m];
    const std::int64_t hits_before = pool_.metrics().hits;
    const Nanoseconds asked = monotonic_now();
    pool::Lease lease = pool_.acquire(worker_.job.models[m].name);
    const Nanoseconds waited = monotonic_now() - asked;
    ++requests.requests;
    if (!lease) {
      ++requests.refusals;
      requests.error = lease.message();
      return {};
    }
    if (pool_.metrics().hits > hits_before)
      ++requests.hits;
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
      worker_.events.record(m, times);
      return {};
    }
    if (inference::is_out_of_memory(ran.error())) return ran;
    lease.discard();  // the others are served on
    ++requests.failures;
    requests.error = ran.error().sentence();
    return {};
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
          tell();
        }
      }
    }
    return {};
  }

  Status run_on_made_up_inputs() {
    constexpr std::int64_t kBetweenTellings = 100;
    for (std::int64_t i = 0; i < worker_.job.max_frames; ++i) {
      if (auto ran = run_frame(nullptr, {}); !ran) return ran;
      if (i % kBetweenTellings == 0) tell();
    }
    worker_.events.flush();
    tell();
    return {};
  }

  // What is new since the last time, and the counters as they stand.
  void tell() {
    const pool::Metrics metrics = pool_.metrics();
    Json event;
    event["event"] = "pool";
    event["frames_ns"] = std::exchange(frame_times_, {});
    event["models"] = Json::array();
    for (std::size_t m = 0; m < requests_.size(); ++m) {
      Requests& requests = requests_[m];
      const Loads loads = journal_->take(worker_.job.models[m].name);
      Json entry;
      entry["requests"] = requests.requests;
      entry["hits"] = requests.hits;
      entry["refusals"] = requests.refusals;
      entry["failures"] = requests.failures;
      entry["unloads"] = loads.unloads;
      entry["evictions"] = loads.evictions;
      if (!requests.error.empty()) entry["error"] = requests.error;
      set_if(entry, "charge_bytes", loads.charge);
      entry["loads_ns"] = loads.took_ns;
      entry["waits_ns"] = std::exchange(requests.waits_ns, {});
      event["models"].push_back(std::move(entry));
    }
    set_if(event, "baseline_bytes", baseline_);
    event["books_peak_bytes"] = metrics.peak_used.count;
    event["load_ns"] = metrics.load_time.count;
    event["reload_ns"] = metrics.reload_time.count;
    if (watch_ != nullptr) {
      const BudgetWatch::Seen seen = watch_->seen();
      event["samples"] = seen.samples;
      event["samples_over"] = seen.over;
      event["peak_bytes"] = seen.peak.count;
    }
    worker_.events.send(event);
  }

  Worker& worker_;
  std::shared_ptr<PoolJournal> journal_;
  std::function<std::optional<Bytes>()> read_;
  std::vector<Requests> requests_;  // one a model
  std::vector<std::int64_t> frame_times_;
  std::int64_t frames_ = 0;
  std::atomic<std::int64_t> sequence_ = 0;  // read by loads
  std::optional<Bytes> baseline_;
  std::unique_ptr<BudgetWatch> watch_;
  pool::Pool pool_;  // ends first: its loads use what stands above
};

Result<pool::MemoryMeter> meter_of(const WorkerJob& job) {
  const std::string& device = job.models.front().settings.device;
  return device == "cpu" ? pool::process_meter() : pool::device_meter(device);
}

Result<std::shared_ptr<PoolJournal>> open_journal(const std::string& path) {
  if (path.empty()) return std::make_shared<PoolJournal>(std::nullopt);
  auto file = pool::EventFile::open(path);
  if (!file) return forward_error(file);
  return std::make_shared<PoolJournal>(std::move(*file));
}

// Each model's figures go by its place in the job, also of those that are never loaded.
void name_models(Worker& worker) {
  for (const WorkerModel& model : worker.job.models) {
    Json event;
    event["event"] = "model";
    event["name"] = model.name;
    worker.events.send(event);
  }
}

// A thread that hangs in a runtime uses what this process would take down at its end.
[[noreturn]] void end_at_once(Worker& worker, const Status& ran) {
  if (!ran) {
    worker.events.send_error(ran.error(), inference::is_out_of_memory(ran.error()));
    ::_exit(1);
  }
  Json event;
  event["event"] = "done";
  worker.events.send(event);
  ::_exit(0);
}

}  // namespace

Status run_pooled(Worker& worker) {
  // What is freed goes back to the system, or it stays on the books (docs/model-pool.md).
  ::mallopt(M_MMAP_THRESHOLD, 64 << 10);
  ::mallopt(M_ARENA_MAX, 2);
  if (worker.ring) worker.ring->touch_pages();  // frames are the process's own, and no model's
  name_models(worker);
  auto meter = meter_of(worker.job);
  if (!meter) return forward_error(meter);
  auto journal = open_journal(worker.job.pool->events_to);
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
