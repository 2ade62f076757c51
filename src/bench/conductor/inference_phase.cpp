#include "bench/conductor/phases.h"

#include <fmt/format.h>
#include <algorithm>

#include "base/files.h"
#include "base/log.h"
#include "bench/conductor/gpu_limit.h"
#include "bench/vos/memory_growth.h"
#include "bench/vos/setup.h"
#include "inference/task.h"
#include "media/vos/planes.h"
#include "report/words.h"
#include "trace/tracer_environment.h"

namespace headroom::bench {
namespace {

// The thresholds that the task used: those of the model, else those of the run.
void set_thresholds(ModelResult& result, const BenchOptions& options) {
  const auto tasks = inference::task_names();
  const auto task = std::ranges::find(tasks, result.task, &inference::TaskName::name);
  if (task == tasks.end() || task->thresholds == inference::Thresholds::none) return;
  const auto spec = std::ranges::find(options.models, result.name, &ModelSpec::name);
  const ModelSpec own = spec == options.models.end() ? ModelSpec{} : *spec;
  result.confidence = own.confidence.value_or(options.confidence);
  if (task->thresholds == inference::Thresholds::confidence_and_iou)
    result.iou = own.iou.value_or(options.iou);
}

}  // namespace

void add_setup_facts(ModelResult& result, const PreparedModel& model) {
  result.path = model.path;
  result.backend = model.backend;
  if (result.backend_version.empty())
    result.backend_version = model.backend_version;
  else if (!model.backend_version.empty() && result.backend_version != model.backend_version)
    result.warnings.push_back(
        fmt::format("prepared with {} {}, but ran with {}; prepare it again without --skip-setup",
                    model.backend, model.backend_version, result.backend_version));
  if (result.task.empty()) result.task = model.task;
  if (result.input.empty()) result.input = model.input;
  result.file_size = model.file_size;
  if (!result.file_size) {  // the setup could not read all files: the size of the model's own file
    std::error_code unknown;
    const auto own_size = std::filesystem::file_size(result.path, unknown);
    if (!unknown) result.file_size = Bytes{static_cast<std::int64_t>(own_size)};
  }
  result.settings = model.settings;
  result.trials = model.trials;
  result.smallest_settings = model.smallest_settings;
  if (!model.passed_over.empty()) result.warnings.push_back(model.passed_over);
}

std::filesystem::path masks_path(const Run& run, const std::string& model) {
  return run.folder.path / (file_name_of(model) + ".masks");
}

void complete(ModelResult& result, const PreparedModel& model, const BenchOptions& options) {
  add_setup_facts(result, model);
  if (options.source && !model.without_task.empty())
    result.warnings.push_back("the source is not used: " + model.without_task);
  set_thresholds(result, options);
}

const ModelResult* find_result(const std::vector<ModelResult>& results, const std::string& name) {
  const auto found = std::ranges::find(results, name, &ModelResult::name);
  return found == results.end() ? nullptr : &*found;
}

namespace {

// Partial results are saved every 5 s. With so many frames that a save takes long, saving uses at most 2 % of
// the time.
constexpr Nanoseconds kPartialInterval{5'000'000'000};
constexpr std::int64_t kPartialShare = 50;

// Tick function for a model that runs alone. It also saves partial results, in case the conductor is killed
// before the model ends.
Tick ticker_with_partial_results(Run& run, const PreparedModel& model, const Tick& tick) {
  return [&run, &model, tick,
          next = monotonic_now() + kPartialInterval](const std::vector<WorkerRun*>& workers) mutable {
    tick(workers);
    const Nanoseconds started = monotonic_now();
    if (started < next) return;
    ModelResult partial = workers.front()->result();
    complete(partial, model, run.options);
    save_partial_result(run, std::move(partial));
    const Nanoseconds ended = monotonic_now();
    next = ended + std::max(kPartialInterval, Nanoseconds{kPartialShare * (ended - started).count});
  };
}

// In step, latencies differ from those of a run alone. If the other run left early, some frames had no turn.
void add_turns(ModelResult& result, const WorkerAccount& account, const std::string& id) {
  if (account.in_step && account.in_step->frames > 0)
    result.in_step = InStep{id, account.in_step->frames, account.in_step->one_processor};
  if (result.status != ModelStatus::ok) return;
  const std::int64_t had = result.in_step ? result.in_step->frames : 0;
  if (had < result.frames)
    result.warnings.push_back(fmt::format(
        "{} of {} frames were measured in step: the other run of --in-step had fewer frames, or ended early",
        had, result.frames));
  if (had == 0) return;
  result.cpu_percent.reset();  // the worker mostly waited during that time
  result.warnings.push_back(
      fmt::format("its frames took turns with those of another run (--in-step). Compare the two runs with "
                  "'headroom diff'. Without turns, frames may be faster, because the data stays in the "
                  "processor's caches{}",
                  result.in_step->one_processor ? ""
                                                : ". With several threads, other programs disturb the "
                                                  "comparison; for a clearer one, use --threads 1"));
}

}  // namespace

void add_gpu_warnings(ModelResult& result) {
  for (const GpuMemory& gpu : result.gpu_memory) {
    if (const auto peak = std::max(gpu.load_peak, gpu.run_peak); gpu.limit && peak > gpu.limit)
      result.warnings.push_back(fmt::format("peak of {} on {}, more than the limit of {}",
                                            format_bytes(*peak), gpu.device, format_bytes(*gpu.limit)));
    if (result.status != ModelStatus::ok) continue;
    if (gpu.refused > 0)
      result.warnings.push_back(fmt::format(
          "{} requests for {} were refused at the limit of {}; the model continued, but it may be slower "
          "than without a limit",
          gpu.refused, gpu.refused_bytes ? format_bytes(*gpu.refused_bytes) : "memory", gpu.device));
    if (!gpu.run_peak)
      result.warnings.push_back(fmt::format("memory on {} is unknown: the preload library {} was not loaded",
                                            gpu.device, trace::gpu_tracer_library().string()));
  }
  if (result.placement && result.placement->on_cpu > 0 && !result.gpu_memory.empty())
    result.warnings.push_back(fmt::format("{} of {} nodes run on the CPU, not on {}: {}",
                                          result.placement->on_cpu,
                                          result.placement->on_cpu + result.placement->on_device,
                                          result.gpu_memory.front().device, result.placement->on_cpu_kinds));
}

namespace {

constexpr double kNoisyCv = 0.025;
constexpr std::int64_t kFewestForCv = 10;  // with fewer frames, one slow frame decides

void add_warnings(Run& run, ModelResult& result) {
  add_gpu_warnings(result);
  if (result.inference && result.inference->n >= kFewestForCv && result.inference->cv > kNoisyCv)
    result.warnings.push_back(
        fmt::format("inference latency varies by {:.1f} % (over 2.5 %): busy machine, changing clock, or "
                    "work that depends on the input",
                    100 * result.inference->cv));
  if (auto throttling = run.metrics.take_throttling("it ran"))
    result.warnings.push_back(std::move(*throttling));
}

}  // namespace

namespace {

const std::vector<SourceSequence>& sequences_of(const PreparedData& prepared) {
  static const std::vector<SourceSequence> kNone;
  return prepared.source ? prepared.source->sequences : kNone;
}

}  // namespace

bool needs_shares(const Run& run, const limits::MemoryLimit& limit) {
  return run.options.parallel && !limit.account().peak;
}

Result<MeasuredModel> measure_alone(Run& run, const PreparedModel& model) {
  auto limit = limit_for(run, model.name);
  if (!limit) return forward_error(limit);
  // With --parallel, the model holds as many frames as it will hold in the parallel run, so that the peaks
  // can be compared.
  WorkerPlan plan = plan_for(run, model.name, inference_job(run, model), model.takes_frames, limit->get(),
                             run.options.parallel ? frame_takers(run) : 1);
  MeasuredModel measured;
  if (plan.job.vos && plan.job.vos->left_out.size() >= sequences_of(run.prepared).size()) {
    for (const VosLeftOut& item : videos_over_limit(run, model))
      log::warning("{}: {}: {}", model.name, item.video, item.why);
    return failure("the model was not started", "no video would fit under the limit",
                   "use a larger limit, --vos-objects alone, or a model with a smaller input");
  }
  measured.samples_path = plan.samples_path = run.folder.path / (file_name_of(model.name) + ".samples");
  const bool in_step = run.partner && run.partner->is_common(model.name);
  std::optional<UniqueFd> turns;
  if (in_step) turns = run.partner->begin_model(model.name, run.interrupt);
  if (turns) {
    plan.turns_fd = turns->get();
    plan.job.turns = WorkerTurns{run.partner->is_first(), run.options.timeout};
  }
  auto worker = WorkerRun::start(plan);
  turns.reset();  // so that the other worker notices when this one ends
  if (!worker) return forward_error(worker);
  measured.interrupted = !supervise(
      {worker->get()}, run.interrupt, run.options.metrics_interval,
      ticker_with_partial_results(
          run, model, ticker(run, "inference", model.name, frames_expected(run, model.takes_frames))),
      {needs_shares(run, **limit), {}});
  measured.result = (*worker)->result();
  complete(measured.result, model, run.options);
  if (in_step) add_turns(measured.result, (*worker)->account(), run.partner->id_of(model.name));
  if (run.partner && !in_step)
    measured.result.warnings.emplace_back(
        "the other run of --in-step does not have this model; it may have run at the same time and disturbed "
        "it");
  if (run.options.vos) {
    VosResult& vos = measured.result.vos ? *measured.result.vos : measured.result.vos.emplace();
    vos.prompt = plan.job.vos->prompt;
    vos.profile = plan.job.vos->profile;
    vos.objects = plan.job.vos->objects;
    if (model.vos) vos.trials = model.vos->trials;
    vos.left_out = videos_over_limit(run, model);
    for (const VosLeftOut& item : vos.left_out) log::warning("{}: {}: {}", model.name, item.video, item.why);
  }
  add_warnings(run, measured.result);
  measured.frames_held = (*worker)->account().frames_held;
  measured.frames = (*worker)->take_frames();
  return measured;
}

namespace {

// Default of --max-frames-in-mem: 600 frames, but at most 16 MiB of them. 600 full HD frames would be 3.5
// GiB, half of a small Jetson.
constexpr std::int64_t kDefaultFrames = 600;
constexpr Bytes kDefaultFrameMemory = mebibytes(16);
// Frames count in the model's limit, so they get at most this fraction of it.
constexpr std::int64_t kLimitOverFrames = 8;

}  // namespace

WorkerJob job_for(Run& run, WorkerKind kind) {
  const BenchOptions& options = run.options;
  WorkerJob job;
  job.kind = kind;
  job.image_size = options.image_size;
  job.confidence = options.confidence;
  job.iou = options.iou;
  job.max_frames = options.max_frames;
  job.warmup_frames = options.warmup_frames;
  job.sample_images = options.sample_images;
  for (const SourceSequence& sequence : sequences_of(run.prepared)) {
    WorkerSequence known;
    known.name = sequence.name;
    known.frames = sequence.frames;
    for (const SourceObject& object : sequence.objects) known.objects.push_back(object.id);
    job.sequences.push_back(std::move(known));
  }
  return job;
}

WorkerModel worker_model(Run& run, const PreparedModel& model) {
  WorkerModel worker{model.name,         model.path,        model.backend,
                     model.backend_path, model.forced_task, model.settings};
  for (const ModelSpec& spec : run.options.models) {
    if (spec.name != model.name) continue;
    worker.confidence = spec.confidence;
    worker.iou = spec.iou;
    worker.every = spec.every;
    worker.isolated = spec.isolated;
  }
  worker.outputs = model.outputs;
  return worker;
}

WorkerPlan plan_for(Run& run, const std::string& label, WorkerJob job, bool takes_frames,
                    limits::MemoryLimit* limit, std::int64_t sharers) {
  WorkerPlan plan;
  plan.label = label;
  plan.job = std::move(job);
  plan.limit = limit;
  plan.device_account = run.device_account ? &*run.device_account : nullptr;
  plan.timeout = run.options.timeout;
  plan.run_folder = run.folder.path;
  if (takes_frames && run.prepared.source) {
    const FrameWindow window = choose_frame_window(*run.prepared.source, run.options);
    const std::int64_t frames = std::max<std::int64_t>(1, window.frames / sharers);
    plan.decoder =
        DecoderPlan{run.metadata_path.string(), Bytes{window.arena.count / window.frames * frames}};
    plan.job.window_frames = frames;
  }
  return plan;
}

std::int64_t frame_takers(Run& run) {
  return std::max<std::int64_t>(
      1, std::count_if(run.prepared.models.begin(), run.prepared.models.end(), [](const auto& model) {
        return model.status == ModelStatus::ok && model.takes_frames;
      }));
}

std::int64_t frames_expected(Run& run, bool takes_frames) {
  const bool is_shared = run.options.vos && run.options.vos->objects == VosObjects::together;
  if (!takes_frames && !run.options.vos) return run.options.max_frames;
  std::int64_t total = 0;
  for (const SourceSequence& sequence : sequences_of(run.prepared)) {
    if (sequence.frames == 0) return 0;
    const auto objects =
        is_shared ? 1 : static_cast<std::int64_t>(std::max<std::size_t>(1, sequence.objects.size()));
    total += objects * std::min(sequence.frames, run.options.max_frames);
  }
  return total;
}

Tick ticker(Run& run, const std::string& phase, const std::string& label, std::int64_t expected) {
  return [&run, phase, label, expected](const std::vector<WorkerRun*>& workers) {
    run.metrics.record(phase, workers);
    std::int64_t done = 0;
    Bytes resident;
    for (const WorkerRun* worker : workers) {
      done += worker->frames_done();
      resident += worker->last_sample().rss.value_or(Bytes{});
    }
    if (run.options.quiet) return;
    const double fraction = expected > 0 ? static_cast<double>(done) / static_cast<double>(expected) : -1.0;
    run.progress_line.update(label, fraction, fmt::format("{} frames, {}", done, format_bytes(resident)));
  };
}

Result<std::unique_ptr<limits::MemoryLimit>> limit_for(Run& run, const std::string& label) {
  std::string note;
  return limits::make_memory_limit(label, run.options.memory_limit, run.options.limit_mechanism, note);
}

FrameWindow choose_frame_window(const SourceMetadata& source, const BenchOptions& options) {
  std::int64_t longest = 1;
  for (const SourceSequence& sequence : source.sequences)
    longest = std::max(
        longest, sequence.frames > 0 ? std::min(sequence.frames, options.max_frames) : options.max_frames);
  const Bytes frame{std::max<std::int64_t>(1, source.largest_frame.count)};
  std::int64_t frames = std::min<std::int64_t>(longest, media::kMaximumSlots);
  if (options.max_frames_in_memory) {
    frames = std::min(frames, *options.max_frames_in_memory);
  } else {
    std::int64_t most = kDefaultFrameMemory.count;
    if (options.memory_limit) most = std::min(most, options.memory_limit->count / kLimitOverFrames);
    frames = std::min({frames, kDefaultFrames, most / frame.count});
  }
  frames = std::max<std::int64_t>(1, frames);
  return {frames, Bytes{frames * frame.count}};
}

namespace {

// Frames of --task vos in the worker's memory at a time, of the model's input size.
std::int64_t frames_in_memory(const BenchOptions& options, int side) {
  if (options.max_frames_in_memory) return *options.max_frames_in_memory;
  const std::int64_t most = options.memory_limit ? std::min(kDefaultFrameMemory.count,
                                                            options.memory_limit->count / kLimitOverFrames)
                                                 : kDefaultFrameMemory.count;
  return std::max<std::int64_t>(1, most / media::vos::planes_frame_size(side, options.vos->planes).count);
}

// The smallest limit on the GPU memory of the run's devices.
std::optional<Bytes> gpu_limit_of(const Run& run) {
  std::optional<Bytes> least;
  if (!run.device_account) return least;
  for (const unsigned device : cuda_devices(run.options)) {
    const std::uint64_t limit = run.device_account->limits().bytes[device];
    if (limit == ledger::kNoLimit) continue;
    const Bytes bytes{static_cast<std::int64_t>(limit)};
    least = least ? std::min(*least, bytes) : bytes;
  }
  return least;
}

// What the limit counted in the setup's trial, minus the trial's resident peak; absent if only resident
// memory is known. A control group does not charge libraries that other processes loaded before. More charged
// than resident is page cache, which the kernel reclaims.
std::optional<Bytes> counted_beyond_resident(const PreparedModel& model, const std::optional<Limit>& limit) {
  const bool counts_resident = !limit || (limit->mechanism != LimitMechanism::cgroup_v1 &&
                                          limit->mechanism != LimitMechanism::cgroup_v2 &&
                                          limit->mechanism != LimitMechanism::rlimit_data);
  if (!model.trial || counts_resident) return std::nullopt;
  const ModelMemory& memory = model.trial->memory;
  const std::optional<Bytes> resident = std::max(memory.load_peak, memory.run_peak);
  const std::optional<Bytes> counted = limit_peak(memory, limit);
  if (!resident || !counted) return std::nullopt;
  const Bytes beyond = *counted - *resident;
  return limit->mechanism == LimitMechanism::rlimit_data ? beyond : std::min(beyond, Bytes{});
}

}  // namespace

std::vector<VosLeftOut> videos_over_limit(const Run& run, const PreparedModel& model) {
  std::vector<VosLeftOut> over;
  if (!model.vos || !run.prepared.source) return over;
  const std::optional<Bytes> host = run.options.memory_limit, gpu = gpu_limit_of(run);
  const std::int64_t window = frames_in_memory(run.options, model.vos->side);
  const Bytes frame = media::vos::planes_frame_size(model.vos->side, run.options.vos->planes);
  const std::optional<Bytes> beyond = counted_beyond_resident(model, run.result.limit);
  for (const SourceSequence& sequence : run.prepared.source->sequences) {
    ClipSize clip{sequence.width, sequence.height, 1, {}};
    if (run.options.vos->objects == VosObjects::together)
      clip.objects = static_cast<std::int64_t>(sequence.objects.size());
    if (model.objects_over_limit > 0 && clip.objects >= model.objects_over_limit) {
      over.push_back({sequence.name,
                      {},
                      fmt::format("{} × {} with {} would not fit: in a trial with {} objects, {}",
                                  sequence.width, sequence.height, report::counted(clip.objects, "object"),
                                  model.objects_over_limit, model.why_over_limit)});
      continue;
    }
    // Frames are pages of a mapped file: resident, but not counted, or reclaimed at the limit.
    if (!beyond) clip.frames = Bytes{std::min(window, sequence.frames) * frame.count};
    const auto check = [&](const std::optional<Bytes>& limit, bool is_gpu) {
      auto needed = limit ? estimate_peak(*model.vos, clip, is_gpu) : std::nullopt;
      if (needed && !is_gpu && beyond) *needed += *beyond;
      if (!needed || *needed <= *limit) return;
      over.push_back({sequence.name,
                      {},
                      fmt::format("{} × {} with {} would need about {}, above the {}limit of {}",
                                  sequence.width, sequence.height, report::counted(clip.objects, "object"),
                                  format_bytes(*needed), is_gpu ? "GPU memory " : "", format_bytes(*limit))});
    };
    check(host, false);
    if (over.empty() || over.back().video != sequence.name) check(gpu, true);
  }
  return over;
}

WorkerJob inference_job(Run& run, const PreparedModel& model) {
  WorkerJob job = job_for(run, WorkerKind::inference);
  job.models = {worker_model(run, model)};
  if (!run.options.vos) return job;
  job.sequences.clear();  // in the file of videos
  job.window_frames = frames_in_memory(run.options, model.vos ? model.vos->side : 1);
  WorkerVos& vos = job.vos.emplace();
  vos.prompt = model.asked_prompt.value_or(run.options.vos->prompt);
  vos.profile = run.options.vos->profile;
  vos.objects = run.options.vos->objects;
  vos.plane_type = run.options.vos->planes;
  vos.non_overlap = run.prepared.vos && run.prepared.vos->layout == VosLayout::davis;
  vos.videos = videos_path(run.folder.path).string();
  vos.planes = planes_folder(run.options.prepared_dir).string();
  vos.masks_to = masks_path(run, model.name).string();
  for (const VosLeftOut& item : videos_over_limit(run, model)) vos.left_out.push_back(item.video);
  return job;
}

}  // namespace headroom::bench
