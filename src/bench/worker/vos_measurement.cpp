#include "bench/worker/worker_state.h"

#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/json.h"
#include "bench/vos/mask_lines.h"
#include "bench/vos/memory_growth.h"
#include "bench/vos/videos.h"
#include "inference/vos/tracker.h"
#include "media/vos/planes.h"
#include "sources/process_table.h"

namespace headroom::bench {
namespace {

using inference::vos::Tracker;
using media::vos::PlanesReader;

constexpr std::uint8_t kGreyPixel = 114;
// A trial's peak counts with all recent memories in the bank; a slow model gets the time for them.
constexpr std::int64_t kFullBankFrames = 9;
constexpr Nanoseconds kMostFullBankTime{30'000'000'000};
constexpr std::int64_t kTimedFrames = 30;
constexpr Nanoseconds kMostTimedTime{2'000'000'000};
// After a cleaning, the first runs allocate again what it released.
constexpr std::int64_t kStepsAfterCleaning = 2;
constexpr int kReloads = 2;

std::optional<ElementType> memory_type_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return ElementType::float32;
    case Precision::fp16:
      return ElementType::float16;
    case Precision::bf16:
      return ElementType::bfloat16;
    case Precision::automatic:
      break;
  }
  return std::nullopt;
}

Result<Tracker> load_tracker(Worker& worker, ModelFacts* facts = nullptr) {
  const WorkerModel& model = worker.job.models.front();
  const WorkerVos& vos = *worker.job.vos;
  const Nanoseconds started = monotonic_now();
  inference::vos::TrackerOptions options;
  options.profile = vos.profile == VosProfile::evaluation ? inference::vos::Profile::evaluation
                                                          : inference::vos::Profile::predictor;
  options.non_overlap = vos.non_overlap;
  options.objects_per_run = kObjectsTogether;
  options.memory_type = memory_type_of(model.settings.precision);
  RuntimeSettings settings = model.settings;
  // Graphs of other runtimes keep the types that they were exported with.
  if (model.backend != "libtorch") settings.precision = Precision::automatic;
  auto tracker = Tracker::load(*find_backend(worker, model), model.path, settings, options);
  if (!tracker || facts == nullptr) return tracker;
  facts->name = model.name;
  facts->task = "vos";
  facts->input = fmt::format("{1}[3,{0},{0}]", tracker->side(), name_of(vos.plane_type));
  facts->load_time = monotonic_now() - started;
  return tracker;
}

// Files of other projects take no prompts, so they have none that is missing.
Status check_prompt(const Worker& worker, const Tracker& tracker) {
  const bool takes_masks = !tracker.label().empty() || tracker.manifest().mask_downsample;
  if (worker.job.vos->prompt != PromptKind::mask || takes_masks) return {};
  return input_error("mask prompts are not supported", "the model's manifest has no mask_downsample",
                     "use --prompt points or --prompt box, or export it again with python/export_vos.py");
}

Result<Tracker> load_and_report(Worker& worker) {
  ModelFacts facts;
  auto tracker = load_tracker(worker, &facts);
  if (!tracker) return tracker;
  if (auto checked = check_prompt(worker, *tracker); !checked) return forward_error(checked);
  worker.events.send("model", message_to_json(facts));
  const inference::vos::Manifest& manifest = tracker->manifest();
  worker.events.send("vos_model", message_to_json(VosModelFacts{tracker->side(),
                                                                tracker->label(),
                                                                {manifest.mean.begin(), manifest.mean.end()},
                                                                {manifest.std.begin(), manifest.std.end()}}));
  worker.events.mark(Phase::model_loaded);
  return tracker;
}

Bytes anonymous_memory() {
  const ProcessMemory memory = sources::read_process_memory(::getpid(), sources::ProcessDetail::status);
  return memory.anonymous.value_or(memory.rss.value_or(Bytes{}));
}

// --- Blank frames

// Starts a video with a point on each object, in the middle of the frame.
Status begin_blank(Tracker& tracker, std::int64_t objects) {
  const int side = tracker.side();
  if (auto begun = tracker.start_video(side, side, 0, static_cast<std::size_t>(objects)); !begun)
    return begun;
  VosPrompt prompt;
  prompt.points = {{static_cast<float>(side) / 2, static_cast<float>(side) / 2, true}};
  for (std::size_t i = 0; i < static_cast<std::size_t>(objects); ++i)
    if (auto taken = tracker.prompt(i, prompt); !taken) return taken;
  return {};
}

struct BlankRun {
  std::int64_t objects = 1, frames = 2;
  Nanoseconds most_time = kMostFullBankTime;
  bool records = false;
};

// At least two frames: one with the prompt, and one that is tracked.
Status run_blank(Worker& worker, Tracker& tracker, const BlankRun& run) {
  const auto side = static_cast<std::size_t>(tracker.side());
  const std::vector<std::uint8_t> image(side * side * 3, kGreyPixel);
  const bool is_fp16 = worker.job.vos->plane_type == PlaneType::fp16;
  const std::vector<std::uint16_t> halves(is_fp16 ? image.size() : 0);
  if (auto begun = begin_blank(tracker, run.objects); !begun) return begun;
  const Nanoseconds started = monotonic_now();
  for (std::int64_t i = 0; i < run.frames; ++i) {
    const Nanoseconds before = monotonic_now();
    if (auto stepped = is_fp16 ? tracker.step(i, halves) : tracker.step(i, image); !stepped) return stepped;
    FrameTimes times;
    times.inference = monotonic_now() - before;
    if (run.records) worker.events.record(0, times);
    worker.events.alive();
    if (i > 0 && monotonic_now() - started > run.most_time) break;
  }
  return {};
}

void send_trial(Worker& worker, const Tracker& tracker, std::int64_t objects) {
  worker.events.send("vos_trial", message_to_json(VosTrial{objects, tracker.bank_bytes(), {}, {}}));
}

void send_cleaned(Worker& worker, std::string_view level, const std::string& name) {
  const ProcessMemory memory = sources::read_process_memory(::getpid(), sources::ProcessDetail::status);
  worker.events.send("cleanup",
                     message_to_json(CleanupPoint{std::string(level), name, memory.rss.value_or(Bytes{})}));
}

// --- Clips

struct Clip {
  std::size_t video = 0;  // index in the file of videos
  const PreparedVideo* prepared = nullptr;
  std::vector<std::size_t> objects;    // indices in the video
  std::int64_t first = 0, frames = 0;  // from the first prompt; of the whole clip
};

class ClipRunner {
 public:
  ClipRunner(Worker& worker, Tracker& tracker) : worker_(worker), tracker_(tracker) {}

