// Runs many models in one memory budget. The pool loads a session when the program asks for it. If the
// budget is full, it first evicts idle sessions, chosen by the cost of loading them again. It starts a load
// only if the load's peak fits into the budget; the peak of a first load is an estimate unless it is given.
//
//   headroom::ModelPool pool({.budget_bytes = 256 << 20});
//   pool.add({.name = "face", .path = "face.onnx"});
//   headroom::PoolSession session = pool.acquire("face");   // loads the model; may evict others
//   if (!session) return complain(session.message());
//   session.set_input(0, pixels.data(), pixels.size() * sizeof(float), {1, 3, 128, 128});
//   session.run();
//   headroom::PoolTensor scores = session.output(0);        // valid until the next run or the session's end
//
// All functions of a ModelPool except moves may be called from any thread. A PoolSession belongs to one
// thread at a time. A moved-from object may only be assigned to or destroyed. Sizes are bytes. Wrong use
// and failed runs throw exceptions of the standard library with a one-sentence message. A session that is
// unavailable is not an exception: acquire() returns its PoolRefusal. docs/model-pool.md explains how the
// pool decides.
//
// Everything here is inline on the C functions of headroom/model_pool_c.h, so that a program can use another
// compiler and C++ library than libheadroom_model_pool.so. C++17 or later.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headroom/model_pool_c.h"

namespace headroom {

struct ModelPoolOptions {
  // Budget of the whole process, including its memory at the time when the pool is created. The first
  // add() of a model starts the model's runtime; the runtime's memory counts as the process's own.
  std::int64_t budget_bytes = 0;
  // The memory that the budget limits: "cpu", this process's memory; "cuda:N", memory of a GPU. With the
  // preload library of `headroom run`, "cuda:N" counts this process's GPU memory (and its CPU memory if
  // the GPU shares the machine's memory). Without the library, it counts all used memory that the driver
  // reports, from all processes.
  std::string device = "cpu";
  std::optional<std::int64_t> margin_bytes{};  // part of the budget to keep free; default: a sixteenth
  std::optional<std::chrono::nanoseconds> unload_after_idle{};  // default: evict only when the budget is full
  // A waiting request's priority rises by one each time this time passes. At least one millisecond.
  std::chrono::nanoseconds patience = std::chrono::milliseconds(250);
  // How long a load that needs evictions waits while sessions are in use. Meanwhile the requests of several
  // threads can share one load: fewer loads, but later answers (docs/model-pool.md). Requests with a deadline
  // do not wait.
  std::chrono::nanoseconds load_delay{0};
  std::chrono::nanoseconds load_timeout =
      std::chrono::seconds(60);  // a load or free that takes longer counts as hung
  // More than 0: size of the memory for decoded frames, allocated when the pool is created
  // (ModelPool::frames()).
  std::int64_t frame_bytes = 0;
  // More than 0: size of a CPU arena that all ONNX Runtime sessions share for the memory of runs (not
  // weights). The first add() of such a model allocates it. Sessions that run at the same time need the
  // sum of their sizes; the arena grows if it is too small. A process has one such arena, that of the
  // first pool.
  std::int64_t arena_bytes = 0;
  // Letters, digits, '_' and '-'. Under this name, the pool publishes its figures four times a second for
  // `headroom watch` and `headroom serve` on this machine. Empty: it publishes nothing.
  std::string name{};
  // Path of a file for one JSON line per event (docs/model-pool.md); empty: none. If it is a full pipe,
  // lines are lost.
  std::string events_to{};
};

struct PoolModel {
  std::string name{};
  std::string path{};          // .onnx, .ort, .pt, .torchscript, .engine or what else a plug-in reads
  std::string backend{};       // "onnxruntime", "libtorch", "tensorrt"; empty: chosen by extension
  std::string device = "cpu";  // must be the pool's device
  int threads = 1;             // threads of one run; 0: the runtime's choice
  bool arena = true, prepacking = true, memory_pattern = true;  // values that headroom bench --tune finds
  int image_size = 640;  // pixels; for the model's dynamic dimensions, in warm-up runs
  // Runs the model in a separate process. A crash, even by a signal, makes run() throw. A load that hangs
  // is killed. Unloading returns all memory. Costs: 9 to 14 MiB for the process (ONNX Runtime), and one
  // copy of inputs and outputs per run. CPU only; inputs and outputs of strings are not supported.
  bool isolated = false;
  int sessions = 1;  // most sessions at the same time; the pool evicts nothing to add a second one
  // Peak memory of a load and of a run, beyond what the process has, as headroom bench reports them. 0:
  // learnt from the first load, for which the pool reserves first_load_bytes (0: 64 MiB).
  std::int64_t load_peak_bytes = 0, run_peak_bytes = 0, first_load_bytes = 0;
};

struct PoolRequest {
  std::optional<std::chrono::nanoseconds>
      deadline{};    // from now; 0: only if a session is ready; default: none
  int priority = 0;  // higher first
};

enum class PoolRefusal {
  none,
  unknown_model,
  too_large,    // it can never fit the budget
  no_room,      // pinned, hung or unreturned memory leaves too little of the budget
  deadline,     // no session was ready in time
  load_failed,  // also for some time after a failed load
  load_hangs,
  shut_down,
};

enum class PoolElement : std::int32_t {
  unknown = 0,
  float32 = 1,
  float16 = 2,
  bfloat16 = 3,
  float64 = 4,
  int8 = 5,
  uint8 = 6,
  int16 = 7,
  uint16 = 8,
  int32 = 9,
  uint32 = 10,
  int64 = 11,
  uint64 = 12,
  boolean = 13,
  string = 14,
};

// An input or output of a model. -1 is a dynamic dimension.
struct PoolTensorSpec {
  std::string name{};
  PoolElement type = PoolElement::unknown;
  std::vector<std::int64_t> dims;
};

// A tensor in the runtime's memory, in row-major order. `data` is null if it does not hold plain numbers.
struct PoolTensor {
  const void* data = nullptr;
  PoolElement type = PoolElement::unknown;
  std::vector<std::int64_t> dims;
};

using PoolMetrics = headroom_pool_metrics;

namespace detail {

struct PoolError : headroom_pool_error {
  PoolError() : headroom_pool_error{} {}
  void check() const {
    if (kind == HEADROOM_POOL_INVALID_ARGUMENT) throw std::invalid_argument(message);
    if (kind == HEADROOM_POOL_WRONG_USE) throw std::logic_error(message);
    if (kind != HEADROOM_POOL_OK) throw std::runtime_error(message);
  }
};
// -1 is the C interface's default; every other negative value is refused.
inline std::int64_t not_default(std::int64_t value) { return value == -1 ? -2 : value; }
inline std::int64_t deadline_of(const PoolRequest& request) {
  return request.deadline ? not_default(request.deadline->count()) : -1;
}

}  // namespace detail

class ModelPool;

// Exclusive use of a session until this object is destroyed. It may outlive the pool, but not the memory
// of its inputs: ModelPool::frames() ends with the pool. Converts to false if the session was refused or
// moved from; then all functions except assignment throw std::logic_error.
class PoolSession {
 public:
  PoolSession() noexcept = default;

