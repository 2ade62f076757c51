// What the conductor tells the workers of the inference phase, and what it says while they run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "bench/inference_phase.h"
#include "bench/supervise.h"
#include "bench/worker_run.h"
#include "limits/memory_limit.h"

namespace headroom::bench {

// Frames in memory at once, and the bytes of the ring that holds them: at most --max-frames-in-mem frames
// and, when that is not given, at most 16 MiB and an eighth of the limit, since they count in it; at least
// one frame.
struct FrameWindow {
  std::int64_t frames = 1;
  Bytes arena;
};
FrameWindow choose_frame_window(const SourceMetadata& source, const BenchOptions& options);

// A job without models.
WorkerJob job_for(const BenchContext& context, WorkerKind kind);
WorkerModel worker_model(const BenchContext& context, const PreparedModel& model);
// `sharers` workers run at once and share the frames that may be in memory; each has at least one.
WorkerPlan plan_for(const BenchContext& context, const std::string& label, WorkerJob job, bool takes_frames,
                    limits::MemoryLimit* limit, std::int64_t sharers = 1);
// The job and the plan of one model's run in a process of its own, without a limit.
WorkerJob inference_job(const BenchContext& context, const PreparedModel& model);
WorkerPlan inference_plan(const BenchContext& context, const PreparedModel& model, WorkerJob job);

// How many models will hold frames when all run at once; at least 1.
std::int64_t frame_takers(const BenchContext& context);
// Frames that one model should run, for the progress bar; 0 if unknown.
std::int64_t frames_expected(const BenchContext& context, bool takes_frames);

Tick ticker(const BenchContext& context, const std::string& phase, const std::string& label,
            std::int64_t expected);
Result<std::unique_ptr<limits::MemoryLimit>> limit_for(const BenchContext& context, const std::string& label);

}  // namespace headroom::bench