  // Files of other projects make no masks.
  Status open_masks() {
    if (worker_.job.vos->masks_to.empty() || !tracker_.label().empty()) return {};
    auto masks = MaskWriter::create(worker_.job.vos->masks_to);
    if (!masks) return forward_error(masks);
    masks_ = std::move(*masks);
    return {};
  }

  Status run(const Clip& clip) {
    VosProgress progress{clip.prepared->video.id,
                         {},
                         static_cast<std::int64_t>(clip.objects.size()),
                         clip.frames - clip.first};
    if (worker_.job.vos->objects == VosObjects::alone)
      progress.object = clip.prepared->video.objects[clip.objects.front()].id;
    send_progress(progress);
    // So that the clip's peak is its own.
    if (has_run_objects_) worker_.events.mark(Phase::running);
    has_run_objects_ = false;
    auto reader = open_planes(clip);
    if (!reader) return forward_error(reader);
    if (auto warmed = warm(clip, *reader); !warmed) return warmed;
    // The mapping ends with this scope, before the cleaning is looked at.
    VosClipEnd end;
    if (auto measured = measure(clip, *reader, end); !measured) return measured;
    reader = tl::unexpected<Error>(Error{});
    return finish(end);
  }

  // After a clip of all objects: each of them alone for a few frames, for its memory after the cleaning. An
  // object sees the picture of its first prompt only.
  Status run_objects(const Clip& clip) {
    const VosVideo& video = clip.prepared->video;
    for (const std::size_t object : clip.objects) {
      send_progress({video.id, video.objects[object].id});
      auto reader = open_planes(clip);
      if (!reader) return forward_error(reader);
      Clip alone{clip.video, clip.prepared, {object}, clip.frames, clip.frames};
      for (const VosPrompt& prompt : clip.prepared->prompts_of(object, worker_.job.vos->prompt))
        alone.first = std::min(alone.first, prompt.frame);
      if (auto stepped = step_briefly(alone, kStepsAfterCleaning, *reader); !stepped) return stepped;
      reader = tl::unexpected<Error>(Error{});
      VosObjectEnd end{video.id, video.objects[object].id, {}, {}};
      if (auto cleaned = clean(end.after, end.gpu_after); !cleaned) return cleaned;
      worker_.events.send("vos_object", message_to_json(end));
      send_cleaned(worker_, "object", end.video + "/" + end.object);
    }
    has_run_objects_ = true;
    return {};
  }

