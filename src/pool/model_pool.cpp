// Implements the public C functions with the pool (pool.h), the inference backends and the frame memory.
#include <algorithm>
#include <cstring>
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

constexpr std::int64_t kDefault = -1;  // of sizes and times

template <class Done>
Done valid(Done done) {
  if (!done) throw std::invalid_argument(done.error().sentence());
  return done;
}

// The public enums have the same values in the same order: pool_events.h.
static_assert(static_cast<int>(PoolRefusal::shut_down) == static_cast<int>(pool::Refusal::shut_down));
static_assert(static_cast<int>(PoolElement::string) == static_cast<int>(ElementType::string));

// A copy of what the caller knows of a structure; the other fields have their defaults.
template <class Structure>
Structure complete(const Structure* given, std::size_t size, Structure defaults) {
  if (given != nullptr) std::memcpy(&defaults, given, std::min(size, sizeof defaults));
  return defaults;
}

std::string text_of(const char* text) { return text == nullptr ? "" : text; }

pool::Request request_of(std::int64_t deadline_ns, int priority) {
  pool::Request made;
  if (deadline_ns != kDefault) made.deadline = Nanoseconds{deadline_ns};
  made.priority = priority;
  return made;
}

void set_error(headroom_pool_error* error, std::int32_t kind, std::string_view message) {
  if (error == nullptr) return;
  error->kind = kind;
  const std::size_t length = std::min(message.size(), sizeof error->message - 1);
  std::memcpy(error->message, message.data(), length);
  error->message[length] = 0;
}

// No exception leaves the library: it becomes the error, and `failed` the result.
template <class Value, class Work>
Value guarded(headroom_pool_error* error, Value failed, const Work& work) {
  set_error(error, HEADROOM_POOL_OK, "");
  try {
    return work();
  } catch (const std::invalid_argument& invalid) {
    set_error(error, HEADROOM_POOL_INVALID_ARGUMENT, invalid.what());
  } catch (const std::logic_error& wrong) {
    set_error(error, HEADROOM_POOL_WRONG_USE, wrong.what());
  } catch (const std::exception& failure) {
    set_error(error, HEADROOM_POOL_FAILED, failure.what());
  }
  return failed;
}

// For functions that return the error's kind.
template <class Work>
std::int32_t kind_of(headroom_pool_error* error, const Work& work) {
  headroom_pool_error own{};
  headroom_pool_error* const told = error != nullptr ? error : &own;
  guarded(told, false, [&] {
    work();
    return true;
  });
  return told->kind;
}

// The model as the caller gave it, kept for its loads.
struct PoolModelCopy {
  std::string name{}, path{}, backend{};
  RuntimeSettings settings{};
  int image_size = 0;
  bool isolated = false;
};

PoolModelCopy copy_of(const headroom_pool_model& model, std::int64_t arena_bytes) {
  PoolModelCopy copy{
      .name = text_of(model.name), .path = text_of(model.path), .backend = text_of(model.backend)};
  copy.image_size = model.image_size;
  copy.isolated = model.isolated != 0;
  copy.settings.device = text_of(model.device);
  copy.settings.threads = model.threads;
  copy.settings.arena = model.arena != 0;
  copy.settings.prepacking = model.prepacking != 0;
  copy.settings.memory_pattern = model.memory_pattern != 0;
  if (copy.settings.device == "cpu" && !copy.isolated) copy.settings.shared_arena = {arena_bytes};
  return copy;
}

