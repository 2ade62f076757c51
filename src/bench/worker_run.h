// The conductor's side of a worker: starts it (and its decoder) under a limit, listens, samples its memory
// from outside, notices when it dies or hangs, and says what it showed.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/subprocess.h"
#include "bench/line_reader.h"
#include "bench/memory_samples.h"
#include "bench/worker_account.h"
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
  std::filesystem::path run_folder = {};    // for the times of many frames (kept_frames.h)
  int turns_fd = -1;  // with the job's turns; stays the caller's, who closes it once the worker has it
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
  static constexpr const char* kInterrupted = "interrupted";
  void stop(ModelStatus status, std::string reason);
  bool waiting_for_gate() const { return account_.waits_for_gate; }
  void open_gate();
  // All measured frames are done; in a parallel run the worker then keeps the device busy until it is let go.
  bool has_measured() const { return phase() >= Phase::running; }
  void let_go() { gate_.reset(); }
  // It is between its first measured frame and its release.
  bool is_in_run() const { return phase() == Phase::warm || phase() == Phase::running; }

  pid_t pid() const { return worker_.pid(); }
  Phase phase() const { return account_.phase(); }
  const std::string& label() const { return label_; }
  const ProcessMemory& last_sample() const { return last_sample_; }
  std::int64_t violations() const { return samples_.violations; }
  // What it said by now.
  const WorkerAccount& account() const { return account_; }
  std::int64_t frames_done() const;
  // After finished(): how it ended, and the figures of the first model. Latency summaries, memory by phase,
  // status and cause.
  ModelResult result() const;
  // Hands the times of the first model's frames over; result() is without latencies from then on.
  KeptFrames take_frames();

 private:
  WorkerRun() = default;
  void on_event(std::string_view line);
  void keep_sample_line(std::string_view line);
  void on_log_line(std::string_view who, std::string_view line);
  void classify_end(const ExitStatus& status);
  void name_dead_decoder();
  void say_excess(const ProcessMemory& sample) const;
  std::string last_words(const ExitStatus& status) const;

  std::string label_;
  limits::MemoryLimit* limit_ = nullptr;
  Nanoseconds timeout_, last_sign_;
  Subprocess worker_, decoder_;
  LineReader events_, worker_log_, decoder_log_;
  UniqueFd gate_;
  std::filesystem::path samples_path_;  // empty: none are kept, or no more
  UniqueFd samples_file_;
  std::optional<media::FrameRing> ring_;
  std::optional<ledger::Limits> device_limits_;

  WorkerAccount account_;
  MemorySamples samples_;
  ProcessMemory last_sample_;
  std::deque<std::string> last_log_lines_;  // of the worker, without terminal control
  Nanoseconds last_log_line_at_;
  std::string last_decoder_line_;
  bool share_due_ = false;  // a phase has begun since the last look at the share of pages
  std::int64_t oom_kills_at_start_ = 0;
  bool ended_ = false;
};

}  // namespace headroom::bench
