#include "bench/worker_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "analysis/latency_summary.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "bench/sample_lines.h"
#include "media/decoder.h"
#include "sources/process_memory.h"
#include "trace/tracer_environment.h"

namespace headroom::bench {
namespace {

// The worker's memory is read this often: fine enough for a curve, and 20 reads a second of /proc cost 0.1 %
// of a core.
constexpr Nanoseconds kSampleInterval{50'000'000};
constexpr std::size_t kSeriesPoints = 600;
constexpr std::size_t kLogLinesKept = 12;
constexpr const char* kInterruptedRun = "interrupted";
constexpr Nanoseconds kDecoderEnds{1'000'000'000};

// The words in a dying runtime's last lines that mean a refused allocation.
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

// A worker on a GPU has the ledger loaded: it keeps the account of the device's memory, and its limit.
// Without a limit a machine that lacks the library has no such figures, and no more.
Status add_ledger(const WorkerPlan& plan, std::vector<std::pair<std::string, std::string>>& environment) {
  if (!is_on_gpu(plan.job)) return {};
  const auto traced = [](const auto& variable) { return variable.first == "LD_PRELOAD"; };
  if (std::any_of(environment.begin(), environment.end(), traced)) return {};
  const std::filesystem::path library = trace::tracer_library();
  if (auto there = trace::check_library(library); !there)
    return plan.device_account == nullptr || !plan.device_account->limits().any() ? Status{} : there;
  const auto variables =
      plan.device_account == nullptr
          ? trace::ledger_environment(library, {}, "")
          : trace::ledger_environment(library, plan.device_account->limits(), plan.device_account->file());
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
  if (auto counted = add_ledger(plan, options.environment); !counted) return forward_error(counted);
  if (plan.device_account != nullptr) run->device_limits_ = plan.device_account->limits();
  options.stdin_fd = job_pipe->read_end.get();
  options.stdout_fd = log_pipe->write_end.get();
  options.stderr_fd = log_pipe->write_end.get();
  options.inherited = {{events->write_end.get(), kEventsFd}, {gate->read_end.get(), kGateFd}};
  if (plan.decoder) {
    options.inherited.emplace_back(worker_socket.get(), kDecoderFd);
    options.inherited.emplace_back(run->ring_->fd(), kFrameRingFd);
  }
  if (plan.limit != nullptr) {
    options.before_exec = plan.limit->entry();
    run->oom_kills_at_start_ = plan.limit->account().oom_kills.value_or(0);
  }
  run->started_ = run->last_sign_ = monotonic_now();
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
  // The children's ends: kept open here they would hide from us that a child has closed its own.
  job_pipe->read_end.reset();
  events->write_end.reset();
  log_pipe->write_end.reset();
  decoder_log->write_end.reset();
  gate->read_end.reset();
  run->events_ = LineReader(std::move(events->read_end));
  run->worker_log_ = LineReader(std::move(log_pipe->read_end));
  run->gate_ = std::move(gate->write_end);
  // A worker that died at once closes the pipe; its end is found by finished().
  [[maybe_unused]] const auto sent = write_all(job_pipe->write_end.get(), to_line(to_json(job)));
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

void WorkerRun::on_log_line(std::string_view who, std::string_view line) {
  if (who != "worker") last_sign_ = monotonic_now();  // the worker waits for it
  if (who != "worker" && line == media::kDecoderAliveLine) return;
  log::debug("[{} {}] {}", label_, who, line);
  if (who != "worker") {
    constexpr std::string_view kWarning = "warning: ";
    const bool is_measured =
        phase() < Phase::running;  // laps for the others' sake meet the same frames again
    if (line.starts_with(kWarning) && is_measured && warnings_.size() < 100)
      warnings_.emplace_back(line.substr(kWarning.size()));
    last_decoder_line_ = line;
    return;
  }
  last_log_lines_.emplace_back(line);
  if (last_log_lines_.size() > kLogLinesKept) last_log_lines_.pop_front();
}

// Unread, so that this process stays small whatever was found. The last sample may be cut short.
void WorkerRun::keep_sample_line(std::string_view line) {
  if (samples_path_.empty()) return;
  if (!samples_file_)
    samples_file_.reset(::open(samples_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  auto written = samples_file_ ? write_all(samples_file_.get(), line)
                               : Status(input_error("it cannot be opened", errno_text(errno)));
  if (written) written = write_all(samples_file_.get(), "\n");
  if (written) return;
  warnings_.push_back(fmt::format("annotated samples are missing: {}: {}", samples_path_.string(),
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
  const std::string kind = get_text(*event, "event");
  if (kind == "phase") {
    const auto phase = parse_phase(get_text(*event, "phase"));
    if (!phase) return;
    phases_.push_back({*phase, get_nanoseconds(*event, "time_ns").value_or(last_sign_) - started_,
                       get_bytes(*event, "resident_bytes"), get_bytes(*event, "peak_bytes"),
                       get_nanoseconds(*event, "cpu_time_ns")});
    gpus_.add_phase(*phase, get_member(*event, "gpu"));
    share_due_ = true;
    peak_reset_works_ = peak_reset_works_ && get_bool(*event, "peak_was_reset").value_or(false);
    sampled_peak_.reset();
    if (const auto data = get_bytes(*event, "data_bytes"))
      data_peak_ = std::max(data_peak_.value_or(*data), *data);
  } else if (kind == "runtime") {
    version_ = get_text(*event, "version");
    runtime_load_time_ = get_nanoseconds(*event, "load_ns");
  } else if (kind == "device") {
    gpus_.add_device(*event);
  } else if (kind == "model") {
    ModelAccount model;
    model.name = get_text(*event, "name");
    model.task = get_text(*event, "task");
    model.input = get_text(*event, "input");
    model.takes_frames = get_bool(*event, "takes_frames").value_or(false);
    model.load_time = get_nanoseconds(*event, "load_ns");
    if (const auto on_device = get_integer(*event, "nodes_on_device"))
      model.placement = NodePlacement{*on_device, get_integer(*event, "nodes_on_cpu").value_or(0),
                                      get_text(*event, "kinds_on_cpu")};
    for (const Json& name : get_member(*event, "class_names"))
      model.class_names.push_back(name.is_string() ? name.get<std::string>() : std::string());
    models_.push_back(std::move(model));
  } else if (kind == "pipeline_model") {
    if (!models_.empty()) models_.back().resident_after_load = get_bytes(*event, "resident_bytes");
  } else if (kind == "frames") {
    const auto index = static_cast<std::size_t>(get_integer(*event, "model").value_or(0));
    if (index >= models_.size()) return;
    for (const Json& times : get_member(*event, "times")) {
      if (!times.is_array() || (times.size() != 5 && times.size() != 6)) continue;
      const auto at = [&](std::size_t i) {
        return times[i].is_number_integer() ? times[i].get<std::int64_t>() : 0;
      };
      const auto kept = [&](std::size_t i) { return static_cast<float>(at(i)); };
      models_[index].frames.push_back({kept(0), kept(1), kept(2), kept(3), static_cast<std::int32_t>(at(4))});
      if (times.size() == 6) models_[index].device_times.push_back(kept(5));
    }
  } else if (kind == "held") {
    frames_held_ = std::max(frames_held_, get_integer(*event, "frames").value_or(0));
    skipped_frames_ += get_integer(*event, "skipped").value_or(0);
  } else if (kind == "warning") {
    warnings_.push_back(get_text(*event, "message"));
  } else if (kind == "cleanup") {
    cleanups_.push_back({get_text(*event, "level"), get_text(*event, "name"),
                         get_bytes(*event, "resident_bytes").value_or(Bytes{})});
  } else if (kind == "measuring") {
    measuring_since_ = get_nanoseconds(*event, "time_ns").value_or(last_sign_) - started_;
    cpu_time_then_ = get_nanoseconds(*event, "cpu_time_ns");
    warmup_time_ = get_nanoseconds(*event, "warmup_ns");
  } else if (kind == "decoder") {
    awaits_decoder_ = get_bool(*event, "awaited").value_or(false);
  } else if (kind == "waiting") {
    waiting_ = true;
  } else if (kind == "error") {
    status_ = get_text(*event, "kind") == "oom" ? ModelStatus::oom : ModelStatus::failed;
    error_ = get_text(*event, "message");
    gpus_.add_phase(phase(), get_member(*event, "gpu"), true);
  } else if (kind == "done") {
    done_ = true;
  }
}

Phase WorkerRun::phase() const { return phases_.empty() ? Phase::start : phases_.back().phase; }

void WorkerRun::sample() {
  if (ended_) return;
  last_sample_ = sources::read_process_memory(worker_.pid(), sources::ProcessDetail::status);
  if (!last_sample_.rss) return;
  const Bytes resident = *last_sample_.rss;
  if (const auto data = last_sample_.data) data_peak_ = std::max(data_peak_.value_or(*data), *data);
  sampled_peak_ = std::max(sampled_peak_.value_or(resident), resident);
  // A run of a millisecond may be over, and cleaned, since the last look at what the worker says. It says so
  // before it cleans: where it has not said so by now, what was read is of the run.
  const bool had_begun = phase() == Phase::warm;
  read_available();
  if (had_begun && phase() == Phase::warm) {
    run_sum_ += static_cast<double>(resident.count);
    ++run_samples_;
    sampled_run_peak_ = std::max(sampled_run_peak_.value_or(resident), resident);
  }
  // A control group is the kernel's own judge (and does not charge the pages of shared libraries that RSS
  // counts).
  if (limit_is_watched() && resident > limit_->bytes()) ++violations_;
  // The series keeps a bounded number of points: when it is full, every second one goes and the pace halves.
  if (++series_skipped_ < series_stride_) return;
  series_skipped_ = 0;
  series_.push_back({monotonic_now() - started_, resident});
  if (series_.size() < kSeriesPoints) return;
  for (std::size_t i = 0; 2 * i < series_.size(); ++i) series_[i] = series_[2 * i];
  series_.resize((series_.size() + 1) / 2);
  series_stride_ *= 2;
}

void WorkerRun::sample_share() {
  if (ended_) return;
  share_due_ = false;
  last_sample_ = sources::read_process_memory(worker_.pid(), sources::ProcessDetail::with_pss);
  if ((phase() == Phase::warm || phase() == Phase::running) && last_sample_.pss)
    pss_run_peak_ = std::max(pss_run_peak_.value_or(*last_sample_.pss), *last_sample_.pss);
}

bool WorkerRun::limit_is_watched() const {
  return limit_ != nullptr && limit_->bytes() > Bytes{} && limit_->mechanism() != LimitMechanism::cgroup_v1 &&
         limit_->mechanism() != LimitMechanism::cgroup_v2;
}

// At the gate it is the others that take their time.
bool WorkerRun::hung() const { return !ended_ && !waiting_ && monotonic_now() - last_sign_ > timeout_; }

std::string WorkerRun::words_for_hang() const {
  return fmt::format("{} gave no sign of life for {}; raise --timeout if it is only slow",
                     awaits_decoder_ ? "the decoder of its frames" : "it", format_duration(timeout_));
}

void WorkerRun::stop(ModelStatus status, std::string reason) {
  if (ended_) return;
  if (done_ && reason == kInterruptedRun) {
    // Its figures are whole, and it is we who do not wait for its end.
  } else if (done_) {  // its figures are whole, whatever its runtime does while it is torn down
    warnings_.emplace_back("its process did not end after the run was done, and was killed");
  } else {
    status_ = status;
    error_ = std::move(reason);
  }
  worker_.signal(SIGKILL);
  last_sign_ = monotonic_now();
}

void WorkerRun::open_gate() {
  waiting_ = false;
  last_sign_ = monotonic_now();
  [[maybe_unused]] const auto sent = write_all(gate_.get(), "g");
}

bool WorkerRun::finished() {
  if (ended_) return true;
  const auto status = worker_.poll();
  if (!status) return false;
  read_available();  // what it said before it ended
  ended_ = true;
  last_sample_ = {};  // it holds nothing any more
  classify_end(*status);
  name_dead_decoder();
  if (decoder_.running()) decoder_.signal(SIGKILL);
  decoder_.wait();
  read_available();
  return true;
}

// A worker whose decoder went away can only say that it did; how is for its parent to see.
void WorkerRun::name_dead_decoder() {
  if (status_ != ModelStatus::failed || !awaits_decoder_) return;
  // Its socket closes a moment before the process is gone.
  const auto end = decoder_.wait_for(kDecoderEnds);
  if (!end) return;
  error_ = fmt::format("the decoder of its frames ended with {}", end->describe());
  if (end->signal == 0 && !last_decoder_line_.empty())
    error_ += fmt::format("; its last words were '{}'", last_decoder_line_);
}

void WorkerRun::classify_end(const ExitStatus& status) {
  if (status_ != ModelStatus::ok) return;  // it said so itself, or was stopped
  if (done_) {
    // Everything was measured; runtimes are known to fall over while they are torn down.
    if (!status.success() && status.signal != SIGKILL)
      warnings_.push_back(fmt::format("its process ended with {} after the run was done", status.describe()));
    return;
  }
  const std::int64_t oom_kills =
      limit_ == nullptr ? 0 : limit_->account().oom_kills.value_or(0) - oom_kills_at_start_;
  if (status.signal == SIGKILL && oom_kills > 0) {
    status_ = ModelStatus::oom;
    error_ = fmt::format("the kernel killed it at the limit of {}", format_bytes(limit_->bytes()));
  } else if (status.signal != 0 && mentions_refused_allocation(last_log_lines_)) {
    status_ = ModelStatus::oom;
    error_ = fmt::format("an allocation was refused ({})", status.describe());
  } else if (status.signal == SIGKILL) {
    status_ = ModelStatus::crashed;
    error_ =
        "it was killed from outside (SIGKILL); if the whole machine ran out of memory, the kernel log says "
        "so";
  } else if (status.signal != 0) {
    status_ = ModelStatus::crashed;
    error_ = fmt::format("it crashed with {}", status.describe());
  } else {
    status_ = ModelStatus::crashed;
    error_ = fmt::format("it ended early with {}", status.describe());
  }
  if (status_ == ModelStatus::crashed && !last_log_lines_.empty())
    error_ += fmt::format("; its last words were '{}'", last_log_lines_.back());
}

std::int64_t WorkerRun::frames_done() const {
  return models_.empty() ? 0 : static_cast<std::int64_t>(models_.front().frames.size());
}

const PhaseAccount* WorkerRun::account_of(Phase phase) const {
  for (auto it = phases_.rbegin(); it != phases_.rend(); ++it)
    if (it->phase == phase) return &*it;
  return nullptr;
}

ModelMemory WorkerRun::memory() const {
  ModelMemory memory;
  const auto largest = [](std::optional<Bytes> a, std::optional<Bytes> b) {
    return a && b ? std::max(*a, *b) : a ? a : b;
  };
  const PhaseAccount* start = account_of(Phase::start);
  const PhaseAccount* runtime = account_of(Phase::runtime_loaded);
  const PhaseAccount* loaded = account_of(Phase::model_loaded);
  const PhaseAccount* warm = account_of(Phase::warm);
  const PhaseAccount* running = account_of(Phase::running);
  const PhaseAccount* unloaded = account_of(Phase::unloaded);
  if (start != nullptr) memory.start = start->resident;
  if (runtime != nullptr) memory.runtime = runtime->resident;
  if (loaded != nullptr) {
    memory.loaded = loaded->resident;
    // A pipeline loads several models, each with a mark of its own.
    for (const PhaseAccount& phase : phases_)
      if (phase.phase == Phase::model_loaded) memory.load_peak = largest(memory.load_peak, phase.peak);
  }
  // Warm-up counts as running here: the first frame makes the memory that all later ones use.
  if (warm != nullptr) memory.run_peak = warm->peak;
  if (running != nullptr) memory.run_peak = largest(memory.run_peak, running->peak);
  // The worker reads its mark just before it says that the phase is over, and may touch one more page.
  memory.run_peak = largest(memory.run_peak, sampled_run_peak_);
  // A worker that died in a phase never read its own peak; the samples from outside are a lower bound.
  if (runtime != nullptr && loaded == nullptr) memory.load_peak = sampled_peak_;
  if (loaded != nullptr && running == nullptr) memory.run_peak = largest(memory.run_peak, sampled_peak_);
  if (run_samples_ > 0)
    memory.run_mean = Bytes{static_cast<std::int64_t>(run_sum_ / static_cast<double>(run_samples_))};
  else if (running != nullptr)
    memory.run_mean = running->resident;  // after the last frame, before it was cleaned
  if (unloaded != nullptr) memory.residual = unloaded->resident;
  if (ring_ && loaded != nullptr) memory.frames = ring_->arena();  // it is touched next
  memory.pss_run_peak = pss_run_peak_;
  memory.violations = violations_;
  if (limit_ != nullptr) {
    memory.cgroup_peak = limit_->account().peak;
    if (limit_->mechanism() == LimitMechanism::rlimit_data) memory.data_peak = data_peak_;
    if (limit_->bytes() > Bytes{}) {
      const auto fits = [&](std::optional<Bytes> peak) {
        return !limit_is_watched() || !peak || *peak <= limit_->bytes();
      };
      memory.within_limit =
          status_ != ModelStatus::oom && violations_ == 0 && fits(memory.load_peak) && fits(memory.run_peak);
    }
  }
  return memory;
}

// What a person needs to know of the memory of a worker that was killed.
void WorkerRun::name_frames_of_a_dead_worker(ModelResult& result) const {
  const bool died_loaded =
      account_of(Phase::model_loaded) != nullptr && account_of(Phase::running) == nullptr;
  if (status_ == ModelStatus::ok || !died_loaded) return;
  if (status_ == ModelStatus::oom && ring_ && ring_->arena() > Bytes{})
    result.error +=
        fmt::format("; up to {} of it were decoded frames that the bench holds (--max-frames-in-mem)",
                    format_bytes(ring_->arena()));
}

ModelResult WorkerRun::result() const {
  ModelResult result;
  result.name = label_;
  result.status = status_;
  result.error = error_;
  if (status_ != ModelStatus::ok) result.died_in = phase();
  result.backend_version = version_;
  result.runtime_load_time = runtime_load_time_;
  result.memory = memory();
  result.gpu_memory = gpu_memory();
  name_frames_of_a_dead_worker(result);
  const bool read_its_peak =
      account_of(Phase::running) != nullptr || (account_of(Phase::start) == nullptr && !sampled_peak_);
  if (ended_ && status_ != ModelStatus::ok && !read_its_peak)
    result.warnings.emplace_back(
        "it ended before it could read its own peak: the last peak is the largest of samples 50 ms apart, so "
        "it "
        "had at least that");
  result.memory_series = series_;
  for (const PhaseAccount& phase : phases_) result.phases.push_back({phase.phase, phase.time});
  result.cleanups = cleanups_;
  result.warnings.insert(result.warnings.end(), warnings_.begin(), warnings_.end());
  if (!peak_reset_works_ && !phases_.empty())
    result.warnings.emplace_back(
        "the kernel cannot reset a process's peak, so the peak of each phase includes those before it");
  const PhaseAccount* running = account_of(Phase::running);
  result.warmup_time = warmup_time_;
  if (measuring_since_ && running != nullptr && cpu_time_then_ && running->cpu_time &&
      running->time > *measuring_since_)
    result.cpu_percent = 100.0 * static_cast<double>((*running->cpu_time - *cpu_time_then_).count) /
                         static_cast<double>((running->time - *measuring_since_).count);
  if (models_.empty()) return result;
  const ModelAccount& model = models_.front();
  result.task = model.task;
  result.input = model.input;
  result.model_load_time = model.load_time;
  result.placement = model.placement;
  result.frames = static_cast<std::int64_t>(model.frames.size());
  result.skipped_frames = skipped_frames_;
  if (model.frames.empty()) return result;

  const auto summary_of = [&](auto pick) {
    std::vector<std::int64_t> values;
    values.reserve(model.frames.size());
    for (const KeptFrame& times : model.frames) values.push_back(std::llround(pick(times)));
    return analysis::summarise_latency(std::move(values));
  };
  const auto end_to_end = [](const KeptFrame& t) {
    return double{t.decode} + double{t.preprocess} + double{t.inference} + double{t.postprocess};
  };
  result.inference = summary_of([](const KeptFrame& t) { return t.inference; });
  if (!model.device_times.empty()) {
    std::vector<std::int64_t> times;
    times.reserve(model.device_times.size());
    for (const float time : model.device_times) times.push_back(std::llround(time));
    result.device_time = analysis::summarise_latency(std::move(times));
  }
  if (result.inference->mean_ns > 0) result.fps = 1e9 / result.inference->mean_ns;
  if (!model.takes_frames) return result;
  result.decode = summary_of([](const KeptFrame& t) { return t.decode; });
  result.preprocess = summary_of([](const KeptFrame& t) { return t.preprocess; });
  result.postprocess = summary_of([](const KeptFrame& t) { return t.postprocess; });
  result.end_to_end = summary_of(end_to_end);
  if (result.end_to_end->mean_ns > 0) result.pipeline_fps = 1e9 / result.end_to_end->mean_ns;
  std::vector<std::int64_t> counts;
  for (const KeptFrame& times : model.frames) counts.push_back(times.findings);
  result.detections = analysis::summarise_counts(counts);
  return result;
}

bool supervise(const std::vector<WorkerRun*>& runs, Interrupt& interrupt, Nanoseconds interval,
               const Tick& tick) {
  Nanoseconds next_sample = monotonic_now();
  Nanoseconds next_tick = next_sample;
  for (;;) {
    std::vector<pollfd> polled{{interrupt.fd(), POLLIN, 0}};
    for (const WorkerRun* run : runs)
      for (const int fd : run->descriptors())
        if (fd >= 0) polled.push_back({fd, POLLIN, 0});
    const Nanoseconds now = monotonic_now();
    const Nanoseconds next = std::min(next_sample, next_tick);
    const auto wait_ms = std::max<std::int64_t>(0, (next - now).count / 1'000'000);
    ::poll(polled.data(), polled.size(), static_cast<int>(std::min<std::int64_t>(wait_ms, 1000)));
    if (interrupt.requested()) {
      for (WorkerRun* run : runs) run->stop(ModelStatus::failed, kInterruptedRun);
      for (WorkerRun* run : runs)
        while (!run->finished()) ::poll(nullptr, 0, 5);
      return false;
    }
    bool all_finished = true;
    bool all_wait = true;
    bool all_measured = true;
    for (WorkerRun* run : runs) {
      run->read_available();
      if (run->finished()) continue;
      // A run that is over before the next tick has its share of pages too.
      if (run->share_is_due()) run->sample_share();
      all_finished = false;
      all_wait = all_wait && run->waiting_for_gate();
      all_measured = all_measured && run->has_measured();
      if (run->hung()) run->stop(ModelStatus::timeout, run->words_for_hang());
    }
    if (all_finished) return true;
    if (all_wait)
      for (WorkerRun* run : runs)
        if (run->waiting_for_gate()) run->open_gate();
    if (all_measured)
      for (WorkerRun* run : runs) run->let_go();
    if (monotonic_now() >= next_sample) {
      for (WorkerRun* run : runs) run->sample();
      next_sample = monotonic_now() + kSampleInterval;
    }
    if (monotonic_now() >= next_tick) {
      for (WorkerRun* run : runs) run->sample_share();
      if (tick) tick(runs);
      next_tick = monotonic_now() + interval;
    }
  }
}

}  // namespace headroom::bench