void check_sizes(const headroom_pool_options& options, const std::string& device) {
  const std::int64_t margin =
      options.margin_bytes == kDefault ? options.budget_bytes / 16 : options.margin_bytes;
  if (options.budget_bytes <= 0)
    throw std::invalid_argument(
        "invalid budget_bytes: it must be more than 0; set it to the memory that the process may use");
  if (margin < 0 || options.frame_bytes < 0 || options.arena_bytes < 0)
    throw std::invalid_argument("margin_bytes, arena_bytes and frame_bytes must not be negative");
  if (options.load_timeout_ns <= 0 || options.patience_ns < 0 || options.load_delay_ns < 0 ||
      options.unload_after_idle_ns < kDefault)
    throw std::invalid_argument(
        "load_timeout must be more than 0; patience, load_delay and unload_after_idle must not be negative");
  if (options.arena_bytes > 0 && device != "cpu")
    throw std::invalid_argument("arena_bytes works only for sessions on the CPU; leave it unset for " +
                                device);
  // Doubles, because the sum of sizes near the integer limit would overflow.
  const double taken = static_cast<double>(options.frame_bytes) + static_cast<double>(options.arena_bytes) +
                       static_cast<double>(margin);
  if (taken >= static_cast<double>(options.budget_bytes))
    throw std::invalid_argument("margin, arena and frame memory use all of the budget of " +
                                format_bytes({options.budget_bytes}) +
                                "; raise the budget or lower the others");
}

pool::MemoryMeter meter_of(const std::string& device) {
  return device == "cpu" ? pool::process_meter() : *valid(pool::device_meter(device));
}

void check_model(const headroom_pool_model& model, const PoolModelCopy& copy) {
  if (model.load_peak_bytes < 0 || model.run_peak_bytes < 0 || model.first_load_bytes < 0)
    throw std::invalid_argument(
        "model " + copy.name + ": load_peak_bytes, run_peak_bytes and first_load_bytes must not be negative");
  if (model.sessions < 1 || model.threads < 0 || model.image_size < 1)
    throw std::invalid_argument("model " + copy.name +
                                " needs at least one session, 0 or more threads, and an image_size above 0");
  if (copy.isolated && copy.settings.device != "cpu")
    throw std::invalid_argument("model " + copy.name + " cannot be isolated on " + copy.settings.device +
                                ": the pool cannot account for GPU memory of another process");
}

}  // namespace
}  // namespace headroom

struct headroom_pool_session {
  headroom::pool::Lease lease;
  std::vector<headroom_pool_tensor_spec> inputs, outputs;  // names and dims are the session's
  std::vector<headroom::TensorView> views;
  bool has_foreign_inputs = false;
  bool has_run = false;  // since it was acquired, with the current inputs

  headroom::pool::ReadySession* ready() const {
    return static_cast<headroom::pool::ReadySession*>(lease.session());
  }
  headroom::pool::ReadySession& checked() const {
    if (ready() == nullptr)
      throw std::logic_error("this PoolSession has no session: " +
                             (lease.message().empty() ? "it has ended" : lease.message()));
    return *ready();
  }
  // The next user of the session must not find pointers to input memory that is gone.
  ~headroom_pool_session() {
    if (ready() == nullptr) return;
    if (has_foreign_inputs && !ready()->bind_own_inputs())
      lease.discard();
    else
      lease.release();
  }
};

struct headroom_pool {
  explicit headroom_pool(const headroom_pool_options& options);
  ~headroom_pool();
  void add(const headroom_pool_model& model);

  std::int64_t arena_bytes = 0;
  std::string device;
  headroom::Nanoseconds load_timeout;
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<headroom::inference::Backend>> backends;  // by the plug-in's name
  std::optional<headroom::media::FrameRing> frames;
  // Shared with the observer, which may be called after the pool's end.
  std::shared_ptr<headroom::pool::EventFile> events;
  // Destroyed before the members above, which its loads use.
  std::unique_ptr<headroom::pool::Pool> pool;
  std::unique_ptr<headroom::pool::StatusFile> status;  // destroyed first: it reads the pool

 private:
  using BackendFile = headroom::inference::BackendFile;
  std::shared_ptr<headroom::inference::Backend> backend_for(const BackendFile& file);
  std::shared_ptr<headroom::inference::Backend> start(const BackendFile& file) const;
};

