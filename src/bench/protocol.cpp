#include "bench/protocol.h"

#include <array>
#include <type_traits>

#include "base/json.h"
#include "bench/prepared_data.h"
#include "report/run/report_fields.h"

// Parts of messages that other modules define.
namespace headroom::report {

void describe(auto& field, a<TensorSpec> auto& tensor) {
  auto type = static_cast<std::int32_t>(tensor.type);  // as in the plug-in interface
  field("name", tensor.name);
  field("type", type);
  field("dims", tensor.dims);
  if constexpr (!std::is_const_v<std::remove_reference_t<decltype(tensor)>>) {
    tensor.type = static_cast<ElementType>(type);
    tensor.dim_names.resize(tensor.dims.size());
  }
}

void describe(auto& field, a<ModelSpec> auto& model) {
  field("name", model.name);
  field("path", model.path);
  field("backend", model.backend);
  field("task", model.task);
  field("confidence", model.confidence);
  field("iou", model.iou);
  field("device", model.device);
  field("precision", model.precision);
  field("prompt", model.prompt);
  field("settings", model.settings);
}

void describe(auto& field, a<SourceSpec> auto& source) {
  field("kind", source.kind);
  field("path", source.path);
  field("camera_index", source.camera_index);
}

template <>
inline constexpr bench::WorkerKind kLast<bench::WorkerKind> = bench::WorkerKind::pool;

}  // namespace headroom::report

