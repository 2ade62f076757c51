// A job is a list of named steps; after each the worker marks a phase, so that the memory of the runtime, of
// the loaded model and of its run are separate figures:
//   start            nothing but this program
//   runtime_loaded   the runtime's library and environment
//   model_loaded     the model, its task and its input buffers
//   warm             first frames run; lazily made memory is there, the frame ring is mapped and touched
//   running          the measured frames are done; nothing was cleaned since the last one
//   unloaded         model and frames are gone; what is left over runtime_loaded is the residue
#include "bench/worker.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "bench/frame_walk.h"
#include "bench/loaded_model.h"
#include "bench/sample_lines.h"
#include "bench/worker_end.h"
#include "bench/worker_events.h"
#include "bench/worker_protocol.h"
#include "media/frame_ring.h"
#include "model/device_name.h"
#include "sources/process_memory.h"

namespace headroom::bench {
namespace {

// A tuning trial and a warm-up on blank frames: enough runs for a median, bounded in time.
constexpr int kTrialRuns = 30;
constexpr Nanoseconds kTrialTime{2'000'000'000};
// Cleaning gives the arena and the outputs back. The next run takes them anew, which is Headroom's doing and
// no frame's: 4.4 ms became 6.5 ms in a folder of one picture a sequence.
constexpr std::int64_t kRunsAfterCleaning = 2;

struct Worker {
  WorkerJob job;
  std::unique_ptr<DeviceWatch> watch;  // of a job on GPUs; the events refer to it
  WorkerEvents events{kEventsFd};
  std::optional<media::FrameRing> ring;
  std::vector<inference::Backend> backends;  // by name; usually one
  std::vector<LoadedModel> models;
};

Result<WorkerJob> read_job() {
  std::string text;
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got == 0) break;
    if (got < 0) return internal_error("cannot read the job", errno_text(errno));
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  auto document = parse_json(text, "the job");
  if (!document) return forward_error(document);
  return worker_job_from_json(*document);
}

// The CUDA devices of a job, each once.
std::vector<unsigned> devices_of(const WorkerJob& job) {
  std::vector<unsigned> ordinals;
  for (const WorkerModel& model : job.models) {
    const auto device = parse_device_name(model.settings.device);
    if (device && device->is_cuda &&
        std::find(ordinals.begin(), ordinals.end(), device->ordinal) == ordinals.end())
      ordinals.push_back(device->ordinal);
  }
  return ordinals;
}

// A context costs hundreds of megabytes and belongs to no model, so it is there before the first is loaded.
Status prepare_devices(Worker& worker) {
  std::vector<std::string> ready;
  for (const WorkerModel& model : worker.job.models) {
    const auto device = parse_device_name(model.settings.device);
    if (!device || !device->is_cuda) continue;
    const auto same = [&](const inference::Backend& backend) { return backend.name() == model.backend; };
    auto facts = std::find_if(worker.backends.begin(), worker.backends.end(), same)
                     ->prepare_device(model.settings.device);
    if (!facts) return forward_error(facts);
    const std::string name = device->text();
    if (std::find(ready.begin(), ready.end(), name) != ready.end()) continue;
    ready.push_back(name);
    Json event;
    event["event"] = "device";
    event["ordinal"] = device->ordinal;
    event["device"] = name;
    event["name"] = facts->name;
    event["uuid"] = facts->uuid;
    event["total_bytes"] = facts->total.count;
    event["is_integrated"] = facts->is_integrated;
    worker.events.send(event);
  }
  return {};
}

Status start_runtimes(Worker& worker) {
  const Nanoseconds started = monotonic_now();
  for (const WorkerModel& model : worker.job.models) {
    const auto same = [&](const inference::Backend& backend) { return backend.name() == model.backend; };
    if (std::any_of(worker.backends.begin(), worker.backends.end(), same)) continue;
    auto backend = inference::Backend::open({model.backend, model.backend_path});
    if (!backend) return forward_error(backend);
    if (auto running = backend->start(); !running) return running;
    worker.backends.push_back(std::move(*backend));
  }
  Json event;
  event["event"] = "runtime";
  event["version"] = worker.backends.front().version();
  event["load_ns"] = (monotonic_now() - started).count;
  worker.events.send(event);
  if (auto ready = prepare_devices(worker); !ready) return ready;
  worker.events.mark(Phase::runtime_loaded);
  return {};
}

Status load_model(Worker& worker, const WorkerModel& model) {
  const auto same = [&](const inference::Backend& backend) { return backend.name() == model.backend; };
  inference::Backend& backend = *std::find_if(worker.backends.begin(), worker.backends.end(), same);
  const Nanoseconds started = monotonic_now();
  auto loaded = LoadedModel::load(backend, model, worker.job);
  if (!loaded) return forward_error(loaded);
  Json event;
  event["event"] = "model";
  event["name"] = model.name;
  event["load_ns"] = (monotonic_now() - started).count;
  event["task"] = loaded->task_name();
  event["input"] = loaded->input_text();
  event["takes_frames"] = loaded->takes_frames();
  event["class_names"] = loaded->class_names();
  if (const auto placement = loaded->placement()) {
    event["nodes_on_device"] = placement->on_device;
    event["nodes_on_cpu"] = placement->elsewhere;
    event["kinds_on_cpu"] = placement->elsewhere_text;
  }
  worker.models.push_back(std::move(*loaded));
  worker.events.send(event);
  return {};
}

Status warm_on_blank(Worker& worker, LoadedModel& model) {
  FrameTimes times;
  for (std::int64_t i = 0; i < worker.job.warmup_frames; ++i) {
    if (auto ran = model.process_blank(times); !ran) return ran;
    worker.events.alive();
  }
  return {};
}

// A trial runs at least once, to prove that the model can, and does not wait for a slow one.
Status warm_for_trial(Worker& worker, LoadedModel& model) {
  FrameTimes times;
  const Nanoseconds started = monotonic_now();
  for (std::int64_t i = 0; i < std::max<std::int64_t>(1, worker.job.warmup_frames); ++i) {
    if (auto ran = model.process_blank(times); !ran) return ran;
    worker.events.alive();
    if (monotonic_now() - started > kTrialTime) break;
  }
  return {};
}

// --- setup and tune
// -----------------------------------------------------------------------------------------

Status run_blank_trial(Worker& worker) {
  if (auto loaded = load_model(worker, worker.job.models.front()); !loaded) return loaded;
  worker.events.mark(Phase::model_loaded);
  LoadedModel& model = worker.models.front();
  if (auto warmed = warm_for_trial(worker, model); !warmed) return warmed;
  worker.events.mark(Phase::warm);
  if (worker.job.kind == WorkerKind::tune) {
    const Nanoseconds started = monotonic_now();
    for (int i = 0; i < kTrialRuns && monotonic_now() - started < kTrialTime; ++i) {
      FrameTimes times;
      if (auto ran = model.process_blank(times); !ran) return ran;
      worker.events.record(0, times);
    }
  }
  worker.events.mark(Phase::running);
  return {};
}

// --- the measured run
// ---------------------------------------------------------------------------------------

// Waits until all workers of a parallel run are warm, and says when the measured run begins.
Status begin_measuring(Worker& worker, Nanoseconds warmup_time) {
  worker.events.mark(Phase::warm);
  if (worker.job.wait_for_gate) {
    Json event;
    event["event"] = "waiting";
    worker.events.send(event);
    char byte = 0;
    if (::read(kGateFd, &byte, 1) != 1) return internal_error("the run was called off before it started");
  }
  Json event;
  event["event"] = "measuring";
  event["time_ns"] = monotonic_now().count;
  event["warmup_ns"] = warmup_time.count;
  event["cpu_time_ns"] = cpu_time_of_this_process().count;
  worker.events.send(event);
  return {};
}

// True when the conductor has closed the gate: nobody is measured any more.
bool let_go() {
  pollfd gate{kGateFd, POLLIN, 0};
  return ::poll(&gate, 1, 0) != 0;
}

void send_cleanup(Worker& worker, std::string_view level, const std::string& name) {
  const ProcessMemory memory = sources::read_process_memory(::getpid(), sources::ProcessDetail::status);
  Json event;
  event["event"] = "cleanup";
  event["level"] = level;
  event["name"] = name;
  set_if(event, "resident_bytes", memory.rss);
  worker.events.send(event);
}

// Sends what the model finds on those frames of the window that are to be drawn (`positions`, counted over
// all sequences, of which this window's first is `first`). They run once more, unmeasured, in memory that
// they have had already. A picture that cannot be had is no verdict on the model.
void send_samples(Worker& worker, const FrameWalk& walk, std::int64_t first,
                  std::vector<std::int64_t>& positions) {
  for (std::size_t i = 0; i < walk.slots().size(); ++i) {
    if (!std::binary_search(positions.begin(), positions.end(), first + static_cast<std::int64_t>(i)))
      continue;
    const media::FrameSlot& slot = walk.slots()[i];
    std::string problem;
    try {
      FrameTimes times;
      const auto ran = worker.models.front().process(walk.view(slot), times);
      if (ran)
        write_sample(kEventsFd, slot.sequence, slot.index, slot.name, worker.models.front().findings());
      else
        problem = ran.error().sentence();
    } catch (const std::bad_alloc&) {
      problem = "an allocation was refused";
    }
    if (problem.empty()) continue;
    positions.clear();
    Json event;
    event["event"] = "warning";
    event["message"] = "no more annotated samples: " + problem;
    worker.events.send(event);
  }
}

Status run_unmeasured(Worker& worker, const FrameWalk& walk, std::int64_t runs) {
  FrameTimes times;
  const auto frames = static_cast<std::int64_t>(walk.slots().size());
  for (std::int64_t i = 0; i < runs; ++i) {
    const FrameView frame = walk.view(walk.slots()[static_cast<std::size_t>(i % frames)]);
    for (LoadedModel& model : worker.models)
      if (auto ran = model.process(frame, times); !ran) return ran;
    worker.events.alive();
  }
  return {};
}

// The measured loop: decoded frames are in memory, nothing else of Headroom runs in this process.
Status measure_window(Worker& worker, FrameWalk& walk) {
  for (const media::FrameSlot& slot : walk.slots()) {
    const FrameView frame = walk.view(slot);
    for (std::size_t m = 0; m < worker.models.size(); ++m) {
      FrameTimes times;
      times.decode = {slot.decode_ns};
      if (auto ran = worker.models[m].process(frame, times); !ran) return ran;
      worker.events.record(m, times);
    }
  }
  worker.events.flush();
  worker.events.held(walk.slots().size(), walk.take_skipped());
  return {};
}

Status clean_models(Worker& worker) {
  for (LoadedModel& model : worker.models)
    if (auto cleaned = model.clean(); !cleaned) return cleaned;
  return {};
}

Status warm_and_begin(Worker& worker, FrameWalk& walk) {
  const Nanoseconds started = monotonic_now();
  if (walk.slots().empty()) return failure("the source gave no frame that can be decoded");
  if (auto warmed = run_unmeasured(worker, walk, worker.job.warmup_frames); !warmed) return warmed;
  return begin_measuring(worker, monotonic_now() - started);
}

Status run_on_frames(Worker& worker) {
  FrameWalk walk(*worker.ring, worker.events, worker.job.max_frames, worker.job.window_frames);
  const bool draws = worker.models.size() == 1;
  std::vector<std::int64_t> drawn = sample_positions(worker.job);
  std::int64_t frames_before = 0;  // of the sequences that are done
  bool first = true;
  for (std::size_t s = 0; s < worker.job.sequences.size(); ++s) {
    const WorkerSequence& sequence = worker.job.sequences[s];
    const std::vector<std::string> one{""};
    const std::vector<std::string>& objects = sequence.objects.empty() ? one : sequence.objects;
    for (const std::string& object : objects) {
      if (auto started = walk.start(static_cast<std::int32_t>(s)); !started) return started;
      if (auto got = walk.next_window(); !got) return got;
      if (std::exchange(first, false)) {
        if (auto begun = warm_and_begin(worker, walk); !begun) return begun;
      } else {
        const std::int64_t again = std::min(worker.job.warmup_frames, kRunsAfterCleaning);
        if (auto warmed = run_unmeasured(worker, walk, again); !warmed) return warmed;
      }
      while (!walk.slots().empty()) {
        if (auto measured = measure_window(worker, walk); !measured) return measured;
        if (draws && &object == &objects.front())
          send_samples(worker, walk, frames_before + walk.first_frame(), drawn);
        if (auto got = walk.next_window(); !got) return got;
      }
      // The last cleaning is no part of the run: what stays after it is not what the run took.
      if (&sequence == &worker.job.sequences.back() && &object == &objects.back())
        worker.events.mark(Phase::running);
      if (auto cleaned = clean_models(worker); !cleaned) return cleaned;
      if (!object.empty()) send_cleanup(worker, "object", sequence.name + "/" + object);
    }
    frames_before += walk.frames_done();
    send_cleanup(worker, "video", sequence.name);
  }
  return {};
}

// In a parallel run: goes on, unmeasured, until the slowest model has its figures too; a model that stopped
// at its last frame would leave the others a device that is less and less shared.
Status keep_busy(Worker& worker) {
  if (!worker.ring) {
    FrameTimes times;
    while (!let_go()) {
      if (auto ran = worker.models.front().process_blank(times); !ran) return ran;
      worker.events.alive();
    }
    return {};
  }
  FrameWalk walk(*worker.ring, worker.events, worker.job.max_frames, worker.job.window_frames);
  for (std::size_t s = 0;; s = (s + 1) % worker.job.sequences.size()) {
    if (auto started = walk.start(static_cast<std::int32_t>(s)); !started) return started;
    for (;;) {
      if (auto got = walk.next_window(); !got) return got;
      if (walk.slots().empty()) break;
      for (const media::FrameSlot& slot : walk.slots()) {
        if (let_go()) return {};
        FrameTimes times;
        for (LoadedModel& model : worker.models)
          if (auto ran = model.process(walk.view(slot), times); !ran) return ran;
        worker.events.alive();
      }
    }
    if (let_go()) return {};
  }
}

// No model has a vision task: the same inputs again and again.
Status run_on_made_up_inputs(Worker& worker) {
  const Nanoseconds started = monotonic_now();
  for (LoadedModel& model : worker.models)
    if (auto warmed = warm_on_blank(worker, model); !warmed) return warmed;
  if (auto begun = begin_measuring(worker, monotonic_now() - started); !begun) return begun;
  for (std::int64_t i = 0; i < worker.job.max_frames; ++i)
    for (std::size_t m = 0; m < worker.models.size(); ++m) {
      FrameTimes times;
      if (auto ran = worker.models[m].process_blank(times); !ran) return ran;
      worker.events.record(m, times);
    }
  worker.events.mark(Phase::running);
  if (auto cleaned = clean_models(worker); !cleaned) return cleaned;
  send_cleanup(worker, "video", "made-up inputs");
  return {};
}

Status run_inference(Worker& worker) {
  for (const WorkerModel& model : worker.job.models) {
    if (auto loaded = load_model(worker, model); !loaded) return loaded;
    if (worker.job.kind == WorkerKind::pipeline) {
      const ProcessMemory memory = worker.events.mark(Phase::model_loaded);
      Json event;
      event["event"] = "pipeline_model";
      event["name"] = model.name;
      set_if(event, "resident_bytes", memory.rss);
      worker.events.send(event);
    }
  }
  if (worker.job.kind == WorkerKind::inference) worker.events.mark(Phase::model_loaded);
  const bool needs_frames = std::any_of(worker.models.begin(), worker.models.end(),
                                        [](const LoadedModel& model) { return model.takes_frames(); });
  if (needs_frames && !worker.ring) return internal_error("the model takes frames, but the job gives none");
  // Touched here and not earlier, so that the load's figures are the model's alone.
  if (needs_frames) worker.ring->touch_pages();
  auto ran = needs_frames ? run_on_frames(worker) : run_on_made_up_inputs(worker);
  if (!ran) return ran;
  if (worker.job.wait_for_gate)
    if (auto kept = keep_busy(worker); !kept) return kept;
  worker.models.clear();
  worker.ring.reset();
  worker.events.mark(Phase::unloaded);
  return {};
}

Status run_job(Worker& worker) {
  if (auto ordinals = devices_of(worker.job); !ordinals.empty()) {
    worker.watch = std::make_unique<DeviceWatch>(std::move(ordinals));
    worker.events.set_device_watch(worker.watch.get());
  }
  worker.events.mark(Phase::start);
  if (worker.job.use_frames) {
    auto ring = media::FrameRing::attach(UniqueFd(kFrameRingFd));
    if (!ring) return forward_error(ring);
    worker.ring = std::move(*ring);
  }
  if (auto started = start_runtimes(worker); !started) return started;
  switch (worker.job.kind) {
    case WorkerKind::setup:
    case WorkerKind::tune:
      return run_blank_trial(worker);
    case WorkerKind::inference:
    case WorkerKind::pipeline:
      return run_inference(worker);
  }
  return internal_error("unknown kind of job");
}

}  // namespace

int run_worker() {
  auto job = read_job();
  if (!job) {
    WorkerEvents(kEventsFd).send_error(job.error(), false);
    return 3;
  }
  Worker worker;
  worker.job = std::move(*job);
  use_small_stacks_under_a_data_limit();
  report_refusals_at_terminate(worker.events);
  Status done;
  bool out_of_memory = false;
  try {
    done = run_job(worker);
    out_of_memory = !done && (inference::is_out_of_memory(done.error()) ||
                              (names_a_refusal(done.error().sentence()) && is_near_data_limit()));
  } catch (const std::bad_alloc&) {
    done = failure("an allocation was refused", "out of memory");
    out_of_memory = true;
  }
  if (!done) {
    worker.events.send_error(done.error(), out_of_memory);
    return done.error().kind == ErrorKind::internal ? 3 : 1;
  }
  Json event;
  event["event"] = "done";
  worker.events.send(event);
  return 0;
}

}  // namespace headroom::bench
