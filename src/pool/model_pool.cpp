// Implements the public header with the pool (pool.h), the inference backends and the frame memory.
#include <map>
#include <mutex>
#include <stdexcept>

#include "headroom/model_pool.h"
#include "inference/backend.h"
#include "media/frame_ring.h"
#include "pool/memory_meter.h"
#include "pool/pool.h"
#include "pool/pool_events.h"
#include "pool/ready_session.h"

namespace headroom {
namespace {

constexpr std::string_view kBackendWithArena = "onnxruntime";

Nanoseconds nanoseconds(std::chrono::nanoseconds time) { return {time.count()}; }

template <class Done>
Done valid(Done done) {
  if (!done) throw std::invalid_argument(done.error().sentence());
  return done;
}

// The public enums have the same values in the same order: pool_events.h.
static_assert(static_cast<int>(PoolRefusal::shut_down) == static_cast<int>(pool::Refusal::shut_down));
static_assert(static_cast<int>(PoolElement::string) == static_cast<int>(ElementType::string));

pool::Request request_of(const PoolRequest& request) {
  pool::Request made;
  if (request.deadline) made.deadline = nanoseconds(*request.deadline);
  made.priority = request.priority;
  return made;
}

std::vector<PoolTensorSpec> specs_of(const std::vector<TensorSpec>& tensors) {
  std::vector<PoolTensorSpec> specs;
  for (const TensorSpec& tensor : tensors)
    specs.push_back({tensor.name, static_cast<PoolElement>(tensor.type), tensor.dims});
  return specs;
}

RuntimeSettings settings_of(const PoolModel& model, std::int64_t arena_bytes) {
  RuntimeSettings settings;
  settings.device = model.device;
  settings.threads = model.threads;
  settings.arena = model.arena;
  settings.prepacking = model.prepacking;
  settings.memory_pattern = model.memory_pattern;
  if (model.device == "cpu") settings.shared_arena = {arena_bytes};
  return settings;
}

void check_sizes(const ModelPoolOptions& options) {
  if (options.budget_bytes <= 0)
    throw std::invalid_argument(
        "invalid budget_bytes: it must be more than 0; set it to the memory that the process may use");
  if (options.margin_bytes.value_or(0) < 0 || options.frame_bytes < 0 || options.arena_bytes < 0)
    throw std::invalid_argument("margin_bytes, arena_bytes and frame_bytes must not be negative");
  if (options.load_timeout.count() <= 0 || options.patience.count() < 0 || options.load_delay.count() < 0 ||
      options.unload_after_idle.value_or(std::chrono::nanoseconds(0)).count() < 0)
    throw std::invalid_argument(
        "load_timeout must be more than 0; patience, load_delay and unload_after_idle must not be negative");
  if (options.arena_bytes > 0 && options.device != "cpu")
    throw std::invalid_argument("arena_bytes works only for sessions on the CPU; leave it unset for " +
                                options.device);
  // Doubles, because the sum of sizes near the integer limit would overflow.
  const double taken = static_cast<double>(options.frame_bytes) + static_cast<double>(options.arena_bytes) +
                       static_cast<double>(options.margin_bytes.value_or(options.budget_bytes / 16));
  if (taken >= static_cast<double>(options.budget_bytes))
    throw std::invalid_argument("margin, arena and frame memory use all of the budget of " +
                                format_bytes({options.budget_bytes}) +
                                "; raise the budget or lower the others");
}

pool::MemoryMeter meter_of(const std::string& device) {
  return device == "cpu" ? pool::process_meter() : *valid(pool::device_meter(device));
}

void check_model(const PoolModel& model) {
  if (model.load_peak_bytes < 0 || model.run_peak_bytes < 0 || model.first_load_bytes < 0)
    throw std::invalid_argument(
        "model " + model.name +
        ": load_peak_bytes, run_peak_bytes and first_load_bytes must not be negative");
  if (model.sessions < 1 || model.threads < 0 || model.image_size < 1)
    throw std::invalid_argument("model " + model.name +
                                " needs at least one session, 0 or more threads, and an image_size above 0");
  if (model.isolated && model.device != "cpu")
    throw std::invalid_argument("model " + model.name + " cannot be isolated on " + model.device +
                                ": the pool cannot account for GPU memory of another process");
}

}  // namespace

struct PoolSession::State {
  pool::Lease lease;
  std::vector<PoolTensorSpec> inputs, outputs;
  std::vector<TensorView> views;
  bool has_foreign_inputs = false;
  bool has_run = false;  // since acquire(), with the current inputs

