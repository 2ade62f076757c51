// The public header over the pool (pool.h), the backends and the frame memory.
#include "headroom/model_pool.h"

#include <cstdio>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "inference/backend.h"
#include "media/frame_ring.h"
#include "pool/event_lines.h"
#include "pool/pool.h"
#include "pool/ready_session.h"

namespace headroom {
namespace {

Nanoseconds nanoseconds(std::chrono::nanoseconds time) { return {time.count()}; }

// The same names in the same order: pool_events.h.
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

// Each event as a line of its own; a line that cannot be written is lost, and the pool goes on.
class EventFile {
 public:
  explicit EventFile(const std::string& path) : file_(std::fopen(path.c_str(), "we")) {
    if (file_ == nullptr)
      throw std::runtime_error("cannot write the pool's events to " + path + ": check the path");
  }
  ~EventFile() { std::fclose(file_); }
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;
  void write(const std::string& line) {
    const std::lock_guard lock(mutex_);
    std::fputs((line + "\n").c_str(), file_);
    std::fflush(file_);
  }

 private:
  std::mutex mutex_;
  std::FILE* file_;
};

}  // namespace

struct PoolSession::State {
  pool::Lease lease;
  std::vector<PoolTensorSpec> inputs, outputs;
  std::vector<TensorView> views;
  bool has_foreign_inputs = false;

  pool::ReadySession* ready() const { return static_cast<pool::ReadySession*>(lease.session()); }
  pool::ReadySession& checked() const {
    if (ready() == nullptr)
      throw std::logic_error("this session is none: " +
                             (lease.message().empty() ? "it has ended" : lease.message()));
    return *ready();
  }
  // Whoever gets it next must not find inputs that are gone.
  void end() {
    if (ready() == nullptr) return;
    if (has_foreign_inputs && !ready()->bind_own_inputs())
      lease.discard();
    else
      lease.release();
  }
};

PoolSession::PoolSession(std::unique_ptr<State> state) : state_(std::move(state)) {}
PoolSession::PoolSession(PoolSession&&) noexcept = default;
PoolSession& PoolSession::operator=(PoolSession&& other) noexcept {
  if (state_ != nullptr && state_ != other.state_) state_->end();
  state_ = std::move(other.state_);
  return *this;
}
PoolSession::~PoolSession() {
  if (state_ != nullptr) state_->end();
}

PoolSession::operator bool() const { return state_ != nullptr && static_cast<bool>(state_->lease); }
PoolRefusal PoolSession::refusal() const { return static_cast<PoolRefusal>(state_->lease.refusal()); }
const std::string& PoolSession::message() const { return state_->lease.message(); }
const std::vector<PoolTensorSpec>& PoolSession::inputs() const { return state_->inputs; }
const std::vector<PoolTensorSpec>& PoolSession::outputs() const { return state_->outputs; }

void PoolSession::set_input(std::size_t index, void* data, std::size_t bytes,
                            const std::vector<std::int64_t>& dims) {
  pool::ReadySession& ready = state_->checked();
  if (index >= state_->inputs.size())
    throw std::invalid_argument("the model has no input " + std::to_string(index));
  if (data == nullptr && bytes > 0)
    throw std::invalid_argument("input " + std::to_string(index) + " has no memory: `data` is null");
  const auto type = static_cast<ElementType>(state_->inputs[index].type);
  state_->has_foreign_inputs = true;
  if (const auto bound = ready.session.bind_input(index, data, bytes, type, dims); !bound)
    throw std::invalid_argument(bound.error().sentence());
}

void PoolSession::run() {
  if (const auto ran = state_->checked().session.run(); !ran)
    throw std::runtime_error(ran.error().sentence());
}

PoolTensor PoolSession::output(std::size_t index) {
  pool::ReadySession& ready = state_->checked();
  if (const auto read = ready.session.outputs(state_->views); !read)
    throw std::runtime_error(read.error().sentence());
  if (index >= state_->views.size())
    throw std::invalid_argument("the model has no output " + std::to_string(index));
  const TensorView& view = state_->views[index];
  return {view.data, static_cast<PoolElement>(view.type), {view.dims, view.dims + view.rank}};
}

void PoolSession::discard() { state_->lease.discard(); }

struct ModelPool::State {
  std::int64_t arena_bytes = 0;
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<inference::Backend>> backends;  // started, by the plug-in's name
  std::optional<media::FrameRing> frames;
  std::shared_ptr<EventFile> events;  // of the observer, too, which may be called after the pool's end
  std::unique_ptr<pool::Pool> pool;   // ends first: its loads use what stands above

