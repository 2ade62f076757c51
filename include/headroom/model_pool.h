// Many models in one memory budget: sessions are loaded when they are asked for, and given up by what it
// costs to load them again, so that what the process has never passes the budget.
//
//   headroom::ModelPool pool({.budget_bytes = 256 << 20});
//   pool.add({.name = "face", .path = "face.onnx"});
//   headroom::PoolSession session = pool.acquire("face");   // loads it, and gives up others, if it must
//   if (!session) return complain(session.message());
//   session.set_input(0, pixels.data(), pixels.size() * sizeof(float), {1, 3, 128, 128});
//   session.run();
//   headroom::PoolTensor scores = session.output(0);        // until the session's end, or its next run
//
// All functions of a ModelPool may be called from any thread, but moves; a PoolSession belongs to one thread
// at a time. What was moved from may be assigned to or destroyed, nothing else. Sizes are bytes. Wrong use
// and failed runs are exceptions of the standard library with one sentence; that a session is not to be had
// is no exception, but its refusal. docs/model-pool.md says how it decides.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

struct ModelPoolOptions {
  // Of the whole process: what it has already when the pool is made is part of it. Runtimes are started by
  // the first add() of a model of theirs, and count as the process's own.
  std::int64_t budget_bytes = 0;
  // Whose memory it is: "cpu", that of this process; "cuda:N", that of a GPU. Under the preload library of
  // `headroom run` the latter is what this process has of it (and of the machine, where they are one);
  // without, what the driver says is taken, whoever has it.
  std::string device = "cpu";
  std::optional<std::int64_t> margin_bytes{};  // of the budget that is kept free; absent: a sixteenth
  std::optional<std::chrono::nanoseconds> unload_after_idle{};  // absent: only to make room
  // Each raises a waiting request's priority by one; at least a millisecond.
  std::chrono::nanoseconds patience = std::chrono::milliseconds(250);
  // Most that a load for which others must be given up waits while sessions are in use, so that several
  // threads' loads come together: fewer loads by many threads, for later answers (docs/model-pool.md).
  // Requests with a deadline do not wait.
  std::chrono::nanoseconds load_delay{0};
  std::chrono::nanoseconds load_timeout = std::chrono::seconds(60);  // a load or free that takes longer hangs
  // More than 0: memory for decoded frames, taken whole when the pool is made (ModelPool::frames()).
  std::int64_t frame_bytes = 0;
  // More than 0: an arena that the sessions of ONNX Runtime on the CPU share for what runs
  // need beside weights; taken whole at the first add() of such a model. Sessions that run at the same time
  // need its size together; it grows if it is too small. There is one in a process: the first pool's.
  std::int64_t arena_bytes = 0;
  // Letters, digits, '_' and '-': tells the pool's figures to `headroom watch` and `headroom serve` on this
  // machine, four times a second. Empty: to nobody.
  std::string name{};
  // A file for a JSON line an event (docs/model-pool.md); empty: none. A pipe that is full loses lines.
  std::string events_to{};
};

struct PoolModel {
  std::string name{};
  std::string path{};          // .onnx, .ort, .pt, .torchscript, .engine: whatever a plug-in reads
  std::string backend{};       // "onnxruntime", "libtorch", "tensorrt"; empty: by the file's extension
  std::string device = "cpu";  // the pool's
  int threads = 1;             // of one run; 0: the runtime's choice
  bool arena = true, prepacking = true, memory_pattern = true;  // what headroom bench --tune finds
  int image_size = 640;  // for dimensions that the model leaves open, when it is warmed
  // In a process of its own: its crash, by a signal too, is a run that throws, a load that hangs is ended,
  // and all that it took is back when it is unloaded. Costs that process (9 to 14 MiB with ONNX Runtime) and
  // a copy of inputs and outputs in each run. On the CPU, without inputs or outputs of strings.
  bool isolated = false;
  int sessions = 1;  // at the same time; a further one is made where there is room without giving up others
  // Beside what the process has: most while it is loaded, and most when it runs, as headroom bench reports
  // them. 0: learnt from the first load, for which first_load_bytes (0: 64 MiB) are reserved.
  std::int64_t load_peak_bytes = 0, run_peak_bytes = 0, first_load_bytes = 0;
};

struct PoolRequest {
  std::optional<std::chrono::nanoseconds> deadline{};  // from now; 0: only if it is ready; absent: none
  int priority = 0;                                    // higher first
};

