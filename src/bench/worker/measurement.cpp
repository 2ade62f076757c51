#include "bench/worker/worker_state.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "bench/annotated_samples.h"
#include "sources/process_table.h"

namespace headroom::bench {
namespace {

// Cleaning frees the arena and the outputs, and the next run allocates them again. Headroom causes that cost,
// not the frame: 4.4 ms became 6.5 ms in a folder with one picture per sequence. So two unmeasured runs
// follow.
constexpr std::int64_t kRunsAfterCleaning = 2;

// Whether the job computes in one thread only. Then two workers that take turns can share one processor.
bool computes_in_one_thread(const WorkerJob& job) {
  return std::all_of(job.models.begin(), job.models.end(), [](const WorkerModel& model) {
    return model.settings.device == "cpu" && model.settings.threads == 1;
  });
}

void end_turns(Worker& worker) {
  if (!worker.turns) return;
  worker.turns->end();
  worker.events.send("in_step",
                     message_to_json(InStep{{}, worker.turns->frames(), worker.turns->on_one_processor()}));
}

// Waits until all workers of a parallel run are warm, and reports the start of the measured run.
Status begin_measuring(Worker& worker, Nanoseconds warmup_time) {
  worker.events.mark(Phase::warm);
  if (worker.job.wait_for_gate) {
    worker.events.send("waiting");
    char byte = 0;
    if (::read(kGateFd, &byte, 1) != 1) return internal_error("the run was cancelled before it started");
  }
  if (worker.turns) worker.turns->begin(computes_in_one_thread(worker.job));
  worker.events.send(
      "measuring", message_to_json(MeasuringStart{monotonic_now(), warmup_time, cpu_time_of_this_process()}));
  return {};
}

// True once the conductor has closed the gate: all models have been measured.
bool is_released() {
  pollfd gate{kGateFd, POLLIN, 0};
  return ::poll(&gate, 1, 0) != 0;
}

void send_cleanup(Worker& worker, std::string_view level, const std::string& name) {
  const ProcessMemory memory = sources::read_process_memory(::getpid(), sources::ProcessDetail::status);
  worker.events.send("cleanup",
                     message_to_json(CleanupPoint{std::string(level), name, memory.rss.value_or(Bytes{})}));
}

// Sends the model's findings on those frames of the window that are to be drawn. `positions` are frame
// numbers over all sequences; this window starts at `first`. These frames run once more, unmeasured, in
// memory that is already allocated. A failure here is a warning and does not fail the model.
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
    worker.events.send("warning", {{"message", "no more annotated samples: " + problem}});
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

// The measured loop: decoded frames are in memory, and no other code of Headroom runs in this process.
Status measure_window(Worker& worker, FrameWalk& walk) {
  for (const media::FrameSlot& slot : walk.slots()) {
    const FrameView frame = walk.view(slot);
    if (worker.turns) worker.turns->next();
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

Status warm_and_begin(Worker& worker, FrameWalk& walk) {
  const Nanoseconds started = monotonic_now();
  if (walk.slots().empty()) return failure("no frame of the source can be decoded");
  if (auto warmed = run_unmeasured(worker, walk, worker.job.warmup_frames); !warmed) return warmed;
  return begin_measuring(worker, monotonic_now() - started);
}

Status run_on_frames(Worker& worker) {
  FrameWalk walk(*worker.ring, worker.events, worker.job.max_frames, worker.job.window_frames);
  const bool draws = worker.models.size() == 1;
  std::vector<std::int64_t> drawn = sample_positions(worker.job);
  std::int64_t frames_before = 0;  // frames of the finished sequences
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
      // Ends the phase before the last cleaning, because memory after the cleaning is not the run's memory.
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

// In a parallel run: continues unmeasured until the slowest model is measured. If a model stopped after its
// last frame, fewer models would share the device with the others.
Status keep_busy(Worker& worker) {
  if (!worker.ring) {
    FrameTimes times;
    while (!is_released()) {
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
        if (is_released()) return {};
        FrameTimes times;
        for (LoadedModel& model : worker.models)
          if (auto ran = model.process(walk.view(slot), times); !ran) return ran;
        worker.events.alive();
      }
    }
    if (is_released()) return {};
  }
}

// For models without a vision task: runs the same inputs again and again.
Status run_on_made_up_inputs(Worker& worker) {
  const Nanoseconds started = monotonic_now();
  for (LoadedModel& model : worker.models)
    if (auto warmed = warm_on_blank(worker, model, worker.job.warmup_frames); !warmed) return warmed;
  if (auto begun = begin_measuring(worker, monotonic_now() - started); !begun) return begun;
  for (std::int64_t i = 0; i < worker.job.max_frames; ++i) {
    if (worker.turns) worker.turns->next();
    for (std::size_t m = 0; m < worker.models.size(); ++m) {
      FrameTimes times;
      if (auto ran = worker.models[m].process_blank(times); !ran) return ran;
      worker.events.record(m, times);
    }
  }
  worker.events.mark(Phase::running);
  if (auto cleaned = clean_models(worker); !cleaned) return cleaned;
  send_cleanup(worker, "video", "generated inputs");
  return {};
}

}  // namespace

Status run_inference(Worker& worker) {
  for (const WorkerModel& model : worker.job.models) {
    if (auto loaded = load_model(worker, model); !loaded) return loaded;
    if (worker.job.kind == WorkerKind::pipeline) {
      const ProcessMemory memory = worker.events.mark(Phase::model_loaded);
      Json fields = Json::object();
      set_if(fields, "resident_bytes", memory.rss);
      worker.events.send("pipeline_model", fields);
    }
  }
  if (worker.job.kind == WorkerKind::inference) worker.events.mark(Phase::model_loaded);
  const bool needs_frames =
      std::ranges::any_of(worker.models, [](const LoadedModel& model) { return model.facts().takes_frames; });
  if (needs_frames && !worker.ring) return internal_error("the model needs frames, but the job has none");
  // Touched only here, so that the load figures contain only the model.
  if (needs_frames) worker.ring->touch_pages();
  auto ran = needs_frames ? run_on_frames(worker) : run_on_made_up_inputs(worker);
  if (!ran) return ran;
  end_turns(worker);
  if (worker.job.wait_for_gate)
    if (auto kept = keep_busy(worker); !kept) return kept;
  worker.models.clear();
  worker.ring.reset();
  worker.events.mark(Phase::unloaded);
  return {};
}

}  // namespace headroom::bench