  pool::ReadySession* ready() const { return static_cast<pool::ReadySession*>(lease.session()); }
  pool::ReadySession& checked() const {
    if (ready() == nullptr)
      throw std::logic_error("this PoolSession has no session: " +
                             (lease.message().empty() ? "it has ended" : lease.message()));
    return *ready();
  }
  // The next user of the session must not find pointers to input memory that is gone.
  void end() {
    if (ready() == nullptr) return;
    if (has_foreign_inputs && !ready()->bind_own_inputs())
      lease.discard();
    else
      lease.release();
  }
};

PoolSession::PoolSession(std::unique_ptr<State> state) : state_(std::move(state)) {}
PoolSession::PoolSession() noexcept = default;
PoolSession::PoolSession(PoolSession&&) noexcept = default;
PoolSession& PoolSession::operator=(PoolSession&& other) noexcept {
  if (state_ != nullptr && state_ != other.state_) state_->end();
  state_ = std::move(other.state_);
  return *this;
}
PoolSession::~PoolSession() {
  if (state_ != nullptr) state_->end();
}

PoolSession::State& PoolSession::state() const {
  if (state_ == nullptr)
    throw std::logic_error("this PoolSession is empty: it was default-constructed or moved from");
  return *state_;
}
PoolSession::operator bool() const { return state_ != nullptr && static_cast<bool>(state_->lease); }
PoolRefusal PoolSession::refusal() const { return static_cast<PoolRefusal>(state().lease.refusal()); }
const std::string& PoolSession::message() const { return state().lease.message(); }
const std::vector<PoolTensorSpec>& PoolSession::inputs() const { return state().inputs; }
const std::vector<PoolTensorSpec>& PoolSession::outputs() const { return state().outputs; }

void PoolSession::set_input(std::size_t index, void* data, std::size_t bytes,
                            const std::vector<std::int64_t>& dims) {
  pool::ReadySession& ready = state().checked();
  if (index >= state_->inputs.size())
    throw std::invalid_argument("the model has no input " + std::to_string(index));
  if (data == nullptr && bytes > 0)
    throw std::invalid_argument("input " + std::to_string(index) + " has no memory: `data` is null");
  const auto type = static_cast<ElementType>(state_->inputs[index].type);
  state_->has_foreign_inputs = true;
  state_->has_run = false;
  valid(ready.session.bind_input(index, data, bytes, type, dims));
}

void PoolSession::run() {
  state().has_run = false;
  if (const auto ran = state().checked().session.run(); !ran) {
    // If the model's process died, inputs cannot be rebound, so end() frees the session.
    state_->has_foreign_inputs = true;
    throw std::runtime_error(ran.error().sentence());
  }
  state_->has_run = true;
}

PoolTensor PoolSession::output(std::size_t index) {
  pool::ReadySession& ready = state().checked();
  if (!state_->has_run) throw std::logic_error("output() needs a run() first");
  if (const auto read = ready.session.outputs(state_->views); !read)
    throw std::runtime_error(read.error().sentence());
  if (index >= state_->views.size())
    throw std::invalid_argument("the model has no output " + std::to_string(index));
  const TensorView& view = state_->views[index];
  return {view.data, static_cast<PoolElement>(view.type), {view.dims, view.dims + view.rank}};
}

void PoolSession::discard() { state().lease.discard(); }

struct ModelPool::State {
  ~State();