namespace headroom::bench {

using report::a;

std::string_view name_of(WorkerKind kind) {
  constexpr std::array<std::string_view, 5> kNames{"setup", "tune", "inference", "pipeline", "pool"};
  return kNames.at(static_cast<std::size_t>(kind));
}

void describe(auto& field, a<WorkerModel> auto& model) {
  field("name", model.name);
  field("path", model.path);
  field("backend", model.backend);
  field("backend_path", model.backend_path);
  field("task", model.task);
  field("settings", model.settings);
  field("confidence", model.confidence);
  field("iou", model.iou);
  field("outputs", model.outputs);
  field("every", model.every);
  field("isolated", model.isolated);
  field("load_peak_bytes", model.load_peak);
  field("run_peak_bytes", model.run_peak);
}

void describe(auto& field, a<WorkerPool> auto& pool) {
  field("budget_bytes", pool.budget);
  field("load_timeout_ns", pool.load_timeout);
  field("events_to", pool.events_to);
  field("threads", pool.threads);
}

void describe(auto& field, a<WorkerTurns> auto& turns) {
  field("first", turns.first);
  field("timeout_ns", turns.timeout);
}

void describe(auto& field, a<WorkerSequence> auto& sequence) {
  field("name", sequence.name);
  field("frames", sequence.frames);
  field("objects", sequence.objects);
}

void describe(auto& field, a<WorkerVos> auto& vos) {
  field("prompt", vos.prompt);
  field("profile", vos.profile);
  field("objects", vos.objects);
  field("plane_type", vos.plane_type);
  field("non_overlap", vos.non_overlap);
  field("most_objects", vos.most_objects);
  field("videos", vos.videos);
  field("planes", vos.planes);
  field("masks_to", vos.masks_to);
  field("left_out", vos.left_out);
}

void describe(auto& field, a<VosProgress> auto& progress) {
  field("video", progress.video);
  field("object", progress.object);
  field("objects", progress.objects);
  field("frames", progress.frames);
}

void describe(auto& field, a<VosClipEnd> auto& end) {
  field("clip", end.clip);
  field("bank_bytes", end.bank);
  field("has_lost_masks", end.has_lost_masks);
}

void describe(auto& field, a<VosModelFacts> auto& facts) {
  field("side", facts.side);
  field("label", facts.label);
  field("pixel_mean", facts.pixel_mean);
  field("pixel_std", facts.pixel_std);
}

void describe(auto& field, a<VosLoadEnd> auto& end) {
  field("after_bytes", end.after);
  field("gpu_after_bytes", end.gpu_after);
}

void describe(auto& field, a<VosScores> auto& scores) {
  field("scores", scores.scores);
  field("images", scores.images);
  field("problem", scores.problem);
}

void describe(auto& field, a<WorkerJob> auto& job) {
  field("kind", job.kind);
  field("models", job.models);
  field("image_size", job.image_size);
  field("confidence", job.confidence);
  field("iou", job.iou);
  field("max_frames", job.max_frames);
  field("warmup_frames", job.warmup_frames);
  field("window_frames", job.window_frames);
  field("sample_images", job.sample_images);
  field("sequences", job.sequences);
  field("use_frames", job.use_frames);
  field("wait_for_gate", job.wait_for_gate);
  field("pool", job.pool);
  field("turns", job.turns);
  field("vos", job.vos);
}

void describe(auto& field, a<LedgerReading> auto& reading) {
  field("ordinal", reading.ordinal);
  field("charged_bytes", reading.charged);
  field("peak_bytes", reading.peak);
  field("pinned_bytes", reading.pinned);
  field("refused", reading.refused);
  field("refused_bytes", reading.refused_bytes);
}

void describe(auto& field, a<DriverReading> auto& reading) {
  field("uuid", reading.uuid);
  field("used_bytes", reading.used);
}

void describe(auto& field, a<GpuReading> auto& gpu) {
  field("ledger", gpu.ledger);
  field("driver", gpu.driver);
}

void describe(auto& field, a<PhaseAccount> auto& phase) {
  field("phase", phase.phase);
  field("time_ns", phase.time);
  field("resident_bytes", phase.resident);
  field("peak_bytes", phase.peak);
  field("data_bytes", phase.data);
  field("file_backed_bytes", phase.file_backed);
  field("cpu_time_ns", phase.cpu_time);
  field("peak_was_reset", phase.peak_was_reset);
  field("gpu", phase.gpu);
}

void describe(auto& field, a<RuntimeFacts> auto& runtime) {
  field("version", runtime.version);
  field("load_ns", runtime.load_time);
  field("fixed_addresses", runtime.fixed_addresses);
  field("telemetry", runtime.telemetry);
}

void describe(auto& field, a<DeviceFacts> auto& device) {
  field("ordinal", device.ordinal);
  field("device", device.device);
  field("name", device.name);
  field("uuid", device.uuid);
  field("total_bytes", device.total);
  field("is_integrated", device.is_integrated);
}

void describe(auto& field, a<ModelFacts> auto& model) {
  field("name", model.name);
  field("task", model.task);
  field("input", model.input);
  field("takes_frames", model.takes_frames);
  field.unless_zero("without_task", model.without_task);
  field("class_names", model.class_names);
  field("load_ns", model.load_time);
  field("placement", model.placement);
  field("precision", model.precision);
  field("outputs", model.outputs);
}

void describe(auto& field, a<MeasuringStart> auto& start) {
  field("time_ns", start.time);
  field("warmup_ns", start.warmup);
  field("cpu_time_ns", start.cpu_time);
}

void describe(auto& field, a<WorkerError> auto& error) {
  field("kind", error.kind);
  field("message", error.message);
  field("peak_bytes", error.peak);
  field("gpu", error.gpu);
  field("is_input", error.is_input);
}

void describe(auto& field, a<PooledAccount> auto& model) {
  field("counters", model.counters);
  field("loads_ns", model.loads);
  field("waits_ns", model.waits);
}

void describe(auto& field, a<PoolAccount> auto& pool) {
  field("models", pool.models);
  field("frames_ns", pool.frames);
  field("baseline_bytes", pool.baseline);
  field("books_peak_bytes", pool.books_peak);
  field("peak_bytes", pool.peak);
  field("load_ns", pool.load_time);
  field("reload_ns", pool.reload_time);
  field("samples", pool.samples);
  field("samples_over", pool.samples_over);
}

void describe(auto& field, a<PreparedModel> auto& model) {
  field("name", model.name);
  field("path", model.path);
  field("fingerprint", model.fingerprint);
  field("file_size_bytes", model.file_size);
  field("backend", model.backend);
  field("backend_path", model.backend_path);
  field("backend_version", model.backend_version);
  field.unless_zero("passed_over", model.passed_over);
  field.unless_zero("forced_task", model.forced_task);
  field("task", model.task);
  field("input", model.input);
  field("takes_frames", model.takes_frames);
  field.unless_zero("without_task", model.without_task);
  field.unless_zero("class_names", model.class_names);
  field.unless_zero("asked_precision", model.asked_precision);
  field.unless_zero("asked_settings", model.asked_settings);
  field("outputs", model.outputs);
  field("status", model.status);
  field.unless_zero("error", model.error);
  field("trial", model.trial);
  field("settings", model.settings);
  field("smallest_settings", model.smallest_settings);
  field.unless_zero("trials", model.trials);
  field("asked_prompt", model.asked_prompt);
  field("vos", model.vos);
  field.unless_zero("objects_over_limit", model.objects_over_limit);
  field.unless_zero("why_over_limit", model.why_over_limit);
}

void describe(auto& field, a<PreparedData> auto& data) {
  field("headroom_version", data.headroom_version);
  field("created_at", data.created_at);
  field("host", data.host);
  field("max_frames", data.options.max_frames);
  field("limit_videos", data.options.limit_videos);
  field("limit_objects", data.options.limit_objects);
  field("image_size", data.options.image_size);
  field("threads", data.options.threads);
  field("device", data.options.device);
  field("tuned", data.options.tune);
  field("memory_limit_bytes", data.options.memory_limit);
  field.unless_zero("gpu_memory_limit", data.options.gpu_memory_limit);
  field("conv_search", data.options.conv_search);
  field("capture_graph", data.options.capture_graph);
  field("limit_mechanism", data.options.limit_mechanism);
  field("timeout_ns", data.options.timeout);
  field("vos", data.options.vos);
  field("vos_source", data.vos);
  field("models", data.models);
}

namespace {

// The options are described as in the report, where the models and the source are elsewhere.
struct SetupJob {
  BenchOptions options;
  std::vector<ModelSpec> models;
  std::optional<SourceSpec> source;
};

void describe(auto& field, a<SetupJob> auto& job) {
  field("options", job.options);
  field("models", job.models);
  field("source", job.source);
}

}  // namespace

template <class Message>
Json message_to_json(const Message& message) {
  return report::object_of([&](report::FieldWriter& field) { describe(field, message); });
}

template <class Message>
Result<Message> message_from_json(const Json& document) {
  Message message;
  std::string problem;
  const report::Place root;
  report::FieldReader reader(document, root, problem);
  describe(reader, message);
  if (!problem.empty()) return internal_error("a message of another process is not usable", problem);
  return message;
}

template Json message_to_json(const WorkerJob&);
template Json message_to_json(const PhaseAccount&);
template Json message_to_json(const RuntimeFacts&);
template Json message_to_json(const DeviceFacts&);
template Json message_to_json(const ModelFacts&);
template Json message_to_json(const MeasuringStart&);
template Json message_to_json(const WorkerError&);
template Json message_to_json(const PoolAccount&);
template Json message_to_json(const CleanupPoint&);
template Json message_to_json(const InStep&);
template Json message_to_json(const VosModelFacts&);
template Json message_to_json(const VosTrial&);
template Json message_to_json(const VosProgress&);
template Json message_to_json(const VosClipEnd&);
template Json message_to_json(const VosObjectEnd&);
template Json message_to_json(const VosLoadEnd&);
template Json message_to_json(const VosScores&);
template Json message_to_json(const PreparedModel&);
template Json message_to_json(const PreparedData&);
template Result<WorkerJob> message_from_json(const Json&);
template Result<PhaseAccount> message_from_json(const Json&);
template Result<RuntimeFacts> message_from_json(const Json&);
template Result<DeviceFacts> message_from_json(const Json&);
template Result<ModelFacts> message_from_json(const Json&);
template Result<MeasuringStart> message_from_json(const Json&);
template Result<WorkerError> message_from_json(const Json&);
template Result<PoolAccount> message_from_json(const Json&);
template Result<CleanupPoint> message_from_json(const Json&);
template Result<InStep> message_from_json(const Json&);
template Result<VosModelFacts> message_from_json(const Json&);
template Result<VosTrial> message_from_json(const Json&);
template Result<VosProgress> message_from_json(const Json&);
template Result<VosClipEnd> message_from_json(const Json&);
template Result<VosObjectEnd> message_from_json(const Json&);
template Result<VosLoadEnd> message_from_json(const Json&);
template Result<VosScores> message_from_json(const Json&);
template Result<PreparedModel> message_from_json(const Json&);
template Result<PreparedData> message_from_json(const Json&);

Json to_json(const BenchOptions& options) {
  return message_to_json(SetupJob{options, options.models, options.source});
}

Result<BenchOptions> bench_options_from_json(const Json& document) {
  auto job = message_from_json<SetupJob>(document);
  if (!job) return forward_error(job);
  job->options.models = std::move(job->models);
  job->options.source = std::move(job->source);
  return std::move(job->options);
}

}  // namespace headroom::bench