  // If the process dies, the report names what it tracked.
  void send_progress(const VosProgress& progress) {
    worker_.events.flush();  // the frames until here belong to earlier clips
    worker_.events.send("vos_progress", message_to_json(progress));
  }

 private:
  Result<PlanesReader> open_planes(const Clip& clip) const {
    const VosVideo& video = clip.prepared->video;
    const inference::vos::Manifest& manifest = tracker_.manifest();
    const media::vos::PlanesFormat format{tracker_.side(), worker_.job.vos->plane_type, manifest.mean,
                                          manifest.std};
    auto reader = PlanesReader::open(media::vos::planes_path(video, format, worker_.job.vos->planes),
                                     worker_.job.window_frames);
    if (!reader) return reader;
    if (reader->side() != format.side || reader->type() != format.type || reader->frames() < clip.frames)
      return input_error(fmt::format("the prepared frames of {} are of another setup", video.id), "",
                         "run the setup phase again, without --skip-setup");
    return reader;
  }

  Status step(std::int64_t frame, std::span<const std::uint8_t> planes) {
    if (worker_.job.vos->plane_type == PlaneType::fp16)
      return tracker_.step(frame, PlanesReader::as_halves(planes));
    return tracker_.step(frame, planes);
  }

  Status begin(const Clip& clip) {
    const VosVideo& video = clip.prepared->video;
    const PromptKind kind = worker_.job.vos->prompt;
    if (auto begun = tracker_.start_video(video.width, video.height, clip.frames, clip.objects.size());
        !begun)
      return begun;
    for (std::size_t i = 0; i < clip.objects.size(); ++i)
      for (const VosPrompt& prompt : clip.prepared->prompts_of(clip.objects[i], kind))
        if (prompt.frame < clip.frames)
          if (auto taken = tracker_.prompt(i, prompt); !taken) return taken;
    return {};
  }

  // Tracks the first frames of a clip. Each sees the first picture, because frames are read in ascending
  // order.
  Status step_briefly(const Clip& clip, std::int64_t steps, PlanesReader& reader) {
    if (steps <= 0) return {};
    if (auto begun = begin(clip); !begun) return begun;
    const auto planes = reader.frame(clip.first);
    for (std::int64_t i = 0; i < std::min(steps, clip.frames - clip.first); ++i) {
      if (auto stepped = step(clip.first + i, planes); !stepped) return stepped;
      worker_.events.alive();
    }
    return {};
  }

  Status warm(const Clip& clip, PlanesReader& reader) {
    const Nanoseconds started = monotonic_now();
    const std::int64_t steps = is_warm_ ? kStepsAfterCleaning : worker_.job.warmup_frames;
    if (auto stepped = step_briefly(clip, steps, reader); !stepped) return stepped;
    if (is_warm_) return {};
    is_warm_ = true;
    worker_.events.mark(Phase::warm);
    worker_.events.send("measuring",
                        message_to_json(MeasuringStart{monotonic_now(), monotonic_now() - started,
                                                       cpu_time_of_this_process()}));
    return {};
  }

