#include "bench/conductor/layer_phase.h"

#include <fmt/format.h>

#include "attribution/recording_analysis.h"
#include "attribution/session_memory.h"
#include "base/files.h"
#include "base/json.h"
#include "base/run_folder.h"
#include "bench/conductor/helper_process.h"
#include "bench/conductor/measurement_plans.h"
#include "bench/conductor/supervise.h"
#include "recording/recording.h"
#include "report/run/report_json.h"
#include "trace/recording_files.h"
#include "trace/tracer_environment.h"

namespace headroom::bench {
namespace fs = std::filesystem;
namespace {

// The runtime's profile covers a session's first three runs. A few more runs show which memory stays.
constexpr std::int64_t kTracedFrames = 8, kTracedWarmup = 2;
// Recording every allocation of so few frames takes a few megabytes. The bound stops a model that allocates
// endlessly from filling the disk.
constexpr Bytes kLargestRecording = gibibytes(1);

Result<Json> read_layers(const Json& job) {
  auto recording = recording::Recording::open(get_text(job, "recording"));
  if (!recording) return forward_error(recording);
  const auto analysis = attribution::analyze_recording(*recording, {.timeline_points = 2});
  return report::to_json(attribution::layer_memory(recording->info(), recording->stacks(), analysis));
}

Result<LayerMemory> analyse(const fs::path& recording, Interrupt& interrupt) {
  Json job;
  job["recording"] = recording.string();
  HelperPlan plan;
  plan.verb = "_layers";
  plan.purpose = "reading the recording of the layers";
  auto answer = run_helper(plan, job, interrupt);
  if (!answer) return forward_error(answer);
  return report::layer_memory_from_json(*answer);
}

}  // namespace

Status check_layer_tracing() { return trace::check_library(trace::tracer_library()); }

Result<LayerMemory> trace_layers(const BenchContext& context, const PreparedModel& model,
                                 const fs::path& run_folder) {
  const std::string inside = fmt::format("layers/{}.hrec", file_name_of(model.name));
  std::error_code code;
  const fs::path recording = fs::absolute(run_folder / inside, code);
  if (auto made = make_folder(recording.parent_path()); !made) return forward_error(made);
  trace::TraceOptions options;
  options.library = trace::tracer_library();
  options.full = true;
  if (context.device_account != nullptr) {
    options.device_limits = context.device_account->limits();
    options.account = context.device_account->file().string();
  }

  WorkerJob job = inference_job(context, model);
  job.max_frames = std::min(job.max_frames, kTracedFrames);
  job.warmup_frames = std::min(job.warmup_frames, kTracedWarmup);
  job.sample_images = 0;
  if (job.sequences.size() > 1) job.sequences.resize(1);
  if (!job.sequences.empty() && job.sequences.front().objects.size() > 1)
    job.sequences.front().objects.resize(1);
  WorkerPlan plan = inference_plan(context, model, std::move(job));
  plan.environment = trace::tracer_environment(
      options, recording, std::min(kLargestRecording, trace::default_size_limit(recording)));
  auto run = WorkerRun::start(plan);
  if (!run) return forward_error(run);
  const Tick quiet = [](const std::vector<WorkerRun*>&) {};
  if (!supervise({run->get()}, context.interrupt, context.options.metrics_interval, quiet))
    return failure("tracing the layers was stopped", "interrupted");
  const ModelResult result = (*run)->result();
  if (result.status != ModelStatus::ok)
    return failure("cannot trace the layers",
                   fmt::format("the traced run ended as {}: {}", name_of(result.status), result.error));
  trace::compact_recording(recording);
  auto layers = analyse(recording, context.interrupt);
  if (!layers) return layers;
  layers->recording = inside;
  layers->frames = result.frames;
  return layers;
}

int run_layers_process() { return serve_helper(read_layers); }

}  // namespace headroom::bench
