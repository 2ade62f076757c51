// Measures the model pool (docs/model-pool.md) with real ONNX Runtime sessions;
// benchmarks/results/model_pool.md.
//
//   model_pool measure NAME=FILE[@SIZE[+…]] …
//       one child process each: load time, load peak, run peak, run time (JSON lines)
//   model_pool simulate MEASURED --requests N --threads N --budget BYTES [--load-delay MS]
//       reload seconds of the pool's policy and of LRU on six traces, with the pool's code in simulated time;
//       with one thread also the theoretical minimum (model_pool_optimum.h)
//   model_pool simulate_made_up --requests N --threads N
//       the same for 48 sets of models with random sizes and load times, in three budgets
//   model_pool run MEASURED --trace T --policy cost|lru --requests N --threads N --budget BYTES
//       the same with real sessions, in a child process under a control group with the budget
//   model_pool fit NAME=FILE[@SIZE[+…]] --budget BYTES
//       how many sessions of one model fit
//
// SIZE replaces open dimensions of the model. Settings follow: +plain (no graph optimization), +unpacked (no
// pre-packed weights), +heap (no arena), +cuda (on the first GPU; the budget then limits its memory),
// +isolated (in a separate process). MEASURED is the output of `measure`. --limit none: without a control
// group, if `headroom run --gpu-mem-limit` enforces the limit.
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "inference/backend.h"
#include "limits/memory_limit.h"
#include "model_pool_simulation.h"
#include "model_pool_tables.h"
#include "model_pool_traces.h"
#include "pool/memory_meter.h"
#include "pool/pool.h"
#include "pool/ready_session.h"
#include "sources/process_table.h"

