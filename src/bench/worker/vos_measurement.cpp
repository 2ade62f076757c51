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

constexpr std::uint8_t kGreyPixel = 114;
constexpr std::int64_t kObjectsTogether = 4;  // objects_per_run of the tracker
constexpr std::int64_t kMostTrialFrames = 30;
constexpr Nanoseconds kMostTrialTime{2'000'000'000};
// After a cleaning, the first runs allocate again what it released.
constexpr std::int64_t kStepsAfterCleaning = 2;
constexpr int kReloads = 2;

ElementType memory_type_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return ElementType::float32;
    case Precision::fp16:
      return ElementType::float16;
    case Precision::bf16:
    case Precision::automatic:
      break;
  }
  return ElementType::bfloat16;
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
  facts->input = fmt::format("uint8[3,{0},{0}]", tracker->side());
  facts->load_time = monotonic_now() - started;
  return tracker;
}

Result<Tracker> load_and_report(Worker& worker) {
  ModelFacts facts;
  auto tracker = load_tracker(worker, &facts);
  if (!tracker) return tracker;
  worker.events.send("model", message_to_json(facts));
  worker.events.send("vos_model", message_to_json(VosModelFacts{tracker->side()}));
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

// At least two frames: one with the prompt, and one that is tracked.
Status run_blank(Worker& worker, Tracker& tracker, std::int64_t objects, std::int64_t frames, bool records) {
  const auto side = static_cast<std::size_t>(tracker.side());
  const std::vector<std::uint8_t> image(side * side * 3, kGreyPixel);
  if (auto begun = begin_blank(tracker, objects); !begun) return begun;
  const Nanoseconds started = monotonic_now();
  for (std::int64_t i = 0; i < std::max<std::int64_t>(2, frames); ++i) {
    const Nanoseconds before = monotonic_now();
    if (auto stepped = tracker.step(i, image); !stepped) return stepped;
    FrameTimes times;
    times.inference = monotonic_now() - before;
    if (records) worker.events.record(0, times);
    worker.events.alive();
    if (i > 0 && monotonic_now() - started > kMostTrialTime) break;
  }
  return {};
}

void send_trial(Worker& worker, const Tracker& tracker, std::int64_t objects) {
  worker.events.send("vos_trial", message_to_json(VosTrial{objects, tracker.bank_bytes(), {}, {}}));
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

  Status open_masks() {
    if (worker_.job.vos->masks_to.empty()) return {};
    auto masks = MaskWriter::create(worker_.job.vos->masks_to);
    if (!masks) return forward_error(masks);
    masks_ = std::move(*masks);
    return {};
  }

  Status run(const Clip& clip) {
    const PreparedVideo& prepared = *clip.prepared;
    auto reader = media::vos::PlanesReader::open(
        media::vos::planes_path(prepared.video, tracker_.side(), worker_.job.vos->planes),
        worker_.job.window_frames);
    if (!reader) return forward_error(reader);
    if (reader->side() != tracker_.side() || reader->frames() < clip.frames)
      return input_error(fmt::format("the prepared frames of {} are of another setup", prepared.video.id), "",
                         "run the setup phase again, without --skip-setup");
    if (auto warmed = warm(clip, *reader); !warmed) return warmed;
    // The mapping ends with this scope, before the cleaning is looked at.
    VosClipEnd end;
    if (auto measured = measure(clip, *reader, end); !measured) return measured;
    reader = tl::unexpected<Error>(Error{});
    return finish(end);
  }

 private:
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

  Status warm(const Clip& clip, media::vos::PlanesReader& reader) {
    const Nanoseconds started = monotonic_now();
    const std::int64_t steps = is_warm_ ? kStepsAfterCleaning : worker_.job.warmup_frames;
    if (steps > 0)
      if (auto begun = begin(clip); !begun) return begun;
    for (std::int64_t i = 0; i < std::min(steps, clip.frames - clip.first); ++i) {
      // Always of the first frame's picture: frames are read in ascending order.
      if (auto stepped = tracker_.step(clip.first + i, reader.frame(clip.first)); !stepped) return stepped;
      worker_.events.alive();
    }
    if (is_warm_) return {};
    is_warm_ = true;
    worker_.events.mark(Phase::warm);
    worker_.events.send("measuring",
                        message_to_json(MeasuringStart{monotonic_now(), monotonic_now() - started,
                                                       cpu_time_of_this_process()}));
    return {};
  }

  Status measure(const Clip& clip, media::vos::PlanesReader& reader, VosClipEnd& end) {
    const VosVideo& video = clip.prepared->video;
    GrowthPoints host(clip.first + first_compared_frame(clip.frames - clip.first)), gpu = host;
    Nanoseconds spent;
    if (auto begun = begin(clip); !begun) return begun;
    for (std::int64_t frame = clip.first; frame < clip.frames; ++frame) {
      const Nanoseconds started = monotonic_now();
      const auto image = reader.frame(frame);
      const Nanoseconds read = monotonic_now();
      if (auto stepped = tracker_.step(frame, image); !stepped) return stepped;
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
      worker_.events.send("warning", {{"message", "no more masks are scored: " + kept.error().sentence()}});
      masks_.reset();
      return;
    }
  }

  Status finish(VosClipEnd& end) {
    if (auto cleaned = tracker_.end_video(); !cleaned) return cleaned;
    ::malloc_trim(0);
    end.clip.after = anonymous_memory();
    end.clip.gpu_after = worker_.events.device_bytes();
    worker_.events.send("vos_clip", message_to_json(end));
    return {};
  }

  Worker& worker_;
  Tracker& tracker_;
  std::optional<MaskWriter> masks_;
  bool is_warm_ = false;
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

void send_cleaned(Worker& worker, std::string_view level, const std::string& name) {
  const ProcessMemory memory = sources::read_process_memory(::getpid(), sources::ProcessDetail::status);
  worker.events.send("cleanup",
                     message_to_json(CleanupPoint{std::string(level), name, memory.rss.value_or(Bytes{})}));
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
    }
    send_cleaned(worker, "video", name);
  }
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
  return run_blank(worker, *tracker, 1, 0, false);
}

}  // namespace

Status try_vos(Worker& worker) {
  auto tracker = load_and_report(worker);
  if (!tracker) return forward_error(tracker);
  const bool is_tuning = worker.job.kind == WorkerKind::tune;
  const std::int64_t frames = std::min(worker.job.warmup_frames, kMostTrialFrames);
  if (auto ran = run_blank(worker, *tracker, 1, frames, false); !ran) return ran;
  worker.events.mark(Phase::warm);
  send_trial(worker, *tracker, 1);
  if (is_tuning) {
    if (auto ran = run_blank(worker, *tracker, 1, kMostTrialFrames, true); !ran) return ran;
    worker.events.flush();
  } else if (const std::int64_t many = std::min(worker.job.vos->most_objects, kObjectsTogether); many > 1) {
    if (auto ran = run_blank(worker, *tracker, many, 0, false); !ran) return ran;
    worker.events.mark(Phase::running);
    send_trial(worker, *tracker, many);
    return {};
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
