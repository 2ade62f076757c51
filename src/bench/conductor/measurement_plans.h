// Builds the jobs and plans of the workers of the inference phase, and their progress lines.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "bench/conductor/inference_phase.h"
#include "bench/conductor/measuring_child.h"
#include "bench/conductor/supervise.h"
#include "limits/memory_limit.h"

namespace headroom::bench {

// The number of frames in memory at the same time, and the bytes of the ring that holds them. At most
// --max-frames-in-mem frames. If that is unset: at most 16 MiB and an eighth of the limit, because the frames
// count in the limit. At least one frame.
struct FrameWindow {
  std::int64_t frames = 1;
  Bytes arena;
};
FrameWindow choose_frame_window(const SourceMetadata& source, const BenchOptions& options);

// A job without models.
WorkerJob job_for(const BenchContext& context, WorkerKind kind);
WorkerModel worker_model(const BenchContext& context, const PreparedModel& model);
// `sharers` workers run at the same time and share the frames in memory; each gets at least one.
WorkerPlan plan_for(const BenchContext& context, const std::string& label, WorkerJob job, bool takes_frames,
                    limits::MemoryLimit* limit, std::int64_t sharers = 1);
// The job and the plan to run one model in a separate process, without a limit.
WorkerJob inference_job(const BenchContext& context, const PreparedModel& model);
WorkerPlan inference_plan(const BenchContext& context, const PreparedModel& model, WorkerJob job);

// Number of models that hold frames when all run at the same time; at least 1.
std::int64_t frame_takers(const BenchContext& context);
// Number of frames that one model runs, for the progress bar; 0 if unknown.
std::int64_t frames_expected(const BenchContext& context, bool takes_frames);

Tick ticker(const BenchContext& context, const std::string& phase, const std::string& label,
            std::int64_t expected);
Result<std::unique_ptr<limits::MemoryLimit>> limit_for(const BenchContext& context, const std::string& label);

}  // namespace headroom::bench