  std::int64_t arena_bytes = 0;
  std::string device;
  Nanoseconds load_timeout;
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<inference::Backend>> backends;  // by the plug-in's name
  std::optional<media::FrameRing> frames;
  std::shared_ptr<pool::EventFile>
      events;                        // shared with the observer, which may be called after the pool's end
  std::unique_ptr<pool::Pool> pool;  // destroyed before the members above, which its loads use
  std::unique_ptr<pool::StatusFile> status;  // destroyed first: it reads the pool

  std::shared_ptr<inference::Backend> backend_for(const PoolModel& model, const inference::BackendFile& file);
  std::shared_ptr<inference::Backend> start(const inference::BackendFile& file, const std::string& on) const;
};

std::shared_ptr<inference::Backend> ModelPool::State::start(const inference::BackendFile& file,
                                                            const std::string& on) const {
  inference::Backend backend = std::move(*valid(inference::Backend::open(file)));
  valid(backend.start());
  if (arena_bytes > 0 && file.name == kBackendWithArena) valid(backend.make_arena({arena_bytes}));
  if (on != "cpu") valid(backend.prepare_device(on));
  return std::make_shared<inference::Backend>(std::move(backend));
}

std::shared_ptr<inference::Backend> ModelPool::State::backend_for(const PoolModel& model,
                                                                  const inference::BackendFile& file) {
  const std::lock_guard lock(mutex);
  auto& backend = backends[file.name];
  if (backend == nullptr) {
    pool->grow_baseline([&] { backend = start(file, model.device); });
  }
  return backend;
}

ModelPool::State::~State() {
  status.reset();
  if (pool == nullptr) return;
  pool->shut_down();
  if (events != nullptr) events->write(pool::metrics_line(pool->metrics(), monotonic_now(), events->lost()));
}

ModelPool::ModelPool(const ModelPoolOptions& options) : state_(std::make_unique<State>()) {
  check_sizes(options);
  state_->arena_bytes = options.arena_bytes;
  if (options.frame_bytes > 0) {
    auto ring = media::FrameRing::create({options.frame_bytes});
    if (!ring)
      throw std::runtime_error("cannot allocate the frame memory (frame_bytes): " + ring.error().why);
    ring->touch_pages();
    state_->frames = std::move(*ring);
  }
  state_->device = options.device;
  state_->load_timeout = nanoseconds(options.load_timeout);
  pool::PoolOptions made;
  made.meter = meter_of(options.device);
  made.budget = {options.budget_bytes};
  if (options.margin_bytes) made.margin = Bytes{*options.margin_bytes};
  if (options.unload_after_idle) made.unload_after_idle = nanoseconds(*options.unload_after_idle);
  made.patience = nanoseconds(options.patience);
  made.load_delay = nanoseconds(options.load_delay);
  made.load_timeout = nanoseconds(options.load_timeout);
  if (!options.events_to.empty()) {
    auto opened = pool::EventFile::open(options.events_to);
    if (!opened) throw std::runtime_error(opened.error().sentence());
    state_->events = std::make_shared<pool::EventFile>(std::move(*opened));
    made.observer = [file = state_->events](const pool::Event& event) {
      file->write(pool::event_line(event));
    };
  }
  state_->pool = std::make_unique<pool::Pool>(std::move(made));
  if (options.name.empty()) return;
  auto status = pool::StatusFile::open(
      options.name, options.device, [pool = state_->pool.get()]() -> PoolSample { return pool->metrics(); });
  if (!status && status.error().kind == ErrorKind::usage)
    throw std::invalid_argument(status.error().sentence());
  if (!status) throw std::runtime_error(status.error().sentence());
  state_->status = std::move(*status);
}

ModelPool::~ModelPool() = default;
ModelPool::ModelPool(ModelPool&&) noexcept = default;
ModelPool& ModelPool::operator=(ModelPool&& other) noexcept {
  std::unique_ptr<State> ended = std::exchange(state_, std::move(other.state_));
  return *this;
}

void ModelPool::add(const PoolModel& model) {
  check_model(model);
  if (model.device != state_->device)
    throw std::invalid_argument("model " + model.name + " runs on " + model.device +
                                ", but the pool's budget is for " + state_->device +
                                "; use the same device for both");
  const inference::BackendFile file =
      *valid(inference::choose_backend(model.path, model.backend, model.device));
  // An isolated process gets 90 % of the load timeout, so that a hanging model becomes a failed load.
  pool::Model added;
  added.name = model.name;
  added.memory = {{model.load_peak_bytes}, {model.run_peak_bytes}, {model.first_load_bytes}};
  added.most_sessions = model.sessions;
  added.keeps_run_memory = file.name == kBackendWithArena && model.arena;
  added.load = [model, file, backend = model.isolated ? nullptr : state_->backend_for(model, file),
                settings = settings_of(model, model.isolated ? 0 : state_->arena_bytes),
                timeout = Nanoseconds{state_->load_timeout.count / 10 * 9}](
                   const std::shared_ptr<void>& sibling) -> Result<std::shared_ptr<void>> {
    const auto* shared = static_cast<const pool::ReadySession*>(sibling.get());
    const bool shares =
        !model.isolated && shared != nullptr && shared->session.can_share() && model.device == "cpu";
    const auto load = [&]() -> Result<inference::Session> {
      if (shares) return shared->session.share();
      if (model.isolated) return inference::load_isolated(file, model.path, settings, timeout);
      return backend->load(model.path, settings);
    };
    auto ready = pool::make_ready(load(), model.image_size);
    if (!ready) return forward_error(ready);
    return std::shared_ptr<void>(std::move(*ready));
  };
  valid(state_->pool->add(std::move(added)));
}

PoolSession ModelPool::acquire(std::string_view model, const PoolRequest& request) {
  auto state = std::make_unique<PoolSession::State>();
  state->lease = state_->pool->acquire(model, request_of(request));
  if (const pool::ReadySession* ready = state->ready(); ready != nullptr) {
    state->inputs = specs_of(ready->session.description().inputs);
    state->outputs = specs_of(ready->session.description().outputs);
  }
  return PoolSession(std::move(state));
}

bool ModelPool::preload(std::string_view model, const PoolRequest& request, std::string* why) {
  const auto loaded = state_->pool->preload(model, request_of(request));
  if (!loaded && why != nullptr) *why = loaded.error().sentence();
  return loaded.has_value();
}

bool ModelPool::pin(std::string_view model, bool pinned) { return state_->pool->pin(model, pinned); }
bool ModelPool::unload(std::string_view model) { return state_->pool->unload(model); }

PoolMetrics ModelPool::metrics() const {
  const pool::Metrics from = state_->pool->metrics();
  PoolMetrics to;
  to.requests = from.requests;
  to.hits = from.hits;
  to.waits = from.waits;
  to.refusals = from.refusals;
  to.loads = from.loads;
  to.load_failures = from.load_failures;
  to.hangs = from.hangs;
  to.evictions = from.evictions;
  to.unloads = from.unloads;
  to.load_seconds = from.load_time.seconds();
  to.reload_seconds = from.reload_time.seconds();
  to.wait_seconds = from.wait_time.seconds();
  to.budget_bytes = from.budget.count;
  to.used_bytes = from.used.count;
  to.peak_used_bytes = from.peak_used.count;
  to.resident_bytes = from.resident.count;
  to.loading_bytes = from.loading.count;
  to.unaccounted_bytes = from.unaccounted.count;
  to.stuck_bytes = from.stuck.count;
  to.measured_bytes = from.measured.count;
  to.short_returns = from.short_returns;
  to.promised_bytes = from.promised.count;
  to.returned_bytes = from.returned.count;
  if (state_->events != nullptr) to.lost_events = state_->events->lost();
  return to;
}

std::uint8_t* ModelPool::frames() {
  return state_->frames ? state_->frames->pixels(media::FrameSlot{}) : nullptr;
}
std::int64_t ModelPool::frames_offset() { return media::FrameRing::arena_offset().count; }
int ModelPool::frames_fd() const { return state_->frames ? state_->frames->fd() : -1; }

}  // namespace headroom