namespace headroom {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void stop(const std::string& why) {
  fmt::print(stderr, "model_pool: {}\n", why);
  std::exit(1);
}
template <class T>
T must(Result<T> result) {
  if (!result) stop(result.error().sentence());
  return std::move(*result);
}
void must(const Status& status) {
  if (!status) stop(status.error().sentence());
}

// With a small heap (see below), sessions deviate less from their measured size than the pool's default
// margin allows for.
constexpr std::int64_t kMarginPart = 32;
constexpr const char* kGpu = "cuda:0";

struct Measured {
  std::string name, path, text;  // text: as typed
  int image_size = 320;
  RuntimeSettings settings;
  bool isolated = false;
  Nanoseconds load_time, run_time;
  Bytes load_peak, run_peak;
  Bytes baseline;  // of the process without a model
};

Measured parse_model(const std::string& text) {
  const std::size_t equals = text.find('='), at = text.rfind('@');
  if (equals == std::string::npos) stop("invalid model: use NAME=FILE[@SIZE], not " + text);
  Measured model;
  model.name = text.substr(0, equals);
  model.path = text.substr(equals + 1, at == std::string::npos ? at : at - equals - 1);
  if (at != std::string::npos) model.image_size = std::stoi(text.substr(at + 1));
  model.settings.threads = 1;
  if (text.find("+plain") != std::string::npos) model.settings.graph_level = 0;
  if (text.find("+unpacked") != std::string::npos) model.settings.prepacking = false;
  if (text.find("+heap") != std::string::npos) model.settings.arena = false;
  if (text.find("+cuda") != std::string::npos) model.settings.device = kGpu;
  model.isolated = text.find("+isolated") != std::string::npos;
  model.text = text;
  return model;
}

inference::Backend start_backend(const std::string& device) {
  auto backend = must(inference::Backend::open(must(inference::choose_backend("model.onnx", "", device))));
  must(backend.start());
  if (device == kGpu) must(backend.prepare_device(device));
  return backend;
}
// A process whose models are all isolated needs no runtime.
std::optional<inference::Backend> backend_for(const std::vector<Measured>& models) {
  for (const Measured& model : models)
    if (!model.isolated) return start_backend(model.settings.device);
  return std::nullopt;
}
Result<inference::Session> load_session(std::optional<inference::Backend>& backend, const Measured& model) {
  constexpr Nanoseconds kLongest{60'000'000'000};
  if (!model.isolated) return backend->load(model.path, model.settings);
  auto file = inference::choose_backend(model.path, "", model.settings.device);
  if (!file) return forward_error(file);
  return inference::load_isolated(*file, model.path, model.settings, kLongest);
}
pool::MemoryMeter meter_of(const std::string& device) {
  return device == kGpu ? must(pool::device_meter(device)) : pool::process_meter();
}

Bytes peak_rss() {
  return sources::read_process_memory(::getpid(), sources::ProcessDetail::status).rss_peak.value_or(Bytes{});
}
Bytes rss() {
  return sources::read_process_memory(::getpid(), sources::ProcessDetail::status).rss.value_or(Bytes{});
}
Bytes own() { return pool::own_bytes().value_or(Bytes{}); }

// Runs in a new process. The first load is not measured: it includes the runtime's pages and waits for the
// disk.
int measure_one(const std::string& text) {
  Measured model = parse_model(text);
  const pool::MemoryMeter meter = meter_of(model.settings.device);
  auto backend = backend_for({model});
  const auto read = [&] { return meter.read().value_or(Bytes{}); };
  const Bytes baseline = read();
  for (int round = 0; round < 6; ++round) {
    if (round == 1) model.load_peak = model.run_peak = {};
    ::malloc_trim(0);
    const Bytes before = read();
    const auto peak = meter.watch_peak ? meter.watch_peak() : [] { return Bytes{}; };
    const Nanoseconds began = monotonic_now();
    auto ready = must(pool::make_ready(load_session(backend, model), model.image_size));
    const Nanoseconds took = monotonic_now() - began;
    model.load_peak = std::max(model.load_peak, peak());
    ::malloc_trim(0);
    model.run_peak = std::max(model.run_peak, read() - before);
    if (round == 1 || (round > 1 && took < model.load_time)) model.load_time = took;
    for (int run = 0; run < 5; ++run) {
      const Nanoseconds from = monotonic_now();
      must(ready->session.run());
      const Nanoseconds ran = monotonic_now() - from;
      if (model.run_time.count == 0 || ran < model.run_time) model.run_time = ran;
    }
  }
  Json line;
  line["name"] = model.name;
  line["model"] = text;
  line["baseline_bytes"] = baseline.count;
  line["load_ns"] = model.load_time.count;
  line["run_ns"] = model.run_time.count;
  line["load_peak_bytes"] = model.load_peak.count;
  line["run_peak_bytes"] = model.run_peak.count;
  fmt::print("{}\n", to_line(line));
  return 0;
}

int run_child(const std::vector<std::string>& arguments, limits::MemoryLimit* limit) {
  SpawnOptions options;
  options.command = {fs::read_symlink("/proc/self/exe").string()};
  options.command.insert(options.command.end(), arguments.begin(), arguments.end());
  options.stdout_fd = STDOUT_FILENO;
  if (limit != nullptr) options.before_exec = limit->entry();
  auto child = must(Subprocess::spawn(options));
  const ExitStatus status = child.wait();
  if (!status.success()) fmt::print(stderr, "model_pool: the child ended by {}\n", status.describe());
  return status.success() ? 0 : 1;
}

std::vector<Measured> read_measured(const std::string& path) {
  std::vector<Measured> models;
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const Json document = must(parse_json(line, path));
    Measured model = parse_model(get_text(document, "model"));
    model.load_time = get_nanoseconds(document, "load_ns").value_or(Nanoseconds{});
    model.run_time = get_nanoseconds(document, "run_ns").value_or(Nanoseconds{});
    model.load_peak = get_bytes(document, "load_peak_bytes").value_or(Bytes{});
    model.run_peak = get_bytes(document, "run_peak_bytes").value_or(Bytes{});
    model.baseline = get_bytes(document, "baseline_bytes").value_or(Bytes{});
    models.push_back(std::move(model));
  }
  if (models.empty()) stop("no models in " + path);
  return models;
}

std::vector<std::size_t> by_size(const std::vector<Measured>& models) {
  std::vector<std::size_t> order(models.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return models[a].run_peak < models[b].run_peak; });
  return order;
}

struct RunOptions {
  std::string measured, trace = "zipf", policy = "cost", limit = "cgroup";
  std::size_t requests = 1000;
  int threads = 8;
  Bytes budget;
  Nanoseconds load_delay;
};

