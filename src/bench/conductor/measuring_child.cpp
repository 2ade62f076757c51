#include "bench/conductor/measuring_child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <algorithm>

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/terminal.h"
#include "bench/annotated_samples.h"
#include "media/decoder.h"
#include "sources/process_table.h"
#include "trace/tracer_environment.h"

namespace headroom::bench {
namespace {

constexpr std::size_t kLogLinesKept = 12;
constexpr Nanoseconds kDecoderExitTimeout{1'000'000'000};
// A dying runtime prints its last line within milliseconds, and its end is noticed within 50 ms.
constexpr Nanoseconds kLastLineAge{1'000'000'000};

// Whether the last lines of a dying runtime mention a refused allocation.
bool mentions_refused_allocation(const std::deque<std::string>& lines) {
  return std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find("bad_alloc") != std::string::npos || line.find("out of memory") != std::string::npos ||
           line.find("Failed to allocate") != std::string::npos ||
           line.find("Cannot allocate memory") != std::string::npos;
  });
}

bool is_on_gpu(const WorkerJob& job) {
  return std::any_of(job.models.begin(), job.models.end(),
                     [](const WorkerModel& model) { return model.settings.device != "cpu"; });
}

// A worker on a GPU has the ledger loaded, which counts the device's memory and enforces its limit. Without a
// limit, a missing library only means that these figures are missing.
Status add_ledger(const WorkerPlan& plan, std::vector<std::pair<std::string, std::string>>& environment) {
  if (!is_on_gpu(plan.job)) return {};
  const auto traced = [](const auto& variable) { return variable.first == "LD_PRELOAD"; };
  if (std::any_of(environment.begin(), environment.end(), traced)) return {};
  const std::filesystem::path library = trace::gpu_tracer_library();
  if (auto there = trace::check_library(library); !there)
    return plan.device_account == nullptr || !plan.device_account->limits().any() ? Status{} : there;
  const auto variables =
      plan.device_account == nullptr
          ? trace::limited_environment(library, {}, "")
          : trace::limited_environment(library, plan.device_account->limits(), plan.device_account->file());
  environment.insert(environment.end(), variables.begin(), variables.end());
  return {};
}

}  // namespace

Result<std::unique_ptr<WorkerRun>> WorkerRun::start(const WorkerPlan& plan) {
  std::unique_ptr<WorkerRun> run(new WorkerRun);
  run->label_ = plan.label;
  run->limit_ = plan.limit;
  run->timeout_ = plan.timeout;
  run->samples_path_ = plan.samples_path;
  run->account_.run_folder = plan.run_folder;
  auto job_pipe = Pipe::create();
  auto events = Pipe::create();
  auto log_pipe = Pipe::create();
  auto decoder_log = Pipe::create();
  auto gate = Pipe::create();
  if (!job_pipe || !events || !log_pipe || !decoder_log || !gate)
    return internal_error("cannot create the worker's pipes", errno_text(errno),
                          "raise the limit on open files");
  int sockets[2] = {-1, -1};
  WorkerJob job = plan.job;
  job.use_frames = plan.decoder.has_value();
  if (plan.decoder) {
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
      return internal_error("cannot create the decoder's socket", errno_text(errno));
    auto ring = media::FrameRing::create(plan.decoder->arena);
    if (!ring) return forward_error(ring);
    run->ring_ = std::move(*ring);
  }
  UniqueFd worker_socket(sockets[0]);
  UniqueFd decoder_socket(sockets[1]);

  SpawnOptions options;
  options.command = {own_executable().string(), "_worker"};
  options.environment = plan.environment;
  for (const auto& variable : variables_without_telemetry()) options.environment.push_back(variable);
  if (auto counted = add_ledger(plan, options.environment); !counted) return forward_error(counted);
  if (plan.device_account != nullptr) run->device_limits_ = plan.device_account->limits();
  options.stdin_fd = job_pipe->read_end.get();
  options.stdout_fd = log_pipe->write_end.get();
  options.stderr_fd = log_pipe->write_end.get();
  options.inherited = {{events->write_end.get(), kEventsFd}, {gate->read_end.get(), kGateFd}};
  if (plan.turns_fd >= 0) options.inherited.emplace_back(plan.turns_fd, kTurnsFd);
  if (plan.decoder) {
    options.inherited.emplace_back(worker_socket.get(), kDecoderFd);
    options.inherited.emplace_back(run->ring_->fd(), kFrameRingFd);
  }
  if (plan.limit != nullptr) {
    options.before_exec = plan.limit->entry();
    run->oom_kills_at_start_ = plan.limit->account().oom_kills.value_or(0);
  }
  run->account_.started = run->last_sign_ = monotonic_now();
  auto worker = Subprocess::spawn(options);
  if (!worker) return forward_error(worker);
  run->worker_ = std::move(*worker);

  if (plan.decoder) {
    SpawnOptions decoder;
    decoder.command = {own_executable().string(), "_decode", plan.decoder->metadata_path};
    decoder.stderr_fd = decoder_log->write_end.get();
    decoder.inherited = {{decoder_socket.get(), kDecoderFd}, {run->ring_->fd(), kFrameRingFd}};
    auto started = Subprocess::spawn(decoder);
    if (!started) return forward_error(started);
    run->decoder_ = std::move(*started);
    run->decoder_log_ = LineReader(std::move(decoder_log->read_end));
  }
  // Close the children's ends. If they stayed open here, Headroom would not notice when a child closes its
  // own.
  job_pipe->read_end.reset();
  events->write_end.reset();
  log_pipe->write_end.reset();
  decoder_log->write_end.reset();
  gate->read_end.reset();
  run->events_ = LineReader(std::move(events->read_end));
  run->worker_log_ = LineReader(std::move(log_pipe->read_end));
  run->gate_ = std::move(gate->write_end);
  // If the worker died at once, this write fails; finished() detects the end.
  [[maybe_unused]] const auto sent = write_all(job_pipe->write_end.get(), to_line(message_to_json(job)));
  return run;
}

std::vector<int> WorkerRun::descriptors() const {
  return {events_.fd(), worker_log_.fd(), decoder_log_.fd()};
}

void WorkerRun::read_available() {
  events_.read_available([this](std::string_view line) { on_event(line); });
  worker_log_.read_available([this](std::string_view line) { on_log_line("worker", line); });
  decoder_log_.read_available([this](std::string_view line) { on_log_line("decoder", line); });
}

void WorkerRun::on_log_line(std::string_view process, std::string_view line) {
  // the worker waits for the decoder, so this shows that it is alive
  if (process != "worker") last_sign_ = monotonic_now();
  if (process != "worker" && line == media::kDecoderAliveLine) return;
  log::debug("[{} {}] {}", label_, process, line);
  if (process != "worker") {
    constexpr std::string_view kWarning = "warning: ";
    const bool is_measured =
        phase() < Phase::running;  // unmeasured runs for other models use the same frames again
    if (line.starts_with(kWarning) && is_measured && account_.warnings.size() < 100)
      account_.warnings.emplace_back(line.substr(kWarning.size()));
    last_decoder_line_ = without_terminal_control(line);
    return;
  }
  last_log_lines_.push_back(without_terminal_control(line));
  last_log_line_at_ = monotonic_now();
  if (last_log_lines_.size() > kLogLinesKept) last_log_lines_.pop_front();
}

// Lines are not parsed, so that this process stays small. The last sample may be cut short.
void WorkerRun::keep_sample_line(std::string_view line) {
  if (samples_path_.empty()) return;
  if (!samples_file_)
    samples_file_.reset(::open(samples_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  auto written = samples_file_ ? write_all(samples_file_.get(), line)
                               : Status(input_error("cannot open the file", errno_text(errno)));
  if (written) written = write_all(samples_file_.get(), "\n");
  if (written) return;
  account_.warnings.push_back(fmt::format("annotated samples are missing: {}: {}", samples_path_.string(),
                                          written.error().sentence()));
  samples_path_.clear();
}

void WorkerRun::on_event(std::string_view line) {
  last_sign_ = monotonic_now();
  if (is_sample_line(line)) return keep_sample_line(line);
  auto event = parse_json(line, "a worker's event");
  if (!event) {
    log::warning("{}: {}", label_, event.error().sentence());
    return;
  }
  const std::size_t phases = account_.phases.size();
  add_event(account_, *event);
  if (account_.phases.size() == phases) return;
  samples_.begin_phase(account_.phases.back().data);
  share_due_ = true;
}

void WorkerRun::sample() {
  if (ended_) return;
  last_sample_ = sources::read_process_memory(worker_.pid(), sources::ProcessDetail::status);
  if (!last_sample_.rss) return;
  samples_.add_peaks(*last_sample_.rss, last_sample_.data, last_sample_.file_backed);
  // A run of a millisecond may have ended, and cleaned its memory, since the last event was read. The worker
  // reports the end before it cleans. If the event has not arrived by now, the sample belongs to the run.
  const bool had_begun = phase() == Phase::warm;
  read_available();
  const std::int64_t before = samples_.violations;
  samples_.add(monotonic_now() - account_.started, last_sample_, had_begun && phase() == Phase::warm, limit_);
  if (before > 0 || samples_.violations == 0) return;
  // Logged once. The report has the number of violations and the peak.
  const bool by_reservation = limit_->mechanism() == LimitMechanism::rlimit_data;
  const Bytes counted = (by_reservation ? last_sample_.data : last_sample_.rss).value_or(Bytes{});
  log::error(
      "{} exceeds the limit of {}: {} {}; the limit is not enforced, so the run continues and is marked",
      label_, format_bytes(limit_->bytes()), format_bytes(counted), by_reservation ? "reserved" : "resident");
}

void WorkerRun::sample_share() {
  if (ended_) return;
  share_due_ = false;
  last_sample_ = sources::read_process_memory(worker_.pid(), sources::ProcessDetail::with_pss);
  const auto pss = last_sample_.pss;
  if (pss) samples_.add_share(*pss, is_in_run());
}

// At the gate, the worker waits for the others.
bool WorkerRun::hung() const {
  return !ended_ && !account_.waits_for_gate && monotonic_now() - last_sign_ > timeout_;
}

std::string WorkerRun::describe_hang() const {
  return fmt::format("{} did not respond for {}; raise --timeout if it is only slow",
                     account_.awaits_decoder ? "the frame decoder" : "the worker", format_duration(timeout_));
}

void WorkerRun::stop(ModelStatus status, std::string reason) {
  if (ended_) return;
  if (!account_.is_done) {
    account_.status = status;
    account_.error = std::move(reason);
  } else if (reason != kInterrupted) {  // its figures are complete
    account_.warnings.emplace_back("its process did not exit after the run and was killed");
  }
  worker_.signal(SIGKILL);
  last_sign_ = monotonic_now();
}

void WorkerRun::open_gate() {
  account_.waits_for_gate = false;
  last_sign_ = monotonic_now();
  [[maybe_unused]] const auto sent = write_all(gate_.get(), "g");
}

bool WorkerRun::finished() {
  if (ended_) return true;
  const auto status = worker_.poll();
  if (!status) return false;
  read_available();  // output from before its end
  ended_ = true;
  last_sample_ = {};  // it has no memory any more
  classify_end(*status);
  explain_dead_decoder();
  if (decoder_.running()) decoder_.signal(SIGKILL);
  decoder_.wait();
  read_available();
  return true;
}

// A worker can only report that its decoder is gone. The conductor knows how the decoder ended.
void WorkerRun::explain_dead_decoder() {
  if (account_.status != ModelStatus::failed || !account_.awaits_decoder) return;
  // The socket closes shortly before the process ends.
  const auto end = decoder_.wait_for(kDecoderExitTimeout);
  if (!end) return;
  account_.error = fmt::format("the frame decoder ended with {}", end->describe());
  if (end->signal == 0 && !last_decoder_line_.empty())
    account_.error += fmt::format("; last log line: '{}'", last_decoder_line_);
}

void WorkerRun::classify_end(const ExitStatus& status) {
  if (account_.status != ModelStatus::ok) return;  // already set: by the worker's error, or by stop()
  if (account_.is_done) {
    // All frames were measured. Some runtimes crash during shutdown.
    if (!status.success() && status.signal != SIGKILL)
      account_.warnings.push_back(fmt::format("its process ended with {} after the run", status.describe()));
    return;
  }
  const std::int64_t oom_kills =
      limit_ == nullptr ? 0 : limit_->account().oom_kills.value_or(0) - oom_kills_at_start_;
  account_.status = ModelStatus::oom;
  if (status.signal == SIGKILL && oom_kills > 0) {
    account_.error = fmt::format("the kernel killed it at the limit of {}", format_bytes(limit_->bytes()));
    return;
  }
  if (status.signal != 0 && mentions_refused_allocation(last_log_lines_)) {
    account_.error = fmt::format("an allocation was refused ({})", status.describe());
    return;
  }
  account_.status = ModelStatus::crashed;
  if (status.signal == SIGKILL)
    account_.error =
        "killed from outside (SIGKILL); if the machine ran out of memory, the kernel log shows it";
  else
    account_.error =
        fmt::format("{} with {}", status.signal != 0 ? "crashed" : "ended early", status.describe());
  if (const std::string line = last_log_line(status); !line.empty())
    account_.error += fmt::format("; last log line: '{}'", line);
}

// A process killed with SIGKILL prints no reason. A line from an earlier phase, or from long before the end,
// has another cause.
std::string WorkerRun::last_log_line(const ExitStatus& status) const {
  if (status.signal == SIGKILL || last_log_lines_.empty()) return {};
  const Nanoseconds printed_at = last_log_line_at_;
  if (monotonic_now() - printed_at > kLastLineAge) return {};
  if (!account_.phases.empty() && printed_at < account_.started + account_.phases.back().time) return {};
  return last_log_lines_.back();
}

std::int64_t WorkerRun::frames_done() const {
  return account_.models.empty() ? 0 : static_cast<std::int64_t>(account_.models.front().frames.size());
}

ModelResult WorkerRun::result() const {
  return result_of({label_, account_, samples_, limit_, ring_ ? std::optional(ring_->arena()) : std::nullopt,
                    ended_, account_.gpus.memory(device_limits_, account_.status)});
}

KeptFrames WorkerRun::take_frames() {
  return account_.models.empty() ? KeptFrames() : std::exchange(account_.models.front().frames, KeptFrames());
}

namespace {

// Interval between two memory samples: fine enough for a curve. 20 reads of /proc a second cost 0.1 % of a
// core.
constexpr Nanoseconds kSampleInterval{50'000'000};
// To compute PSS, the kernel walks the worker's page tables: 1 ms for 30 MiB, 4 ms for 300 MiB. This interval
// shows the peak of a phase; the pause after each reading limits the cost to 1 % of the time.
constexpr Nanoseconds kShareInterval{50'000'000};
constexpr std::int64_t kSharePauseFactor = 100;

void sample_shares(const std::vector<WorkerRun*>& runs, const ShareWatch& shares) {
  for (WorkerRun* run : runs) run->sample_share();
  if (shares.each) shares.each(runs);
}

}  // namespace

bool supervise(const std::vector<WorkerRun*>& runs, Interrupt& interrupt, Nanoseconds interval,
               const Tick& tick, const ShareWatch& shares) {
  Nanoseconds next_sample = monotonic_now();
  Nanoseconds next_tick = next_sample, next_share = next_sample;
  for (;;) {
    std::vector<pollfd> polled{{interrupt.fd(), POLLIN, 0}};
    for (const WorkerRun* run : runs)
      for (const int fd : run->descriptors())
        if (fd >= 0) polled.push_back({fd, POLLIN, 0});
    const Nanoseconds now = monotonic_now();
    Nanoseconds next = std::min(next_sample, next_tick);
    if (shares.on_a_clock) next = std::min(next, next_share);
    const auto wait_ms = std::max<std::int64_t>(0, (next - now).count / 1'000'000);
    ::poll(polled.data(), polled.size(), static_cast<int>(std::min<std::int64_t>(wait_ms, 1000)));
    if (interrupt.requested()) {
      for (WorkerRun* run : runs) run->stop(ModelStatus::failed, WorkerRun::kInterrupted);
      for (WorkerRun* run : runs)
        while (!run->finished()) ::poll(nullptr, 0, 5);
      return false;
    }
    bool all_finished = true;
    bool all_wait = true;
    bool all_measured = true;
    bool share_is_due = shares.on_a_clock && monotonic_now() >= next_share;
    for (WorkerRun* run : runs) {
      run->read_available();
      if (run->finished()) continue;
      // So that a run that ends before the next tick has its PSS measured, too.
      share_is_due = share_is_due || run->share_is_due();
      all_finished = false;
      all_wait = all_wait && run->waiting_for_gate();
      all_measured = all_measured && run->has_measured();
      if (run->hung()) run->stop(ModelStatus::timeout, run->describe_hang());
    }
    if (all_finished) return true;
    if (share_is_due) {
      const Nanoseconds started = monotonic_now();
      sample_shares(runs, shares);
      const Nanoseconds ended = monotonic_now();
      next_share = ended + std::max(kShareInterval, Nanoseconds{kSharePauseFactor * (ended - started).count});
    }
    if (all_wait)
      for (WorkerRun* run : runs)
        if (run->waiting_for_gate()) run->open_gate();
    if (all_measured)
      for (WorkerRun* run : runs) run->release();
    if (monotonic_now() >= next_sample) {
      for (WorkerRun* run : runs) run->sample();
      next_sample = monotonic_now() + kSampleInterval;
    }
    if (monotonic_now() >= next_tick) {
      sample_shares(runs, shares);
      if (tick) tick(runs);
      next_tick = monotonic_now() + interval;
    }
  }
}

}  // namespace headroom::bench
