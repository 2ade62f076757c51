#include "bench/conductor/worker_result.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <functional>

#include "bench/vos/memory_growth.h"
#include "report/words.h"

namespace headroom::bench {
namespace {

constexpr std::size_t kSeriesPoints = 600;

// Whether samples decide if the limit was kept. False without a limit, and for control groups: the kernel
// enforces those, and it does not charge pages of shared libraries, which RSS includes.
bool is_watched(const limits::MemoryLimit* limit) {
  return limit != nullptr && limit->bytes() > Bytes{} && limit->mechanism() != LimitMechanism::cgroup_v1 &&
         limit->mechanism() != LimitMechanism::cgroup_v2;
}

}  // namespace

void MemorySamples::begin_phase(std::optional<Bytes> data) {
  peak.reset();
  data_peak = std::max(data_peak, data);
}

void MemorySamples::add_peaks(Bytes resident, std::optional<Bytes> data, std::optional<Bytes> file_backed) {
  file_backed_peak = std::max(file_backed_peak, file_backed);
  data_peak = std::max(data_peak, data);
  peak = std::max(peak, std::optional(resident));
}

void MemorySamples::add_share(Bytes pss, bool is_of_run) {
  pss_peak = std::max(pss_peak, std::optional(pss));
  if (is_of_run) pss_run_peak = std::max(pss_run_peak, std::optional(pss));
}

void MemorySamples::add(Nanoseconds time, const ProcessMemory& sample, bool is_of_run,
                        const limits::MemoryLimit* limit) {
  const Bytes resident = sample.rss.value_or(Bytes{});
  if (is_of_run) {
    run_sum_ += static_cast<double>(resident.count);
    ++run_samples_;
    run_peak = std::max(run_peak, std::optional(resident));
  }
  if (is_watched(limit)) {
    const auto counted = limit->mechanism() == LimitMechanism::rlimit_data ? sample.data : sample.rss;
    if (counted && *counted > limit->bytes()) ++violations;
  }
  // The series has a bounded number of points. When it is full, every second point is removed and the
  // sampling rate is halved.
  if (++passed_over_ < stride_) return;
  passed_over_ = 0;
  series.push_back({time, resident});
  if (series.size() < kSeriesPoints) return;
  for (std::size_t i = 0; 2 * i < series.size(); ++i) series[i] = series[2 * i];
  series.resize((series.size() + 1) / 2);
  stride_ *= 2;
}

std::optional<Bytes> MemorySamples::run_mean() const {
  if (run_samples_ == 0) return std::nullopt;
  return Bytes{static_cast<std::int64_t>(run_sum_ / static_cast<double>(run_samples_))};
}

namespace {

// Whether the worker ended before it had run all measured frames. With --task vos, the phase `running` is
// marked after each clip, so it does not mean that all clips have run.
bool ended_before_last_frame(const WorkerAccount& account) {
  return account.vos_progress || account.find(Phase::running) == nullptr;
}

ModelMemory memory_of(const WorkerOutcome& outcome) {
  const WorkerAccount& account = outcome.account;
  const MemorySamples& samples = outcome.samples;
  ModelMemory memory;
  const PhaseAccount* start = account.find(Phase::start);
  const PhaseAccount* runtime = account.find(Phase::runtime_loaded);
  const PhaseAccount* loaded = account.find(Phase::model_loaded);
  const PhaseAccount* warm = account.find(Phase::warm);
  const PhaseAccount* running = account.find(Phase::running);
  const PhaseAccount* unloaded = account.find(Phase::unloaded);
  if (start != nullptr) memory.start = start->resident;
  if (runtime != nullptr) memory.runtime = runtime->resident;
  if (loaded != nullptr) {
    memory.loaded = loaded->resident;
    // A pipeline loads several models and marks the phase for each.
    for (const PhaseAccount& phase : account.phases)
      if (phase.phase == Phase::model_loaded) memory.load_peak = std::max(memory.load_peak, phase.peak);
  }
  // Warm-up counts as running: the first frame allocates the memory that all later frames use.
  if (warm != nullptr) memory.run_peak = warm->peak;
  // With --task vos, the phase is marked after each clip.
  for (const PhaseAccount& phase : account.phases)
    if (phase.phase == Phase::running) memory.run_peak = std::max(memory.run_peak, phase.peak);
  // The worker reads its high-water mark just before it reports the end of the phase, and may touch one more
  // page after that.
  memory.run_peak = std::max(memory.run_peak, samples.run_peak);
  // A worker that died in a phase did not report its own peak; the samples from outside are a lower bound. A
  // worker that reported its error has also reported its peak.
  const std::optional<Bytes> last_peak = std::max(account.peak_at_error, samples.peak);
  if (runtime != nullptr && loaded == nullptr) memory.load_peak = last_peak;
  if (loaded != nullptr && ended_before_last_frame(account))
    memory.run_peak = std::max(memory.run_peak, last_peak);
  memory.run_mean = samples.run_mean();
  if (!memory.run_mean && running != nullptr)
    memory.run_mean = running->resident;  // after the last frame, before the cleaning
  if (unloaded != nullptr) memory.residual = unloaded->resident;
  if (loaded != nullptr) memory.frames = outcome.frame_memory;  // the frame ring is touched after the load
  memory.pss_peak = samples.pss_peak;
  memory.pss_run_peak = samples.pss_run_peak;
  memory.file_backed_peak = samples.file_backed_peak;
  memory.violations = samples.violations;
  memory.fixed_addresses = account.runtime.fixed_addresses;
  const limits::MemoryLimit* limit = outcome.limit;
  if (limit == nullptr) return memory;
  memory.cgroup_peak = limit->account().peak;
  if (limit->mechanism() == LimitMechanism::rlimit_data) memory.data_peak = samples.data_peak;
  if (limit->bytes() > Bytes{}) {
    // The verdict, the share and the violations use the same figure.
    const auto peak = limit_peak(memory, Limit{limit->bytes(), LimitType::soft, limit->mechanism(), {}, {}});
    memory.within_limit = account.status != ModelStatus::oom && samples.violations == 0 &&
                          (!is_watched(limit) || !peak || *peak <= limit->bytes());
  }
  return memory;
}

// For a worker that was killed for memory: how much of it were frames.
std::string describe_held_frames(const WorkerOutcome& outcome) {
  const WorkerAccount& account = outcome.account;
  const bool died_loaded =
      account.find(Phase::model_loaded) != nullptr && account.find(Phase::running) == nullptr;
  if (account.status != ModelStatus::oom || !died_loaded) return {};
  if (outcome.frame_memory.value_or(Bytes{}) <= Bytes{}) return {};
  return fmt::format("; up to {} of this memory were decoded frames (--max-frames-in-mem)",
                     format_bytes(*outcome.frame_memory));
}

// For a worker of --task vos that failed: the video or object that it tracked.
std::string describe_progress(const WorkerAccount& account) {
  if (account.status == ModelStatus::ok) return {};
  if (!account.vos_progress)
    return account.vos && !account.vos->loads.empty() ? "; it was loading the model again" : "";
  const VosProgress& at = *account.vos_progress;
  std::string what = fmt::format("video {}", at.video);
  if (!at.object.empty()) what = fmt::format("object {} of {}", at.object, what);
  if (at.frames == 0) return fmt::format("; it was tracking {} alone, after all objects together", what);
  const std::size_t frames = account.models.empty() ? 0 : account.models.front().frames.size();
  const std::size_t done = frames - std::min(frames, account.frames_before_clip);
  const std::string of_frames = report::counted(at.frames, "frame");
  return fmt::format("; it was tracking {} ({}{})", what,
                     at.object.empty() ? report::counted(at.objects, "object") + ", " : "",
                     done == 0 ? of_frames : fmt::format("at least {} of {} done", done, of_frames));
}

// The last phase that a failed worker completed.
Phase last_phase(const WorkerAccount& account) {
  const bool has_more_clips = account.vos_progress && account.phase() == Phase::running;
  return has_more_clips ? Phase::warm : account.phase();
}

void add_memory_warnings(ModelResult& result, const WorkerOutcome& outcome) {
  const WorkerAccount& account = outcome.account;
  const bool read_its_peak = !ended_before_last_frame(account) || account.peak_at_error ||
                             (account.find(Phase::start) == nullptr && !outcome.samples.peak);
  if (outcome.has_ended && account.status != ModelStatus::ok && !read_its_peak)
    result.warnings.push_back(
        fmt::format("it ended before it could report its peak; its {} peak comes from samples every 50 ms "
                    "and is a lower bound",
                    account.find(Phase::model_loaded) == nullptr ? "load" : "run"));
  result.warnings.insert(result.warnings.end(), account.warnings.begin(), account.warnings.end());
  if (!account.peak_reset_works && !account.phases.empty())
    result.warnings.emplace_back(
        "the kernel cannot reset a process's peak, so the peak of each phase includes earlier phases");
}

std::optional<std::int64_t> count_of(Nanoseconds time) { return time.count; }
std::optional<std::int64_t> count_of(std::int64_t count) { return count; }
std::optional<std::int64_t> count_of(const std::optional<Nanoseconds>& time) {
  return time ? std::optional(time->count) : std::nullopt;
}

// One figure of each frame (a member of FrameTimes), for the summaries of monitoring/. `frames` must outlive
// the result. Frames without the figure (a device time) are skipped.
template <class Member>
monitoring::ValuePieces figures_of(const KeptFrames& frames, Member figure) {
  return [&frames, figure](const monitoring::EachPiece& each) {
    std::vector<std::int64_t> values;
    frames.each([&](std::span<const FrameTimes> piece) {
      values.clear();
      for (const FrameTimes& frame : piece)
        if (const auto value = count_of(std::invoke(figure, frame))) values.push_back(*value);
      each(values);
    });
  };
}

template <class Member>
LatencySummary summary_of(const KeptFrames& frames, Member figure) {
  return monitoring::summarise_latency_in_passes(figures_of(frames, figure));
}

void add_latencies(ModelResult& result, const ModelAccount& model) {
  const KeptFrames& frames = model.frames;
  result.inference = inference_latency(frames);
  if (result.inference->mean_ns > 0) result.fps = 1e9 / result.inference->mean_ns;
  const LatencySummary device = summary_of(frames, &FrameTimes::device);
  if (device.n > 0) result.device_time = device;
  if (!model.takes_frames) return;
  result.decode = summary_of(frames, &FrameTimes::decode);
  result.preprocess = summary_of(frames, &FrameTimes::preprocess);
  result.postprocess = summary_of(frames, &FrameTimes::postprocess);
  result.end_to_end = summary_of(frames, &FrameTimes::end_to_end);
  if (result.end_to_end->mean_ns > 0) result.pipeline_fps = 1e9 / result.end_to_end->mean_ns;
  result.detections = monitoring::summarise_counts(figures_of(frames, &FrameTimes::findings));
}

}  // namespace

LatencySummary inference_latency(const KeptFrames& frames) {
  return summary_of(frames, &FrameTimes::inference);
}

monitoring::ValuePieces times_through_all(const std::vector<ModelAccount>& models, bool with_decode) {
  return [&models, with_decode](const monitoring::EachPiece& each) {
    std::array<FrameTimes, 256> frames;
    std::vector<std::int64_t> sums;
    for (std::size_t first = 0;; first += sums.size()) {
      // No model has more frames than the first one.
      const std::size_t got = models.front().frames.read(first, frames);
      if (got == 0) return;
      sums.assign(got, 0);
      for (std::size_t i = 0; with_decode && i < got; ++i) sums[i] = frames[i].decode.count;
      for (const ModelAccount& model : models) {
        const std::size_t its = model.frames.read(first, std::span(frames).first(got));
        for (std::size_t i = 0; i < its; ++i)
          sums[i] += (frames[i].preprocess + frames[i].inference + frames[i].postprocess).count;
      }
      each(sums);
    }
  };
}

ModelResult result_of(const WorkerOutcome& outcome) {
  const WorkerAccount& account = outcome.account;
  ModelResult result;
  result.name = outcome.label;
  result.status = account.status;
  result.error = account.error + describe_held_frames(outcome) + describe_progress(account);
  if (account.status != ModelStatus::ok) result.died_in = last_phase(account);
  result.backend_version = account.runtime.version;
  result.runtime_telemetry = account.runtime.telemetry;
  result.runtime_load_time = account.runtime.load_time;
  result.memory = memory_of(outcome);
  result.gpu_memory = outcome.gpu_memory;
  add_memory_warnings(result, outcome);
  result.memory_series = outcome.samples.series;
  for (const PhaseAccount& phase : account.phases) {
    const PhaseMark mark{phase.phase, phase.time, phase.file_backed};
    if (phase.phase == Phase::running && !result.phases.empty() &&
        result.phases.back().phase == Phase::running)
      result.phases.back() = mark;  // of the last clip
    else
      result.phases.push_back(mark);
  }
  result.vos = account.vos;
  if (result.vos) add_growth(*result.vos);
  result.cleanups = account.cleanups;
  const PhaseAccount* running = account.find(Phase::running);
  if (account.measuring) {
    result.warmup_time = account.measuring->warmup;
    if (running != nullptr && running->cpu_time && running->time > account.measuring->time)
      result.cpu_percent = 100.0 *
                           static_cast<double>((*running->cpu_time - account.measuring->cpu_time).count) /
                           static_cast<double>((running->time - account.measuring->time).count);
  }
  if (account.models.empty()) return result;
  const ModelAccount& model = account.models.front();
  result.task = model.task;
  result.input = model.input;
  result.model_load_time = model.load_time;
  result.placement = model.placement;
  result.frames = static_cast<std::int64_t>(model.frames.size());
  result.skipped_frames = account.skipped_frames;
  if (!model.frames.empty()) add_latencies(result, model);
  if (!model.frames.problem().empty()) result.warnings.push_back(model.frames.problem());
  return result;
}

}  // namespace headroom::bench