namespace headroom {
namespace {

std::vector<headroom_pool_tensor_spec> specs_of(const std::vector<TensorSpec>& tensors) {
  std::vector<headroom_pool_tensor_spec> specs;
  for (const TensorSpec& tensor : tensors)
    specs.push_back({tensor.name.c_str(), static_cast<std::int32_t>(tensor.type),
                     static_cast<std::int32_t>(tensor.dims.size()), tensor.dims.data()});
  return specs;
}

const headroom_pool_tensor_spec* give(const std::vector<headroom_pool_tensor_spec>& specs,
                                      std::size_t* count) {
  *count = specs.size();
  return specs.data();
}

void set_input(headroom_pool_session& session, std::size_t index, void* data, std::size_t bytes,
               const std::vector<std::int64_t>& dims) {
  pool::ReadySession& ready = session.checked();
  if (index >= session.inputs.size())
    throw std::invalid_argument("the model has no input " + std::to_string(index));
  if (data == nullptr && bytes > 0)
    throw std::invalid_argument("input " + std::to_string(index) + " has no memory: `data` is null");
  const auto type = static_cast<ElementType>(session.inputs[index].type);
  session.has_foreign_inputs = true;
  session.has_run = false;
  valid(ready.session.bind_input(index, data, bytes, type, dims));
}

void run(headroom_pool_session& session) {
  session.has_run = false;
  if (const auto ran = session.checked().session.run(); !ran) {
    // If the model's process died, inputs cannot be rebound, so the session is freed when it ends.
    session.has_foreign_inputs = true;
    throw std::runtime_error(ran.error().sentence());
  }
  session.has_run = true;
}

headroom_pool_tensor output(headroom_pool_session& session, std::size_t index) {
  pool::ReadySession& ready = session.checked();
  if (!session.has_run) throw std::logic_error("output() needs a run() first");
  if (const auto read = ready.session.outputs(session.views); !read)
    throw std::runtime_error(read.error().sentence());
  if (index >= session.views.size())
    throw std::invalid_argument("the model has no output " + std::to_string(index));
  const TensorView& view = session.views[index];
  return {view.data, static_cast<std::int32_t>(view.type), static_cast<std::int32_t>(view.rank), view.dims};
}

headroom_pool_metrics metrics_of(const headroom_pool& pool) {
  const pool::Metrics from = pool.pool->metrics();
  headroom_pool_metrics to{};
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
  if (pool.events != nullptr) to.lost_events = pool.events->lost();
  return to;
}

pool::PoolOptions options_of(const headroom_pool_options& options, const std::string& device) {
  pool::PoolOptions made;
  made.meter = meter_of(device);
  made.budget = {options.budget_bytes};
  if (options.margin_bytes != kDefault) made.margin = Bytes{options.margin_bytes};
  if (options.unload_after_idle_ns != kDefault)
    made.unload_after_idle = Nanoseconds{options.unload_after_idle_ns};
  made.patience = {options.patience_ns};
  made.load_delay = {options.load_delay_ns};
  made.load_timeout = {options.load_timeout_ns};
  return made;
}

}  // namespace
}  // namespace headroom

using namespace headroom;

headroom_pool::headroom_pool(const headroom_pool_options& options)
    : arena_bytes(options.arena_bytes),
      device(text_of(options.device)),
      load_timeout{options.load_timeout_ns} {
  check_sizes(options, device);
  if (options.frame_bytes > 0) {
    auto ring = media::FrameRing::create({options.frame_bytes});
    if (!ring)
      throw std::runtime_error("cannot allocate the frame memory (frame_bytes): " + ring.error().why);
    ring->touch_pages();
    frames = std::move(*ring);
  }
  pool::PoolOptions made = options_of(options, device);
  if (const std::string path = text_of(options.events_to); !path.empty()) {
    auto opened = pool::EventFile::open(path);
    if (!opened) throw std::runtime_error(opened.error().sentence());
    events = std::make_shared<pool::EventFile>(std::move(*opened));
    made.observer = [file = events](const pool::Event& event) { file->write(pool::event_line(event)); };
  }
  pool = std::make_unique<pool::Pool>(std::move(made));
  const std::string name = text_of(options.name);
  if (name.empty()) return;
  auto opened =
      pool::StatusFile::open(name, device, [read = pool.get()]() -> PoolSample { return read->metrics(); });
  if (!opened && opened.error().kind == ErrorKind::usage)
    throw std::invalid_argument(opened.error().sentence());
  if (!opened) throw std::runtime_error(opened.error().sentence());
  status = std::move(*opened);
}

