// A job is a sequence of named phases. The worker marks the end of each phase, so that the memory of the
// runtime, of the loaded model and of the run are separate figures:
//   start            only this program
//   runtime_loaded   the runtime's library and environment are loaded
//   model_loaded     the model, its task and its input buffers are loaded
//   warm             the first frames have run: lazy allocations are done, the frame ring is touched
//   running          the measured frames are done; nothing was cleaned since the last frame
//   unloaded         model and frames are freed; memory above runtime_loaded is the residue
#include "bench/processes.h"

#include <unistd.h>

#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "bench/worker/events.h"
#include "bench/worker/worker_state.h"
#include "types/device_name.h"

namespace headroom::bench {
namespace {

// A tuning trial and a warm-up on blank frames: enough runs for a median, bounded in time.
constexpr int kTrialRuns = 30;
constexpr Nanoseconds kTrialTime{2'000'000'000};

Result<WorkerJob> read_job() {
  auto text = read_descriptor(STDIN_FILENO, "the job");
  if (!text) return forward_error(text);
  auto document = parse_json(*text, "the job");
  if (!document) return forward_error(document);
  auto job = message_from_json<WorkerJob>(*document);
  if (job && job->models.empty()) return internal_error("the worker's job has no model");
  return job;
}

// The CUDA devices of a job, without duplicates.
std::vector<unsigned> devices_of(const WorkerJob& job) {
  std::vector<std::string> names;
  for (const WorkerModel& model : job.models) names.push_back(model.settings.device);
  return cuda_ordinals(names);
}

Status run_blank_trial(Worker& worker) {
  if (auto loaded = load_model(worker, worker.job.models.front()); !loaded) return loaded;
  worker.events.mark(Phase::model_loaded);
  LoadedModel& model = worker.models.front();
  // At least one run proves that the model works. A slow model is not awaited for long.
  const std::int64_t frames = std::max<std::int64_t>(1, worker.job.warmup_frames);
  if (auto warmed = warm_on_blank(worker, model, frames, kTrialTime); !warmed) return warmed;
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

Status run_job(Worker& worker) {
  if (auto ordinals = devices_of(worker.job); !ordinals.empty())
    worker.events.watch_devices(std::move(ordinals));
  worker.events.mark(Phase::start);
  if (worker.job.use_frames) {
    auto ring = media::FrameRing::attach(UniqueFd(kFrameRingFd));
    if (!ring) return forward_error(ring);
    worker.ring = std::move(*ring);
  }
  if (auto started = start_runtimes(worker); !started) return started;
  if (worker.job.vos) return worker.job.kind == WorkerKind::inference ? run_vos(worker) : try_vos(worker);
  switch (worker.job.kind) {
    case WorkerKind::setup:
    case WorkerKind::tune:
      return run_blank_trial(worker);
    case WorkerKind::inference:
    case WorkerKind::pipeline:
      return run_inference(worker);
    case WorkerKind::pool:
      return run_pooled(worker);
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
  if (worker.job.turns)
    worker.turns.emplace(UniqueFd(kTurnsFd), worker.job.turns->first, worker.job.turns->timeout,
                         [&events = worker.events] { events.alive(); });
  use_small_stacks_under_a_data_limit();
  report_refusals_at_terminate(worker.events);
  Status done;
  bool out_of_memory = false;
  try {
    done = run_job(worker);
    out_of_memory = !done && (inference::is_out_of_memory(done.error()) ||
                              (mentions_refused_memory(done.error().sentence()) && is_near_data_limit()));
  } catch (const std::bad_alloc&) {
    done = failure("an allocation was refused", "out of memory");
    out_of_memory = true;
  }
  if (!done) {
    worker.events.send_error(done.error(), out_of_memory);
    return done.error().kind == ErrorKind::internal ? 3 : 1;
  }
  worker.events.send("done");
  return 0;
}

}  // namespace headroom::bench
