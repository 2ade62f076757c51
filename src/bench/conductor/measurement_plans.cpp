#include "bench/conductor/measurement_plans.h"

#include <fmt/format.h>

#include <algorithm>

namespace headroom::bench {
namespace {

// Default of --max-frames-in-mem: 600 frames, but at most 16 MiB of them. 600 full HD frames would be 3.5
// GiB, half of a small Jetson.
constexpr std::int64_t kDefaultFrames = 600;
constexpr Bytes kDefaultFrameMemory = mebibytes(16);
// Frames count in the model's limit, so they get at most this fraction of it.
constexpr std::int64_t kLimitOverFrames = 8;

const std::vector<SourceSequence>& sequences_of(const PreparedData& prepared) {
  static const std::vector<SourceSequence> kNone;
  return prepared.source ? prepared.source->sequences : kNone;
}

}  // namespace

WorkerJob job_for(const BenchContext& context, WorkerKind kind) {
  const BenchOptions& options = context.options;
  WorkerJob job;
  job.kind = kind;
  job.image_size = options.image_size;
  job.confidence = options.confidence;
  job.iou = options.iou;
  job.max_frames = options.max_frames;
  job.warmup_frames = options.warmup_frames;
  job.sample_images = options.sample_images;
  for (const SourceSequence& sequence : sequences_of(context.prepared)) {
    WorkerSequence known;
    known.name = sequence.name;
    known.frames = sequence.frames;
    for (const SourceObject& object : sequence.objects) known.objects.push_back(object.id);
    job.sequences.push_back(std::move(known));
  }
  return job;
}

WorkerModel worker_model(const BenchContext& context, const PreparedModel& model) {
  WorkerModel worker{model.name,         model.path,        model.backend,
                     model.backend_path, model.forced_task, model.settings};
  for (const ModelSpec& spec : context.options.models) {
    if (spec.name != model.name) continue;
    worker.confidence = spec.confidence;
    worker.iou = spec.iou;
    worker.every = spec.every;
    worker.isolated = spec.isolated;
  }
  worker.outputs = model.outputs;
  return worker;
}

WorkerPlan plan_for(const BenchContext& context, const std::string& label, WorkerJob job, bool takes_frames,
                    limits::MemoryLimit* limit, std::int64_t sharers) {
  WorkerPlan plan;
  plan.label = label;
  plan.job = std::move(job);
  plan.limit = limit;
  plan.device_account = context.device_account;
  plan.timeout = context.options.timeout;
  plan.run_folder = context.run_folder;
  if (takes_frames && context.prepared.source) {
    const FrameWindow window = choose_frame_window(*context.prepared.source, context.options);
    const std::int64_t frames = std::max<std::int64_t>(1, window.frames / sharers);
    plan.decoder = DecoderPlan{context.metadata_path, Bytes{window.arena.count / window.frames * frames}};
    plan.job.window_frames = frames;
  }
  return plan;
}

std::int64_t frame_takers(const BenchContext& context) {
  return std::max<std::int64_t>(
      1, std::count_if(context.prepared.models.begin(), context.prepared.models.end(), [](const auto& model) {
        return model.status == ModelStatus::ok && model.takes_frames;
      }));
}

std::int64_t frames_expected(const BenchContext& context, bool takes_frames) {
  if (!takes_frames) return context.options.max_frames;
  std::int64_t total = 0;
  for (const SourceSequence& sequence : sequences_of(context.prepared)) {
    if (sequence.frames == 0) return 0;
    const auto objects = static_cast<std::int64_t>(std::max<std::size_t>(1, sequence.objects.size()));
    total += objects * std::min(sequence.frames, context.options.max_frames);
  }
  return total;
}

Tick ticker(const BenchContext& context, const std::string& phase, const std::string& label,
            std::int64_t expected) {
  return [&context, phase, label, expected](const std::vector<WorkerRun*>& runs) {
    context.metrics.record(phase, runs);
    std::int64_t done = 0;
    Bytes resident;
    for (const WorkerRun* run : runs) {
      done += run->frames_done();
      resident += run->last_sample().rss.value_or(Bytes{});
    }
    const double fraction = expected > 0 ? static_cast<double>(done) / static_cast<double>(expected) : -1.0;
    context.progress(label, fraction, fmt::format("{} frames, {}", done, format_bytes(resident)));
  };
}

Result<std::unique_ptr<limits::MemoryLimit>> limit_for(const BenchContext& context,
                                                       const std::string& label) {
  std::string note;
  return limits::make_memory_limit(label, context.options.memory_limit, context.options.limit_mechanism,
                                   note);
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

WorkerJob inference_job(const BenchContext& context, const PreparedModel& model) {
  WorkerJob job = job_for(context, WorkerKind::inference);
  job.models = {worker_model(context, model)};
  return job;
}

WorkerPlan inference_plan(const BenchContext& context, const PreparedModel& model, WorkerJob job) {
  return plan_for(context, model.name, std::move(job), model.takes_frames, nullptr);
}

}  // namespace headroom::bench