  Status measure(const Clip& clip, PlanesReader& reader, VosClipEnd& end) {
    const VosVideo& video = clip.prepared->video;
    GrowthPoints host(clip.first + kRingFull), gpu = host;
    Nanoseconds spent;
    if (auto begun = begin(clip); !begun) return begun;
    for (std::int64_t frame = clip.first; frame < clip.frames; ++frame) {
      const Nanoseconds started = monotonic_now();
      const auto image = reader.frame(frame);
      const Nanoseconds read = monotonic_now();
      if (auto stepped = step(frame, image); !stepped) return stepped;
      FrameTimes times;
      times.decode = read - started;
      times.inference = monotonic_now() - read;
      spent = spent + times.inference;
      for (std::size_t i = 0; i < clip.objects.size(); ++i) times.findings += tracker_.object(i).visible;
      worker_.events.record(0, times);
      if (host.wants(frame)) host.add(frame, anonymous_memory());
      if (const auto bytes = worker_.events.device_bytes(); bytes && gpu.wants(frame)) gpu.add(frame, *bytes);
      keep_masks(clip, frame);
    }
    worker_.events.flush();
    const std::int64_t frames = clip.frames - clip.first;
    worker_.events.held(static_cast<std::size_t>(std::min(worker_.job.window_frames, frames)), 0);
    worker_.events.mark(Phase::running);
    end.bank = tracker_.bank_bytes();
    VosClip& figures = end.clip;
    figures.video = video.id;
    if (worker_.job.vos->objects == VosObjects::alone)
      figures.object = video.objects[clip.objects.front()].id;
    figures.width = video.width;
    figures.height = video.height;
    figures.frames = frames;
    figures.objects = static_cast<std::int64_t>(clip.objects.size());
    if (spent.count > 0) figures.fps = 1e9 * static_cast<double>(frames) / static_cast<double>(spent.count);
    figures.growth = host.slope();
    figures.gpu_growth = gpu.slope();
    return {};
  }

  // Masks with a ground truth, and those of the middle frame, which may be drawn.
  void keep_masks(const Clip& clip, std::int64_t frame) {
    if (!masks_) return;
    for (std::size_t i = 0; i < clip.objects.size(); ++i) {
      const bool is_scored = clip.prepared->video.objects[clip.objects[i]].masks.contains(frame);
      if (!is_scored && frame != clip.frames / 2) continue;
      const auto kept = masks_->add(clip.video, frame, clip.objects[i], tracker_.mask(i));
      if (kept) continue;
      worker_.events.send(
          "warning", {{"message", fmt::format("no scores from video {} on: its masks were not written: {}",
                                              clip.prepared->video.id, kept.error().sentence())}});
      masks_.reset();
      has_lost_masks_ = true;
      return;
    }
  }

  Status finish(VosClipEnd& end) {
    end.has_lost_masks = has_lost_masks_;
    if (auto cleaned = clean(end.clip.after, end.clip.gpu_after); !cleaned) return cleaned;
    worker_.events.send("vos_clip", message_to_json(end));
    return {};
  }

  Status clean(std::optional<Bytes>& after, std::optional<Bytes>& gpu_after) {
    if (auto cleaned = tracker_.end_video(); !cleaned) return cleaned;
    ::malloc_trim(0);
    after = anonymous_memory();
    gpu_after = worker_.events.device_bytes();
    return {};
  }

