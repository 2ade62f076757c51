// What the conductor needs to run child processes: signals, lines from pipes, the children's environment, and
// helpers with one task.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "base/units.h"
#include "limits/memory_limit.h"

namespace headroom::bench {

// Ctrl-C, SIGTERM and SIGHUP as a descriptor to poll, so that an interrupted run ends in order: it stops its
// children and writes its results.
class Interrupt {
 public:
  // Blocks SIGINT, SIGTERM and SIGHUP for this process (children get them unblocked) and ignores SIGPIPE.
  static Result<Interrupt> listen();
  int fd() const { return fd_.get(); }
  // True once a signal has arrived. Reads the descriptor.
  bool requested();
  // The signal that arrived, or 0.
  int signal_number() const { return signal_; }

 private:
  explicit Interrupt(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
  int signal_ = 0;
};

// Reads lines from a pipe as they arrive.
class LineReader {
 public:
  LineReader() = default;
  explicit LineReader(UniqueFd fd);
  int fd() const { return fd_.get(); }
  bool open() const { return static_cast<bool>(fd_); }
  // Reads the available data without waiting and calls `each` for every complete line. At the end of the
  // stream, a last line without a newline counts, too, and the descriptor is closed. Lines over 64 MiB are
  // dropped.
  void read_available(const std::function<void(std::string_view)>& each);

 private:
  UniqueFd fd_;
  std::string partial_;
};

// While an object exists, programs that this thread starts, and new threads, have their memory at the same
// addresses in each run (ADDR_NO_RANDOMIZE). At random addresses, the same run uses a different number of
// pages each time (benchmarks/results/diff_power.md). If the system forbids it, as Docker's default seccomp
// profile does, nothing changes, and the worker reports that.
class FixedAddresses {
 public:
  explicit FixedAddresses(bool wanted);
  ~FixedAddresses();
  FixedAddresses(const FixedAddresses&) = delete;
  FixedAddresses& operator=(const FixedAddresses&) = delete;

 private:
  std::optional<unsigned long> before_;
};

// Whether this process has fixed addresses.
bool has_fixed_addresses();

// Environment variables for processes that load models: they stop runtimes from collecting usage data, which
// costs 3 MiB and a thread (benchmarks/results/onnxruntime_telemetry.md). Empty if the user has set the
// variable, to any value.
std::vector<std::pair<std::string, std::string>> variables_without_telemetry();
// Whether ONNX Runtime's telemetry is left on in this process.
bool allows_telemetry();

// Short-lived child processes with one task (scan, set up, annotate). The job goes in as JSON on standard
// input. JSON lines come back on descriptor 3; the last line is {"event": "done", …} or {"event": "error",
// …}.
struct HelperPlan {
  std::string verb;     // "_scan"
  std::string purpose;  // for errors: "scanning the source"
  limits::MemoryLimit* limit = nullptr;
  const char* limit_flag = "--workspace";                             // the flag that raises the limit
  std::vector<std::pair<std::string, std::string>> environment = {};  // added to Headroom's environment
  Nanoseconds timeout{120'000'000'000};                               // longest time without an event
  // The helper's current step, for the error if it dies: "reading big.png". May be empty.
  std::function<std::string()> current_step = {};
  // If true, errors in the helper's log are printed, because the helper continues after them. Other helpers
  // end with their error as the answer.
  bool repeats_errors = false;
  // Called for each event except the last.
  std::function<void(const nlohmann::ordered_json&)> on_event = {};
};

// Runs the helper until it ends and returns its "done" event. An interrupt ends the helper (SIGTERM first)
// and returns an error with why = "interrupted".
Result<nlohmann::ordered_json> run_helper(const HelperPlan& plan, const nlohmann::ordered_json& job,
                                          Interrupt& interrupt);
bool was_interrupted(const Error& error);
// True if the helper sent no event within its timeout and was killed.
bool was_silent(const Error& error);

// The helper's side: reads the job, runs `work`, and sends its answer or error. Returns the exit code.
int serve_helper(
    const std::function<Result<nlohmann::ordered_json>(const nlohmann::ordered_json& job)>& work);
// Sends an event from within `work`.
void send_helper_event(std::string_view kind);
void send_helper_event(std::string_view kind, nlohmann::ordered_json fields);

}  // namespace headroom::bench
