// The conductor's side of a worker. Starts the worker (and its decoder) under a limit, reads its events, and
// samples its memory from outside. Detects when it dies or hangs, and returns its results.
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
#include "base/units.h"
#include "bench/conductor/child_process.h"
#include "bench/conductor/worker_account.h"
#include "bench/conductor/worker_result.h"
#include "bench/protocol.h"
#include "limits/memory_limit.h"
#include "media/frame_ring.h"
#include "trace/device_account.h"
#include "types/bench_result.h"
#include "types/sample.h"

namespace headroom::bench {

struct DecoderPlan {
  std::string metadata_path;
  Bytes arena;  // size of the frame ring
};

struct WorkerPlan {
  std::string label;  // the model's name, for the log
  WorkerJob job;
  limits::MemoryLimit* limit = nullptr;  // must outlive the run
  // The GPU memory account that the worker joins; must outlive the run. nullptr: a private account without a
  // limit.
  const trace::DeviceAccount* device_account = nullptr;
  std::optional<DecoderPlan> decoder;
  // added to Headroom's environment, for the worker
  std::vector<std::pair<std::string, std::string>> environment = {};
  Nanoseconds timeout{120'000'000'000};     // longest time without an event
  std::filesystem::path samples_path = {};  // file for the samples to draw (annotated_samples.h)
  std::filesystem::path run_folder = {};    // folder for the times of many frames (worker_account.h)
  int turns_fd = -1;                        // socket for the job's turns; the caller closes it after start()
};

class WorkerRun {
 public:
  static Result<std::unique_ptr<WorkerRun>> start(const WorkerPlan& plan);

  // Descriptors to poll; -1 means closed.
  std::vector<int> descriptors() const;
  void read_available();
  // Reads the worker's memory (cheap: /proc/PID/status) and counts violations of a limit.
  void sample();
  // Also reads PSS. The kernel walks page tables for it, so call it only at the metrics interval.
  void sample_share();
  bool share_is_due() const { return share_due_; }
  // True when the worker has ended and all its output was read.
  bool finished();
  bool has_ended() const { return ended_; }
  bool hung() const;
  // Which process was silent, for how long, and how to raise the timeout.
  std::string describe_hang() const;
  static constexpr const char* kInterrupted = "interrupted";
  void stop(ModelStatus status, std::string reason);
  bool waiting_for_gate() const { return account_.waits_for_gate; }
  void open_gate();
  // All measured frames are done. In a parallel run, the worker then keeps the device busy until release().
  bool has_measured() const { return phase() >= Phase::running; }
  void release() { gate_.reset(); }
  // Whether the worker is between its first measured frame and the end of its run.
  bool is_in_run() const { return phase() == Phase::warm || phase() == Phase::running; }

  pid_t pid() const { return worker_.pid(); }
  Phase phase() const { return account_.phase(); }
  const std::string& label() const { return label_; }
  const ProcessMemory& last_sample() const { return last_sample_; }
  std::int64_t violations() const { return samples_.violations; }
  // The figures that the worker has reported so far.
  const WorkerAccount& account() const { return account_; }
  std::int64_t frames_done() const;
  // After finished(): how the worker ended, and the figures of the first model: latencies, memory by phase,
  // status and cause.
  ModelResult result() const;
  // Moves the frame times of the first model out; after that, result() has no latencies.
  KeptFrames take_frames();

 private:
  WorkerRun() = default;
  void on_event(std::string_view line);
  void keep_sample_line(std::string_view line);
  void on_log_line(std::string_view process, std::string_view line);
  void classify_end(const ExitStatus& status);
  void explain_dead_decoder();
  std::string last_log_line(const ExitStatus& status) const;

  std::string label_;
  limits::MemoryLimit* limit_ = nullptr;
  Nanoseconds timeout_, last_sign_;
  Subprocess worker_, decoder_;
  LineReader events_, worker_log_, decoder_log_;
  UniqueFd gate_;
  std::filesystem::path samples_path_;  // empty: samples are not kept, or no longer
  UniqueFd samples_file_;
  std::optional<media::FrameRing> ring_;
  std::optional<ledger::Limits> device_limits_;

  WorkerAccount account_;
  MemorySamples samples_;
  ProcessMemory last_sample_;
  std::deque<std::string> last_log_lines_;  // of the worker, without terminal control codes
  Nanoseconds last_log_line_at_;
  std::string last_decoder_line_;
  bool share_due_ = false;  // a phase has begun since the last PSS reading
  std::int64_t oom_kills_at_start_ = 0;
  bool ended_ = false;
};

// supervise() calls it about every `interval`, for metrics and progress.
using Tick = std::function<void(const std::vector<WorkerRun*>&)>;

// Reads the PSS of all workers together: when any of them starts a phase, and at each tick. With
// `on_a_clock`, also every 50 ms. A reading that takes longer than 0.5 ms is followed by a pause of 100 times
// its duration.
struct ShareWatch {
  bool on_a_clock = false;
  Tick each;  // called after each reading; may be empty
};

// Reads the events of all workers, samples their memory and kills those that hang, until all have ended.
// Opens the gates when every worker that has not ended waits at its gate. On an interrupt, stops all workers
// and returns false.
bool supervise(const std::vector<WorkerRun*>& runs, Interrupt& interrupt, Nanoseconds interval,
               const Tick& tick, const ShareWatch& shares = {});

}  // namespace headroom::bench
