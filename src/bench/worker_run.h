// The conductor's side of a worker: starts it (and its decoder) under a limit, listens, samples its memory
// from outside, notices when it dies or hangs, and says what it showed.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/subprocess.h"
#include "bench/gpu_account.h"
#include "bench/interrupt.h"
#include "bench/line_reader.h"
#include "bench/worker_events.h"
#include "bench/worker_protocol.h"
#include "limits/memory_limit.h"
#include "media/frame_ring.h"
#include "model/bench_result.h"
#include "model/sample.h"
#include "trace/device_account.h"

namespace headroom::bench {

struct DecoderPlan {
  std::string metadata_path;
  Bytes arena;  // of the frame ring
};

struct WorkerPlan {
  std::string label;  // the model's name, for the log
  WorkerJob job;
  limits::MemoryLimit* limit = nullptr;  // outlives the run
  // The account of GPU memory that the worker joins; outlives the run. nullptr: an account of its own,
  // without a limit.
  const trace::DeviceAccount* device_account = nullptr;
  std::optional<DecoderPlan> decoder;
  std::vector<std::pair<std::string, std::string>> environment = {};  // of the worker, added to ours
  Nanoseconds timeout{120'000'000'000};                               // without a sign of life
  std::filesystem::path samples_path = {};  // where what is to be drawn goes as it comes (sample_lines.h)
};

// The times of a frame as they are kept by the hundred thousand: seven digits of each, in half the memory.
struct KeptFrame {
  float decode, preprocess, inference, postprocess;  // ns
  std::int32_t findings;
};

// What the events said about one model of the job.
struct ModelAccount {
  std::string name, task, input;
  bool takes_frames = false;
  std::vector<std::string> class_names;
  std::optional<Nanoseconds> load_time;
  std::optional<Bytes> resident_after_load;  // pipeline only
  std::deque<KeptFrame> frames;    // a deque: a vector that grows would hold everything twice for a moment
  std::deque<float> device_times;  // ns, of each frame; empty on the CPU
  std::optional<NodePlacement> placement;
};

// Resident bytes and peak at the end of a phase, as the worker read them of itself.
struct PhaseAccount {
  Phase phase;
  Nanoseconds time;
  std::optional<Bytes> resident, peak;
  std::optional<Nanoseconds> cpu_time;
};

class WorkerRun {
 public:
  static Result<std::unique_ptr<WorkerRun>> start(const WorkerPlan& plan);

  // Descriptors to poll; -1 entries are closed.
  std::vector<int> descriptors() const;
  void read_available();
  // Reads the worker's memory (cheap: /proc/PID/status) and counts violations of a limit.
  void sample();
  // Also its proportional share; walks page tables, so call it at the metrics interval only.
  void sample_share();
  bool share_is_due() const { return share_due_; }
  // True when the worker has ended and everything it said was read.
  bool finished();
  bool has_ended() const { return ended_; }
  bool hung() const;
  // Who was silent, for how long, and what can be done.
  std::string words_for_hang() const;
  void stop(ModelStatus status, std::string reason);
  bool waiting_for_gate() const { return waiting_; }
  void open_gate();
  // All measured frames are done; in a parallel run the worker then keeps the device busy until it is let go.
  bool has_measured() const { return phase() >= Phase::running; }
  void let_go() { gate_.reset(); }

  pid_t pid() const { return worker_.pid(); }
  Phase phase() const;
  const std::string& label() const { return label_; }
  const ProcessMemory& last_sample() const { return last_sample_; }
  const std::vector<ModelAccount>& models() const { return models_; }
  const std::vector<PhaseAccount>& phases() const { return phases_; }
  std::int64_t frames_held() const { return frames_held_; }
  std::int64_t frames_done() const;
  // What the worker had of GPUs by now.
  std::vector<GpuMemory> gpu_memory() const { return gpus_.memory(device_limits_, status_); }
  // After finished(): how it ended, and the figures of the first model. Latency summaries, memory by phase,
  // status and cause.
  ModelResult result() const;

 private:
  WorkerRun() = default;
  void on_event(std::string_view line);
  void keep_sample_line(std::string_view line);
  void on_log_line(std::string_view who, std::string_view line);
  void classify_end(const ExitStatus& status);
  void name_dead_decoder();
  void name_frames_of_a_dead_worker(ModelResult& result) const;
  bool limit_is_watched() const;
  ModelMemory memory() const;
  const PhaseAccount* account_of(Phase phase) const;

  std::string label_;
  limits::MemoryLimit* limit_ = nullptr;
  Nanoseconds timeout_, started_, last_sign_;
  Subprocess worker_, decoder_;
  LineReader events_, worker_log_, decoder_log_;
  UniqueFd gate_;
  std::filesystem::path samples_path_;  // empty: none are kept, or no more
  UniqueFd samples_file_;
  std::optional<media::FrameRing> ring_;

  std::vector<ModelAccount> models_;
  std::vector<PhaseAccount> phases_;
  GpuAccount gpus_;
  std::optional<ledger::Limits> device_limits_;
  std::vector<CleanupPoint> cleanups_;
  std::vector<MemoryPoint> series_;
  std::int64_t series_stride_ = 1, series_skipped_ = 0;
  std::deque<std::string> last_log_lines_;
  std::string last_decoder_line_;
  std::vector<std::string> warnings_;
  std::string version_;
  std::optional<Nanoseconds> runtime_load_time_;
  ProcessMemory last_sample_;
  std::optional<Bytes> pss_run_peak_, sampled_peak_, sampled_run_peak_, data_peak_;
  double run_sum_ = 0;
  std::int64_t run_samples_ = 0, violations_ = 0, frames_held_ = 0, skipped_frames_ = 0;
  bool share_due_ = false;  // a phase has begun since the last look at the share of pages
  std::int64_t oom_kills_at_start_ = 0;
  std::optional<Nanoseconds> measuring_since_, cpu_time_then_, warmup_time_;
  bool waiting_ = false, awaits_decoder_ = false, done_ = false, ended_ = false, peak_reset_works_ = true;
  ModelStatus status_ = ModelStatus::ok;
  std::string error_;
};

// Called about every `interval` while runs are under way, with the runs; for metrics and progress.
using Tick = std::function<void(const std::vector<WorkerRun*>&)>;

// Runs until all have finished. Opens the gates when every run that has not ended waits there. On an
// interrupt all are stopped and it returns false.
bool supervise(const std::vector<WorkerRun*>& runs, Interrupt& interrupt, Nanoseconds interval,
               const Tick& tick);

}  // namespace headroom::bench