headroom_pool::~headroom_pool() {
  status.reset();
  if (pool == nullptr) return;
  pool->shut_down();
  if (events != nullptr) events->write(pool::metrics_line(pool->metrics(), monotonic_now(), events->lost()));
}

std::shared_ptr<inference::Backend> headroom_pool::start(const BackendFile& file) const {
  inference::Backend backend = std::move(*valid(inference::Backend::open(file)));
  valid(backend.start());
  if (arena_bytes > 0 && file.name == kBackendWithArena) valid(backend.make_arena({arena_bytes}));
  if (device != "cpu") valid(backend.prepare_device(device));
  return std::make_shared<inference::Backend>(std::move(backend));
}

std::shared_ptr<inference::Backend> headroom_pool::backend_for(const BackendFile& file) {
  const std::lock_guard lock(mutex);
  auto& backend = backends[file.name];
  if (backend == nullptr) pool->grow_baseline([&] { backend = start(file); });
  return backend;
}

void headroom_pool::add(const headroom_pool_model& given) {
  const PoolModelCopy model = copy_of(given, arena_bytes);
  check_model(given, model);
  if (model.settings.device != device)
    throw std::invalid_argument("model " + model.name + " runs on " + model.settings.device +
                                ", but the pool's budget is for " + device +
                                "; use the same device for both");
  const BackendFile file = *valid(inference::choose_backend(model.path, model.backend, device));
  // An isolated process gets 90 % of the load timeout, so that a hanging model becomes a failed load.
  pool::Model added;
  added.name = model.name;
  added.memory = {{given.load_peak_bytes}, {given.run_peak_bytes}, {given.first_load_bytes}};
  added.most_sessions = given.sessions;
  added.keeps_run_memory = file.name == kBackendWithArena && model.settings.arena;
  added.load = [model, file, backend = model.isolated ? nullptr : backend_for(file),
                timeout = Nanoseconds{load_timeout.count / 10 * 9}](
                   const std::shared_ptr<void>& sibling) -> Result<std::shared_ptr<void>> {
    const auto* shared = static_cast<const pool::ReadySession*>(sibling.get());
    const bool shares =
        !model.isolated && shared != nullptr && shared->session.can_share() && model.settings.device == "cpu";
    const auto load = [&]() -> Result<inference::Session> {
      if (shares) return shared->session.share();
      if (model.isolated) return inference::load_isolated(file, model.path, model.settings, timeout);
      return backend->load(model.path, model.settings);
    };
    auto ready = pool::make_ready(load(), model.image_size);
    if (!ready) return forward_error(ready);
    return std::shared_ptr<void>(std::move(*ready));
  };
  valid(pool->add(std::move(added)));
}