  explicit operator bool() const {
    return state_ != nullptr && headroom_pool_session_is_ready(state_->session.get());
  }
  PoolRefusal refusal() const {
    return static_cast<PoolRefusal>(headroom_pool_session_refusal(state().session.get()));
  }
  // Why the session was refused, as one sentence.
  const std::string& message() const { return state().message; }

  const std::vector<PoolTensorSpec>& inputs() const { return state().inputs; }
  const std::vector<PoolTensorSpec>& outputs() const { return state().outputs; }
  // Copies nothing: run() reads `data`, so it must stay valid at the same address until the session ends
  // or the next set_input(). Throws std::invalid_argument if `bytes` does not match `dims` and the input's
  // type.
  void set_input(std::size_t index, void* data, std::size_t bytes, const std::vector<std::int64_t>& dims) {
    detail::PoolError error;
    headroom_pool_session_set_input(state().session.get(), index, data, bytes, dims.data(), dims.size(),
                                    &error);
    error.check();
  }
  // Throws std::runtime_error if the model fails. The session still returns to the pool for the next
  // request. Call discard() if the runs fail for a reason other than their inputs. (The pool itself
  // discards a session whose process has died.)
  void run() {
    detail::PoolError error;
    headroom_pool_session_run(state().session.get(), &error);
    error.check();
  }
  // Output of the last run(). Throws std::logic_error if there was no run since acquire() and the last
  // set_input().
  PoolTensor output(std::size_t index) {
    detail::PoolError error;
    headroom_pool_tensor tensor{};
    headroom_pool_session_output(state().session.get(), index, &tensor, &error);
    error.check();
    return {tensor.data, static_cast<PoolElement>(tensor.type), {tensor.dims, tensor.dims + tensor.rank}};
  }
  // Ends and frees the session, so that no request gets it again.
  void discard() { headroom_pool_session_discard(state().session.get()); }

 private:
  friend class ModelPool;
  struct End {
    void operator()(headroom_pool_session* session) const { headroom_pool_session_end(session); }
  };
  struct State {
    std::unique_ptr<headroom_pool_session, End> session;
    std::string message;
    std::vector<PoolTensorSpec> inputs, outputs;
  };

