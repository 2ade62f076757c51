// A job is a list of named steps; after each the worker marks a phase, so that the memory of the runtime, of
// the loaded model and of its run are separate figures:
//   start            nothing but this program
//   runtime_loaded   the runtime's library and environment
//   model_loaded     the model, its task and its input buffers
//   warm             first frames run; lazily made memory is there, the frame ring is mapped and touched
//   running          the measured frames are done
//   unloaded         model and frames are gone; what is left over runtime_loaded is the residue
#include "bench/worker.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <new>
#include <optional>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "bench/loaded_model.h"
#include "bench/worker_events.h"
#include "bench/worker_protocol.h"
#include "media/decoder.h"
#include "media/frame_ring.h"
#include "sources/process_memory.h"

namespace headroom::bench {
namespace {

// A tuning trial and a warm-up on blank frames: enough runs for a median, bounded in time.
constexpr int kTrialRuns = 30;
constexpr Nanoseconds kTrialTime{2'000'000'000};

struct Worker {
  WorkerJob job;
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
  worker.models.push_back(std::move(*loaded));
  worker.events.send(event);
  return {};
}

Status warm_on_blank(Worker& worker, LoadedModel& model) {
  FrameTimes times;
  const Nanoseconds started = monotonic_now();
  for (std::int64_t i = 0; i < std::max<std::int64_t>(1, worker.job.warmup_frames); ++i) {
    if (auto ran = model.process_blank(times); !ran) return ran;
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
  if (auto warmed = warm_on_blank(worker, model); !warmed) return warmed;
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

// The frames of one sequence, a window at a time.
class FrameWalk {
 public:
  FrameWalk(media::FrameRing& ring, std::int64_t limit, std::int64_t window)
      : ring_(ring), limit_(limit), largest_window_(window) {}

  Status start(std::int32_t sequence) {
    done_ = 0;
    media::DecoderRequest request;
    request.verb = media::DecoderVerb::start_sequence;
    request.sequence = sequence;
    auto answer = ask(request);
    return answer ? Status{} : Status(forward_error(answer));
  }

  // The next window, or an empty one at the end.
  Status next_window() {
    slots_.clear();
    if (done_ >= limit_) return {};
    media::DecoderRequest request;
    request.maximum_frames = std::min(limit_ - done_, largest_window_);
    auto answer = ask(request);
    if (!answer) return forward_error(answer);
    for (std::uint32_t i = 0; i < answer->frames; ++i) {
      auto slot = ring_.slot(i);  // checked copies: the decoder could write the originals
      if (!slot) return forward_error(slot);
      slots_.push_back(*slot);
    }
    done_ += static_cast<std::int64_t>(slots_.size());
    return {};
  }

  const std::vector<media::FrameSlot>& slots() const { return slots_; }
  FrameView view(const media::FrameSlot& slot) const { return {ring_.pixels(slot), slot.width, slot.height}; }

 private:
  Result<media::DecoderAnswer> ask(const media::DecoderRequest& request) {
    auto answer = media::ask_decoder(kDecoderFd, request);
    if (answer && answer->ok == 0) return failure("the source gives no more frames", answer->error);
    return answer;
  }

  media::FrameRing& ring_;
  std::int64_t limit_, largest_window_;
  std::int64_t done_ = 0;
  std::vector<media::FrameSlot> slots_;
};

Status wait_for_gate(Worker& worker) {
  if (!worker.job.wait_for_gate) return {};
  Json event;
  event["event"] = "waiting";
  worker.events.send(event);
  char byte = 0;
  if (::read(kGateFd, &byte, 1) != 1) return internal_error("the run was called off before it started");
  return {};
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

// Frames spread over the first window run once more, unmeasured, and what was found there is sent to be
// drawn.
Status send_samples(Worker& worker, FrameWalk& walk) {
  const std::size_t frames = walk.slots().size();
  const std::size_t wanted = std::min(static_cast<std::size_t>(worker.job.sample_images), frames);
  for (std::size_t i = 0; i < wanted; ++i) {
    const media::FrameSlot& slot = walk.slots()[i * frames / wanted];
    FrameTimes times;
    if (auto ran = worker.models.front().process(walk.view(slot), times); !ran) return ran;
    Json event;
    event["event"] = "sample";
    event["sequence"] = slot.sequence;
    event["frame"] = slot.index;
    event["name"] = slot.name;
    event["findings"] = to_json(worker.models.front().findings());
    worker.events.send(event);
  }
  return {};
}

Status warm_on_frames(Worker& worker, FrameWalk& walk) {
  FrameTimes times;
  const auto frames = static_cast<std::int64_t>(walk.slots().size());
  if (frames == 0) return failure("the source gave no frame that can be decoded");
  for (std::int64_t i = 0; i < worker.job.warmup_frames; ++i) {
    const FrameView frame = walk.view(walk.slots()[static_cast<std::size_t>(i % frames)]);
    for (LoadedModel& model : worker.models)
      if (auto ran = model.process(frame, times); !ran) return ran;
  }
  return {};
}

// The measured loop: decoded frames are in memory, nothing else of Headroom runs in this process.
Status measure_window(Worker& worker, const FrameWalk& walk) {
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
  Json held;
  held["event"] = "held";
  held["frames"] = walk.slots().size();
  worker.events.send(held);
  return {};
}

Status clean_models(Worker& worker) {
  for (LoadedModel& model : worker.models)
    if (auto cleaned = model.clean(); !cleaned) return cleaned;
  return {};
}

Status run_on_frames(Worker& worker) {
  FrameWalk walk(*worker.ring, worker.job.max_frames, worker.job.window_frames);
  bool first = true;
  for (std::size_t s = 0; s < worker.job.sequences.size(); ++s) {
    const WorkerSequence& sequence = worker.job.sequences[s];
    const std::vector<std::string> one{""};
    const std::vector<std::string>& objects = sequence.objects.empty() ? one : sequence.objects;
    for (const std::string& object : objects) {
      if (auto started = walk.start(static_cast<std::int32_t>(s)); !started) return started;
      if (auto got = walk.next_window(); !got) return got;
      if (first) {
        if (auto warmed = warm_on_frames(worker, walk); !warmed) return warmed;
        worker.events.mark(Phase::warm);
        if (auto open = wait_for_gate(worker); !open) return open;
      }
      for (bool first_window = true; !walk.slots().empty(); first_window = false) {
        if (auto measured = measure_window(worker, walk); !measured) return measured;
        if (first && first_window && worker.models.size() == 1)
          if (auto sent = send_samples(worker, walk); !sent) return sent;
        if (auto got = walk.next_window(); !got) return got;
      }
      first = false;
      if (auto cleaned = clean_models(worker); !cleaned) return cleaned;
      if (!object.empty()) send_cleanup(worker, "object", sequence.name + "/" + object);
    }
    send_cleanup(worker, "video", sequence.name);
  }
  return {};
}

// A model without a vision task: the same inputs again and again.
Status run_on_made_up_inputs(Worker& worker) {
  if (auto warmed = warm_on_blank(worker, worker.models.front()); !warmed) return warmed;
  worker.events.mark(Phase::warm);
  if (auto open = wait_for_gate(worker); !open) return open;
  for (std::int64_t i = 0; i < worker.job.max_frames; ++i) {
    FrameTimes times;
    if (auto ran = worker.models.front().process_blank(times); !ran) return ran;
    worker.events.record(0, times);
  }
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
  worker.events.mark(Phase::running);
  worker.models.clear();
  worker.ring.reset();
  worker.events.mark(Phase::unloaded);
  return {};
}

Status run_job(Worker& worker) {
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
  Status done;
  bool out_of_memory = false;
  try {
    done = run_job(worker);
    out_of_memory = !done && inference::is_out_of_memory(done.error());
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