enum class PoolRefusal {
  none,
  unknown_model,
  too_large,    // it can never be loaded inside the budget
  no_room,      // what is pinned, hangs, or did not come back leaves too little
  deadline,     // it was not ready in time
  load_failed,  // also for a while after a failure
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

// What a model takes or gives. A dimension of -1 is open.
struct PoolTensorSpec {
  std::string name{};
  PoolElement type = PoolElement::unknown;
  std::vector<std::int64_t> dims;
};

// Numbers in the runtime's memory, row by row. `data` is null for what is not plain numbers.
struct PoolTensor {
  const void* data = nullptr;
  PoolElement type = PoolElement::unknown;
  std::vector<std::int64_t> dims;
};

// Since the pool was made. Bytes by the pool's books, times in seconds.
struct PoolMetrics {
  // Of acquire(): a hit got a loaded session at once, a wait none or one later; what was refused at once is
  // neither. Refusals are of preload(), too.
  std::int64_t requests = 0, hits = 0, waits = 0, refusals = 0;
  std::int64_t loads = 0, load_failures = 0, hangs = 0, evictions = 0, unloads = 0;
  double load_seconds = 0, reload_seconds = 0, wait_seconds = 0;
  std::int64_t budget_bytes = 0, used_bytes = 0, peak_used_bytes = 0;
  std::int64_t resident_bytes = 0, loading_bytes = 0;
  std::int64_t unaccounted_bytes =
      0;                         // measured beyond the books: what did not come back, and the program's own
  std::int64_t stuck_bytes = 0;  // of loads and frees that hang
  std::int64_t measured_bytes = 0;                      // what the process had at the last reading
  std::int64_t promised_bytes = 0, returned_bytes = 0;  // by all unloads
  std::int64_t short_returns = 0;  // unloads that gave back less than nine tenths of what they promised
  std::int64_t lost_events = 0;    // lines that events_to had no room for, or nobody who read them
};

class ModelPool;

// A session that its owner has alone, until this object's end. It may outlive the pool, but not the memory of
// its inputs: ModelPool::frames() ends with the pool. One that was never given or that was moved from is
// false, and all but assigning to it throws std::logic_error.
class __attribute__((visibility("default"))) PoolSession {
 public:
  PoolSession() noexcept;
  PoolSession(PoolSession&&) noexcept;
  PoolSession& operator=(PoolSession&&) noexcept;
  ~PoolSession();

  explicit operator bool() const;
  PoolRefusal refusal() const;
  const std::string& message() const;  // why there is no session, as one sentence

  const std::vector<PoolTensorSpec>& inputs() const;
  const std::vector<PoolTensorSpec>& outputs() const;
  // Copies nothing: `data` is read by run(), and stays valid and in place until the session's end or the next
  // set_input(). `bytes` must be what `dims` and the input's type need; throws std::invalid_argument if not.
  void set_input(std::size_t index, void* data, std::size_t bytes, const std::vector<std::int64_t>& dims);
  // Throws std::runtime_error where the model fails. The session goes back to the pool all the same, and to
  // whoever asks next: discard() one whose runs fail for any reason but their inputs. (One whose process has
  // died is freed by itself.)
  void run();
  // Of the last run(); throws std::logic_error if there was none since acquire() and the last set_input().
  PoolTensor output(std::size_t index);
  // Ends it so that nobody gets it again: it is freed.
  void discard();

 private:
  friend class ModelPool;
  struct State;
  explicit PoolSession(std::unique_ptr<State> state);
  State& state() const;
  std::unique_ptr<State> state_;
};

class __attribute__((visibility("default"))) ModelPool {
 public:
  // Throws std::invalid_argument of sizes and times that cannot be, std::runtime_error where memory for
  // frames, the file of events, a thread or /proc is not to be had.
  explicit ModelPool(const ModelPoolOptions& options);
  // Tells those who wait, waits for a load in progress and then frees what is not in use: each at most
  // load_timeout, after which its thread is left to itself.
  ~ModelPool();
  ModelPool(ModelPool&&) noexcept;
  ModelPool& operator=(ModelPool&&) noexcept;

  // Loads the runtime if it is the first model of it, but not the model; that waits for a load in progress,
  // so that what the runtime takes is known to be its own. Throws std::invalid_argument of a name that is
  // taken, sizes that cannot be, or a backend or arena that is not to be had.
  void add(const PoolModel& model);
  // Waits for a session. Whoever has a session should ask for another one with a deadline: the memory of the
  // first may be what the second needs.
  PoolSession acquire(std::string_view model, const PoolRequest& request = {});
  // Loads it without using it, which counts as one use when something must be given up. False: it was
  // refused; `why` says it, if given.
  bool preload(std::string_view model, const PoolRequest& request = {}, std::string* why = nullptr);
  // A pinned model is not given up once it is loaded. False: unknown.
  bool pin(std::string_view model, bool pinned = true);
  // Frees its sessions that nobody uses, soon. False: unknown.
  bool unload(std::string_view model);
  PoolMetrics metrics() const;
  // The memory of ModelPoolOptions::frame_bytes, all of it in place; null without. It can be shared with a
  // process that decodes: frames_fd() is a memfd of sealed size, in which they begin at frames_offset().
  std::uint8_t* frames();
  int frames_fd() const;  // -1 without
  static std::int64_t frames_offset();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace headroom