extern "C" {

headroom_pool* headroom_pool_create(const headroom_pool_options* options, std::size_t options_size,
                                    headroom_pool_error* error) {
  return guarded<headroom_pool*>(error, nullptr, [&] {
    return new headroom_pool(
        complete<headroom_pool_options>(options, options_size, HEADROOM_POOL_OPTIONS_INIT));
  });
}
void headroom_pool_destroy(headroom_pool* pool) { delete pool; }

std::int32_t headroom_pool_add(headroom_pool* pool, const headroom_pool_model* model, std::size_t model_size,
                               headroom_pool_error* error) {
  return kind_of(
      error, [&] { pool->add(complete<headroom_pool_model>(model, model_size, HEADROOM_POOL_MODEL_INIT)); });
}

headroom_pool_session* headroom_pool_acquire(headroom_pool* pool, const char* model, std::int64_t deadline_ns,
                                             std::int32_t priority) {
  return guarded<headroom_pool_session*>(nullptr, nullptr, [&] {
    auto session = std::make_unique<headroom_pool_session>();
    session->lease = pool->pool->acquire(text_of(model), request_of(deadline_ns, priority));
    if (const pool::ReadySession* ready = session->ready(); ready != nullptr) {
      session->inputs = specs_of(ready->session.description().inputs);
      session->outputs = specs_of(ready->session.description().outputs);
    }
    return session.release();
  });
}

std::int32_t headroom_pool_preload(headroom_pool* pool, const char* model, std::int64_t deadline_ns,
                                   std::int32_t priority, headroom_pool_error* error) {
  return kind_of(error, [&] {
           const auto loaded = pool->pool->preload(text_of(model), request_of(deadline_ns, priority));
           if (!loaded) throw std::runtime_error(loaded.error().sentence());
         }) == HEADROOM_POOL_OK;
}

std::int32_t headroom_pool_pin(headroom_pool* pool, const char* model, std::int32_t pinned) {
  return pool->pool->pin(text_of(model), pinned != 0);
}
std::int32_t headroom_pool_unload(headroom_pool* pool, const char* model) {
  return pool->pool->unload(text_of(model));
}
void headroom_pool_get_metrics(const headroom_pool* pool, headroom_pool_metrics* metrics,
                               std::size_t metrics_size) {
  const headroom_pool_metrics known = metrics_of(*pool);
  std::memset(metrics, 0, metrics_size);
  std::memcpy(metrics, &known, std::min(metrics_size, sizeof known));
}
std::uint8_t* headroom_pool_frames(headroom_pool* pool) {
  return pool->frames ? pool->frames->pixels(media::FrameSlot{}) : nullptr;
}
std::int32_t headroom_pool_frames_fd(const headroom_pool* pool) {
  return pool->frames ? pool->frames->fd() : -1;
}
std::int64_t headroom_pool_frames_offset() { return media::FrameRing::arena_offset().count; }

void headroom_pool_session_end(headroom_pool_session* session) { delete session; }
std::int32_t headroom_pool_session_is_ready(const headroom_pool_session* session) {
  return static_cast<bool>(session->lease);
}
std::int32_t headroom_pool_session_refusal(const headroom_pool_session* session) {
  return static_cast<std::int32_t>(session->lease.refusal());
}
const char* headroom_pool_session_message(const headroom_pool_session* session) {
  return session->lease.message().c_str();
}
const headroom_pool_tensor_spec* headroom_pool_session_inputs(const headroom_pool_session* session,
                                                              std::size_t* count) {
  return give(session->inputs, count);
}
const headroom_pool_tensor_spec* headroom_pool_session_outputs(const headroom_pool_session* session,
                                                               std::size_t* count) {
  return give(session->outputs, count);
}
std::int32_t headroom_pool_session_set_input(headroom_pool_session* session, std::size_t index, void* data,
                                             std::size_t bytes, const std::int64_t* dims, std::size_t rank,
                                             headroom_pool_error* error) {
  return kind_of(error, [&] { set_input(*session, index, data, bytes, {dims, dims + rank}); });
}
std::int32_t headroom_pool_session_run(headroom_pool_session* session, headroom_pool_error* error) {
  return kind_of(error, [&] { run(*session); });
}
std::int32_t headroom_pool_session_output(headroom_pool_session* session, std::size_t index,
                                          headroom_pool_tensor* tensor, headroom_pool_error* error) {
  return kind_of(error, [&] { *tensor = output(*session, index); });
}
void headroom_pool_session_discard(headroom_pool_session* session) { session->lease.discard(); }

}  // extern "C"