std::vector<bench::SimulatedModel> simulated(const std::vector<Measured>& models) {
  std::vector<bench::SimulatedModel> made;
  for (const Measured& model : models)
    made.push_back({model.load_time, model.run_time, model.load_peak, model.run_peak});
  return made;
}

int simulate(const RunOptions& run) {
  const std::vector<Measured> models = read_measured(run.measured);
  bench::print_simulated_runs({simulated(models),
                               by_size(models),
                               run.budget,
                               {run.budget.count / kMarginPart},
                               models.front().baseline,
                               run.requests,
                               run.threads,
                               run.load_delay});
  return 0;
}

// What the sampler measured, once per millisecond, during the requests.
struct Samples {
  std::int64_t count = 0, over_books = 0, over_process = 0;
  Bytes most_books, most_process;
  Bytes unaccounted;  // the sum
};

int run_under_limit(const RunOptions& run) {
  // Blocks of 64 KiB and more return to the system when freed, and threads share two heaps.
  ::mallopt(M_MMAP_THRESHOLD, 64 << 10);
  ::mallopt(M_ARENA_MAX, 2);
  const std::vector<Measured> models = read_measured(run.measured);
  const auto trace = bench::make_trace(run.trace, by_size(models), run.requests, 1);
  const std::string device = models.front().settings.device;
  const pool::MemoryMeter meter = meter_of(device);
  auto backend = backend_for(models);
  std::vector<std::int64_t> loads(models.size());
  std::mutex mutex;
  pool::PoolOptions options;
  options.meter = meter;
  options.budget = run.budget;
  options.margin = Bytes{run.budget.count / kMarginPart};
  if (run.policy != "lru") options.load_delay = run.load_delay;
  options.eviction = run.policy == "lru" ? pool::Eviction::least_recently_used : pool::Eviction::by_cost;
  std::map<std::string, std::size_t> numbers;
  for (std::size_t m = 0; m < models.size(); ++m) numbers[models[m].name] = m;
  options.observer = [&](const pool::Event& event) {
    if (event.kind == pool::EventKind::refused || event.kind == pool::EventKind::load_failed)
      fmt::print(stderr, "{}\n", event.message);
    if (event.kind != pool::EventKind::loaded) return;
    const std::lock_guard lock(mutex);
    ++loads[numbers.at(event.model)];
  };
  const Nanoseconds began = monotonic_now();
  Samples samples;
  std::atomic<std::int64_t> served = 0, failed = 0;
  pool::Metrics metrics;
  {
    pool::Pool pool(std::move(options));
    for (const Measured& model : models) {
      pool::Model added;
      added.name = model.name;
      added.memory = {model.load_peak, model.run_peak, {}};
      added.load = [&](const std::shared_ptr<void>&) -> Result<std::shared_ptr<void>> {
        auto ready = pool::make_ready(load_session(backend, model), model.image_size);
        if (!ready) return forward_error(ready);
        return std::shared_ptr<void>(std::move(*ready));
      };
      must(pool.add(std::move(added)));
    }
    std::atomic<bool> is_done = false;
    std::thread sampler([&] {
      while (!is_done) {
        const pool::Metrics now = pool.metrics();
        const Bytes process = meter.read().value_or(Bytes{});
        ++samples.count;
        samples.most_books = std::max(samples.most_books, now.used);
        samples.most_process = std::max(samples.most_process, process);
        samples.unaccounted += now.unaccounted;
        samples.over_books += now.used > now.budget ? 1 : 0;
        samples.over_process += process > now.budget ? 1 : 0;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    std::atomic<std::size_t> next = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < run.threads; ++t)
      threads.emplace_back([&] {
        for (std::size_t i = next++; i < trace.size(); i = next++) {
          const pool::Lease lease = pool.acquire(models[trace[i]].name);
          if (!lease || !static_cast<pool::ReadySession*>(lease.session())->session.run())
            ++failed;
          else
            ++served;
        }
      });
    for (std::thread& thread : threads) thread.join();
    is_done = true;
    sampler.join();
    metrics = pool.metrics();
  }
  double priced = 0;
  for (std::size_t m = 0; m < models.size(); ++m)
    priced += static_cast<double>(loads[m]) * models[m].load_time.seconds();
  Json line;
  line["trace"] = run.trace;
  line["policy"] = run.policy;
  line["requests"] = run.requests;
  line["threads"] = run.threads;
  line["served"] = served.load();
  line["failed_or_refused"] = failed.load();
  line["hits"] = metrics.hits;
  line["loads"] = metrics.loads;
  line["evictions"] = metrics.evictions;
  line["reload_seconds"] = metrics.reload_time.seconds();
  line["reload_seconds_priced"] = priced;
  line["wall_seconds"] = (monotonic_now() - began).seconds();
  line["budget_bytes"] = run.budget.count;
  line["mean_unaccounted_bytes"] = samples.unaccounted.count / std::max<std::int64_t>(samples.count, 1);
  line["samples"] = samples.count;
  line["samples_over_budget"] = samples.over_books + samples.over_process;
  line["most_by_books_bytes"] = samples.most_books.count;
  line["most_of_process_bytes"] = samples.most_process.count;
  line["promised_bytes"] = metrics.promised.count;
  line["returned_bytes"] = metrics.returned.count;
  line["short_returns"] = metrics.short_returns;
  fmt::print("{}\n", to_line(line));
  return failed == 0 ? 0 : 1;
}

int run_limited(const RunOptions& run) {
  std::string note;
  std::unique_ptr<limits::MemoryLimit> limit;
  if (run.limit != "none") limit = must(limits::make_memory_limit("model-pool", run.budget, run.limit, note));
  const int status = run_child({"_run", run.measured, "--trace", run.trace, "--policy", run.policy,
                                "--requests", std::to_string(run.requests), "--threads",
                                std::to_string(run.threads), "--budget", fmt::format("{}B", run.budget.count),
                                "--load-delay", std::to_string(run.load_delay.count / 1'000'000)},
                               limit.get());
  if (limit == nullptr) return status;
  const CgroupMemory account = limit->account();
  fmt::print("{{\"control_group_limit_bytes\":{},\"control_group_peak_bytes\":{},\"oom_kills\":{}}}\n",
             limit->bytes().count, account.peak.value_or(Bytes{-1}).count, account.oom_kills.value_or(-1));
  return status;
}

// A variant to run many sessions of one model: settings, with or without the pool.
struct Variant {
  std::string name;
  RuntimeSettings settings;
  bool is_pool = false;
};

std::vector<Variant> variants() {
  RuntimeSettings one_thread, tuned, with_arena;
  one_thread.threads = tuned.threads = with_arena.threads = 1;
  // The smallest settings within 5 % of the fastest, from `headroom bench --tune --threads 1` on the text
  // model.
  tuned.arena_extend = ArenaExtend::same_as_requested;
  tuned.prepacking = false;
  with_arena.shared_arena = mebibytes(64);
  return {{"naive: the runtime's own settings", {}},
          {"one thread", one_thread},
          {"tuned", tuned},
          {"pool, shared weights", one_thread, true},
          {"pool, shared weights, arena of 64 MiB", with_arena, true}};
}

void print_fit(const Measured& model, const Variant& variant, std::size_t sessions, Bytes grown,
               Nanoseconds took) {
  fmt::print(
      "| {} | {} | {} | {:.2f} | {:.2f} |\n", model.name, variant.name, sessions,
      static_cast<double>(grown.count) / static_cast<double>(std::max<std::size_t>(sessions, 1)) / (1 << 20),
      took.milliseconds() / static_cast<double>(std::max<std::size_t>(sessions, 1)));
  std::fflush(stdout);
  std::_Exit(0);  // freeing thousands of sessions takes longer than creating them
}

// Creates sessions until the next one would not fit. All stay loaded, and each has run.
int fit_one(const std::string& text, std::size_t number, Bytes budget) {
  const Measured model = parse_model(text);
  const Variant variant = variants()[number];
  auto backend = start_backend(model.settings.device);
  const Bytes before = own();
  const Nanoseconds began = monotonic_now();
  if (!variant.is_pool) {
    std::vector<std::shared_ptr<pool::ReadySession>> sessions;
    Bytes most, last = before;
    while (last + most + Bytes{budget.count / kMarginPart} <= budget) {
      sources::reset_peak_rss(::getpid());
      const Bytes resident = rss();
      auto made = pool::make_ready(backend.load(model.path, variant.settings), model.image_size);
      if (!made) break;
      sessions.push_back(std::move(*made));
      most = std::max(most, peak_rss() - resident);
      ::malloc_trim(0);
      last = own();
    }
    print_fit(model, variant, sessions.size(), last - before, monotonic_now() - began);
  }
  pool::PoolOptions options;
  options.budget = budget;
  options.margin = Bytes{budget.count / kMarginPart};
  pool::Pool pool(std::move(options));
  pool::Model added;
  added.name = model.name;
  added.most_sessions = 100'000;
  added.load = [&](const std::shared_ptr<void>& sibling) -> Result<std::shared_ptr<void>> {
    const auto* other = static_cast<const pool::ReadySession*>(sibling.get());
    auto ready = pool::make_ready(
        other != nullptr ? other->session.share() : backend.load(model.path, variant.settings),
        model.image_size);
    if (!ready) return forward_error(ready);
    return std::shared_ptr<void>(std::move(*ready));
  };
  must(pool.add(std::move(added)));
  std::vector<pool::Lease> leases;
  Nanoseconds last_at = began;
  for (;;) {
    pool::Lease lease = pool.acquire(model.name, {Nanoseconds{3'000'000'000}, 0});
    if (!lease) break;
    leases.push_back(std::move(lease));
    last_at = monotonic_now();
  }
  print_fit(model, variant, leases.size(), own() - before, last_at - began);
  return 0;
}

int fit(const std::string& text, Bytes budget) {
  fmt::print("| model | variant | sessions | MiB each | ms each |\n|---|---|---|---|---|\n");
  std::fflush(stdout);
  for (std::size_t number = 0; number < variants().size(); ++number) {
    std::string note;
    auto limit = must(limits::make_memory_limit("model-pool-fit", budget, "cgroup", note));
    if (run_child({"_fit", text, std::to_string(number), fmt::format("{}B", budget.count)}, limit.get()) != 0)
      fmt::print("| {} | {} | killed | | |\n", parse_model(text).name, variants()[number].name);
  }
  return 0;
}

int main_of(const std::vector<std::string>& arguments) {
  if (arguments.size() < 2)
    stop("no command: use measure, simulate, run or fit (see the top of model_pool.cpp)");
  const std::string& verb = arguments[0];
  if (verb == "_measure") return measure_one(arguments[1]);
  if (verb == "_fit") return fit_one(arguments[1], std::stoull(arguments[2]), must(parse_size(arguments[3])));
  if (verb == "measure") {
    int status = 0;
    for (std::size_t i = 1; i < arguments.size(); ++i)
      status |= run_child({"_measure", arguments[i]}, nullptr);
    return status;
  }
  RunOptions run;
  const bool is_made_up = verb == "simulate_made_up";
  run.measured = arguments[1];
  for (std::size_t i = is_made_up ? 1 : 2; i + 1 < arguments.size(); i += 2) {
    const std::string &flag = arguments[i], &value = arguments[i + 1];
    if (flag == "--trace") run.trace = value;
    if (flag == "--policy") run.policy = value;
    if (flag == "--requests") run.requests = std::stoull(value);
    if (flag == "--limit") run.limit = value;
    if (flag == "--threads") run.threads = std::stoi(value);
    if (flag == "--load-delay")
      run.load_delay = {std::stoll(value) * 1'000'000};  // load delay of the pool's policy
    if (flag == "--budget") run.budget = must(parse_size(value));
  }
  if (is_made_up) {
    bench::print_made_up_sets(run.requests, run.threads);
    return 0;
  }
  if (verb == "fit") return fit(arguments[1], run.budget);
  if (run.budget.count == 0)
    for (const Measured& model : read_measured(run.measured)) run.budget += Bytes{model.run_peak.count / 4};
  if (verb == "simulate") return simulate(run);
  return verb == "_run" ? run_under_limit(run) : run_limited(run);
}

}  // namespace
}  // namespace headroom

int main(int count, char** arguments) {
  return headroom::main_of(std::vector<std::string>(arguments + 1, arguments + count));
}