  Worker& worker_;
  Tracker& tracker_;
  std::optional<MaskWriter> masks_;
  bool has_lost_masks_ = false;
  bool is_warm_ = false;
  bool has_run_objects_ = false;  // since the last mark of a phase
};

// The clips of a video: all objects at once, or one after another. Objects without a prompt of this kind in
// the measured frames have none.
std::vector<Clip> clips_of(const PreparedVideo& prepared, std::size_t video, const WorkerJob& job) {
  std::vector<Clip> clips;
  const std::int64_t frames =
      std::min(job.max_frames, static_cast<std::int64_t>(prepared.video.frames.size()));
  for (std::size_t i = 0; i < prepared.video.objects.size(); ++i) {
    std::int64_t first = frames;
    for (const VosPrompt& prompt : prepared.prompts_of(i, job.vos->prompt))
      first = std::min(first, prompt.frame);
    if (first >= frames) continue;
    if (clips.empty() || job.vos->objects == VosObjects::alone)
      clips.push_back({video, &prepared, {}, first, frames});
    clips.back().objects.push_back(i);
    clips.back().first = std::min(clips.back().first, first);
  }
  return clips;
}

Status run_videos(Worker& worker, Tracker& tracker) {
  const WorkerVos& vos = *worker.job.vos;
  auto lines = VideoLines::open(vos.videos);
  if (!lines) return forward_error(lines);
  ClipRunner runner(worker, tracker);
  if (auto opened = runner.open_masks(); !opened) return opened;
  bool has_run = false;
  for (std::size_t index = 0;; ++index) {
    auto prepared = lines->next();
    if (!prepared) return forward_error(prepared);
    if (!*prepared) break;
    const std::string& name = (*prepared)->video.id;
    if (std::ranges::find(vos.left_out, name) != vos.left_out.end()) continue;
    for (const Clip& clip : clips_of(**prepared, index, worker.job)) {
      if (auto ran = runner.run(clip); !ran) return ran;
      has_run = true;
      if (vos.objects == VosObjects::alone)
        send_cleaned(worker, "object", name + "/" + (*prepared)->video.objects[clip.objects.front()].id);
      else if (auto looked = runner.run_objects(clip); !looked)
        return looked;
    }
    send_cleaned(worker, "video", name);
  }
  runner.send_progress({});
  if (has_run) return {};
  return failure("no video was run", vos.left_out.empty()
                                         ? fmt::format("no object has a prompt of {}", name_of(vos.prompt))
                                         : "none would fit under the limit");
}

// After the model was unloaded.
void send_unloaded(Worker& worker) {
  ::malloc_trim(0);
  worker.events.send("vos_load",
                     message_to_json(VosLoadEnd{anonymous_memory(), worker.events.device_bytes()}));
}

Status reload(Worker& worker) {
  auto tracker = load_tracker(worker);
  if (!tracker) return forward_error(tracker);
  return run_blank(worker, *tracker, {});
}

}  // namespace

Status try_vos(Worker& worker) {
  auto tracker = load_and_report(worker);
  if (!tracker) return forward_error(tracker);
  BlankRun run{.frames = kFullBankFrames};
  if (auto ran = run_blank(worker, *tracker, run); !ran) return ran;
  worker.events.mark(Phase::warm);
  send_trial(worker, *tracker, 1);
  run.objects = std::clamp<std::int64_t>(worker.job.vos->most_objects, 1, kObjectsTogether);
  if (run.objects > 1) {
    if (auto ran = run_blank(worker, *tracker, run); !ran) return ran;
    worker.events.mark(Phase::running);
    send_trial(worker, *tracker, run.objects);
  }
  if (worker.job.kind == WorkerKind::tune) {
    if (auto ran = run_blank(worker, *tracker, {run.objects, kTimedFrames, kMostTimedTime, true}); !ran)
      return ran;
    worker.events.flush();
  }
  worker.events.mark(Phase::running);
  return {};
}

Status run_vos(Worker& worker) {
  {
    auto tracker = load_and_report(worker);
    if (!tracker) return forward_error(tracker);
    if (auto ran = run_videos(worker, *tracker); !ran) return ran;
  }
  ::malloc_trim(0);
  worker.events.mark(Phase::unloaded);
  send_unloaded(worker);
  for (int i = 0; i < kReloads; ++i) {
    if (auto reloaded = reload(worker); !reloaded) return reloaded;
    send_unloaded(worker);
  }
  return {};
}

}  // namespace headroom::bench