  std::shared_ptr<inference::Backend> backend_for(const PoolModel& model);
};

std::shared_ptr<inference::Backend> ModelPool::State::backend_for(const PoolModel& model) {
  const auto file = inference::choose_backend(model.path, model.backend);
  if (!file) throw std::invalid_argument(file.error().sentence());
  const std::lock_guard lock(mutex);
  auto& backend = backends[file->name];
  if (backend == nullptr) {
    auto opened = inference::Backend::open(*file);
    if (!opened) throw std::invalid_argument(opened.error().sentence());
    if (const auto started = opened->start(); !started)
      throw std::invalid_argument(started.error().sentence());
    backend = std::make_shared<inference::Backend>(std::move(*opened));
  }
  if (model.device != "cpu")
    if (const auto ready = backend->prepare_device(model.device); !ready)
      throw std::invalid_argument(ready.error().sentence());
  return backend;
}

ModelPool::ModelPool(const ModelPoolOptions& options) : state_(std::make_unique<State>()) {
  if (options.budget_bytes <= 0)
    throw std::invalid_argument(
        "the budget of a model pool must be more than 0 bytes; give what the process may have");
  state_->arena_bytes = options.arena_bytes;
  if (options.frame_bytes > 0) {
    auto ring = media::FrameRing::create({options.frame_bytes});
    if (!ring) throw std::runtime_error(ring.error().sentence());
    ring->touch_pages();
    state_->frames = std::move(*ring);
  }
  pool::PoolOptions made;
  made.budget = {options.budget_bytes};
  if (options.margin_bytes) made.margin = Bytes{*options.margin_bytes};
  if (options.unload_after_idle) made.unload_after_idle = nanoseconds(*options.unload_after_idle);
  made.patience = nanoseconds(options.patience);
  made.load_timeout = nanoseconds(options.load_timeout);
  if (!options.events_to.empty()) {
    state_->events = std::make_shared<EventFile>(options.events_to);
    made.observer = [file = state_->events](const pool::Event& event) {
      file->write(pool::event_line(event));
    };
  }
  state_->pool = std::make_unique<pool::Pool>(std::move(made));
}

ModelPool::~ModelPool() {
  if (state_ != nullptr && state_->events != nullptr)
    state_->events->write(pool::metrics_line(state_->pool->metrics(), monotonic_now()));
}
ModelPool::ModelPool(ModelPool&&) noexcept = default;
ModelPool& ModelPool::operator=(ModelPool&&) noexcept = default;

void ModelPool::add(const PoolModel& model) {
  const auto backend = state_->backend_for(model);
  pool::Model added;
  added.name = model.name;
  added.memory = {{model.load_peak_bytes}, {model.run_peak_bytes}, {model.first_load_bytes}};
  added.most_sessions = model.sessions;
  added.load = [backend, model, settings = settings_of(model, state_->arena_bytes)](
                   const std::shared_ptr<void>& sibling) -> Result<std::shared_ptr<void>> {
    const auto* shared = static_cast<const pool::ReadySession*>(sibling.get());
    const bool shares = shared != nullptr && shared->session.can_share() && model.device == "cpu";
    auto ready = pool::make_ready(shares ? shared->session.share() : backend->load(model.path, settings),
                                  model.image_size);
    if (!ready) return forward_error(ready);
    return std::shared_ptr<void>(std::move(*ready));
  };
  if (const auto done = state_->pool->add(std::move(added)); !done)
    throw std::invalid_argument(done.error().sentence());
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
  to.promised_bytes = from.promised.count;
  to.returned_bytes = from.returned.count;
  return to;
}

std::uint8_t* ModelPool::frames() {
  return state_->frames ? state_->frames->pixels(media::FrameSlot{}) : nullptr;
}
int ModelPool::frames_fd() const { return state_->frames ? state_->frames->fd() : -1; }

}  // namespace headroom