  using Specs = const headroom_pool_tensor_spec* (*)(const headroom_pool_session*, std::size_t*);
  static std::vector<PoolTensorSpec> specs_of(const headroom_pool_session* session, Specs read) {
    std::size_t count = 0;
    const headroom_pool_tensor_spec* const found = read(session, &count);
    std::vector<PoolTensorSpec> specs;
    specs.reserve(count);
    for (std::size_t i = 0; i < count; ++i)
      specs.push_back({found[i].name,
                       static_cast<PoolElement>(found[i].type),
                       {found[i].dims, found[i].dims + found[i].rank}});
    return specs;
  }
  explicit PoolSession(std::unique_ptr<headroom_pool_session, End> session)
      : state_(std::make_unique<State>()) {
    state_->message = headroom_pool_session_message(session.get());
    state_->inputs = specs_of(session.get(), headroom_pool_session_inputs);
    state_->outputs = specs_of(session.get(), headroom_pool_session_outputs);
    state_->session = std::move(session);
  }
  State& state() const {
    if (state_ == nullptr)
      throw std::logic_error("this PoolSession is empty: it was default-constructed or moved from");
    return *state_;
  }
  std::unique_ptr<State> state_;
};

class ModelPool {
 public:
  // Throws std::invalid_argument for invalid sizes and times, an invalid name or an unusable device. Throws
  // std::runtime_error if it cannot create the frame memory, a file or a thread, or cannot read /proc.
  explicit ModelPool(const ModelPoolOptions& options) {
    headroom_pool_options plain = HEADROOM_POOL_OPTIONS_INIT;
    plain.budget_bytes = options.budget_bytes;
    plain.device = options.device.c_str();
    if (options.margin_bytes) plain.margin_bytes = detail::not_default(*options.margin_bytes);
    if (options.unload_after_idle)
      plain.unload_after_idle_ns = detail::not_default(options.unload_after_idle->count());
    plain.patience_ns = options.patience.count();
    plain.load_delay_ns = options.load_delay.count();
    plain.load_timeout_ns = options.load_timeout.count();
    plain.frame_bytes = options.frame_bytes;
    plain.arena_bytes = options.arena_bytes;
    plain.name = options.name.c_str();
    plain.events_to = options.events_to.c_str();
    detail::PoolError error;
    pool_.reset(headroom_pool_create(&plain, sizeof plain, &error));
    error.check();
  }
  // The destructor refuses all waiting requests, waits for a load in progress, then frees all idle sessions.
  // Each step takes at most load_timeout; after that, the pool abandons the thread of that step.

  // Adds a model without loading it. Starts the model's runtime if it is the first model of that runtime;
  // this waits for a load in progress, so that the runtime's memory can be measured. Throws
  // std::invalid_argument for a name that exists, invalid sizes, or an unavailable backend or arena.
  void add(const PoolModel& model) {
    const headroom_pool_model plain{model.name.c_str(),   model.path.c_str(),    model.backend.c_str(),
                                    model.device.c_str(), model.threads,         model.arena,
                                    model.prepacking,     model.memory_pattern,  model.image_size,
                                    model.isolated,       model.sessions,        model.load_peak_bytes,
                                    model.run_peak_bytes, model.first_load_bytes};
    detail::PoolError error;
    headroom_pool_add(pool_.get(), &plain, sizeof plain, &error);
    error.check();
  }
  // Waits for a session. A thread that already holds a session should set a deadline: the second session
  // may need the memory of the first.
  PoolSession acquire(std::string_view model, const PoolRequest& request = {}) {
    std::unique_ptr<headroom_pool_session, PoolSession::End> session(headroom_pool_acquire(
        pool_.get(), std::string(model).c_str(), detail::deadline_of(request), request.priority));
    if (session == nullptr) throw std::bad_alloc();
    return PoolSession(std::move(session));
  }
  // Loads a model without using it. Does nothing if the model is loaded. For evictions, a load counts as one
  // use. Returns false if the load was refused, and sets `why` if given.
  bool preload(std::string_view model, const PoolRequest& request = {}, std::string* why = nullptr) {
    detail::PoolError error;
    if (headroom_pool_preload(pool_.get(), std::string(model).c_str(), detail::deadline_of(request),
                              request.priority, &error))
      return true;
    if (why != nullptr) *why = error.message;
    return false;
  }
  // The pool does not evict a pinned model once it is loaded. Returns false if the model is unknown.
  bool pin(std::string_view model, bool pinned = true) {
    return headroom_pool_pin(pool_.get(), std::string(model).c_str(), pinned) != 0;
  }
  // Frees the model's idle sessions soon. Returns false if the model is unknown.
  bool unload(std::string_view model) {
    return headroom_pool_unload(pool_.get(), std::string(model).c_str()) != 0;
  }
  PoolMetrics metrics() const {
    PoolMetrics metrics{};
    headroom_pool_get_metrics(pool_.get(), &metrics, sizeof metrics);
    return metrics;
  }
  // The memory of ModelPoolOptions::frame_bytes, with all pages resident; null if it was not requested. A
  // decoder in another process can share it: frames_fd() is a memfd of sealed size, and the frames begin
  // at frames_offset().
  std::uint8_t* frames() { return headroom_pool_frames(pool_.get()); }
  int frames_fd() const { return headroom_pool_frames_fd(pool_.get()); }  // -1 if not requested
  static std::int64_t frames_offset() { return headroom_pool_frames_offset(); }

 private:
  struct Destroy {
    void operator()(headroom_pool* pool) const { headroom_pool_destroy(pool); }
  };
  std::unique_ptr<headroom_pool, Destroy> pool_;
};

}  // namespace headroom
