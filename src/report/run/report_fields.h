// The fields of report.json: one list a structure, in the order in which they are written. A field that is
// added to types/bench_result.h gets a line here and in docs/report.schema.json; then it is written and read.
// The views (terminal.cpp, markdown_models.cpp, csv.cpp, web/src) have columns of their own: CONTRIBUTING.md.
#pragma once

#include "report/run/json_fields.h"
#include "types/bench_result.h"
#include "types/runtime_settings.h"
#include "types/vos_run.h"

namespace headroom::report {

template <>
inline constexpr ModelStatus kLast<ModelStatus> = ModelStatus::skipped;
template <>
inline constexpr Phase kLast<Phase> = Phase::unloaded;
template <>
inline constexpr MemoryKind kLast<MemoryKind> = MemoryKind::unnamed;
template <>
inline constexpr LimitType kLast<LimitType> = LimitType::unavailable;
template <>
inline constexpr LimitMechanism kLast<LimitMechanism> = LimitMechanism::device_ledger;
template <>
inline constexpr SourceKind kLast<SourceKind> = SourceKind::raw;
template <>
inline constexpr ArenaExtend kLast<ArenaExtend> = ArenaExtend::same_as_requested;
template <>
inline constexpr ConvSearch kLast<ConvSearch> = ConvSearch::standard;
template <>
inline constexpr Precision kLast<Precision> = Precision::bf16;
template <>
inline constexpr PromptKind kLast<PromptKind> = PromptKind::mask;
template <>
inline constexpr VosLayout kLast<VosLayout> = VosLayout::folder;
template <>
inline constexpr VosProfile kLast<VosProfile> = VosProfile::evaluation;
template <>
inline constexpr VosObjects kLast<VosObjects> = VosObjects::alone;
template <>
inline constexpr PlaneType kLast<PlaneType> = PlaneType::fp16;

void describe(auto& field, a<RuntimeSettings> auto& settings) {
  field("threads", settings.threads);
  field("arena", settings.arena);
  field("arena_extend", settings.arena_extend);
  field("memory_pattern", settings.memory_pattern);
  field("prepacking", settings.prepacking);
  field("graph_level", settings.graph_level);
  field("spinning", settings.spinning);
  field.unless_zero("mapped", settings.mapped);
  field("device", settings.device);
  field.unless_zero("precision", settings.precision);
  // Of GPUs; left out where they are the runtime's own.
  field.unless_zero("conv_search", settings.conv_search);
  field.unless_zero("conv_small_workspace", settings.conv_small_workspace);
  field.unless_zero("device_graph", settings.device_graph);
}

// The unit of these keys is in the name of the object that holds them: latency_ns.p50, stages_ns.decode.p50.
void describe(auto& field, a<LatencySummary> auto& latency) {
  field("n", latency.n);
  field("mean", latency.mean_ns);
  field("sd", latency.sd_ns);
  field("cv", latency.cv);
  field("min", latency.min);
  field("p50", latency.p50);
  field("p90", latency.p90);
  field("p99", latency.p99);
  field("max", latency.max);
  field("p90_bound", latency.p90_bound);
  field("p99_bound", latency.p99_bound);
  field("histogram", latency.histogram);
}

void describe(auto& field, a<CountSummary> auto& counts) {
  field("n", counts.n);
  field("mean", counts.mean);
  field("min", counts.min);
  field("max", counts.max);
}

void describe(auto& field, a<ModelMemory> auto& memory) {
  field("start_bytes", memory.start);
  field("runtime_bytes", memory.runtime);
  field("loaded_bytes", memory.loaded);
  field("load_peak_bytes", memory.load_peak);
  field("run_mean_bytes", memory.run_mean);
  field("run_peak_bytes", memory.run_peak);
  field("residual_bytes", memory.residual);
  field("frames_bytes", memory.frames);
  field("cgroup_peak_bytes", memory.cgroup_peak);
  field("data_peak_bytes", memory.data_peak);
  field("pss_peak_bytes", memory.pss_peak);
  field("pss_run_peak_bytes", memory.pss_run_peak);
  field("file_backed_peak_bytes", memory.file_backed_peak);
  field("fixed_addresses", memory.fixed_addresses);
  field("within_limit", memory.within_limit);
  field("violations", memory.violations);
}

void describe(auto& field, a<CleanupPoint> auto& point) {
  field("level", point.level);
  field("name", point.name);
  field("resident_bytes", point.resident);
}

void describe(auto& field, a<MemoryPoint> auto& point) {
  field("time_ns", point.time);
  field("resident_bytes", point.resident);
}

void describe(auto& field, a<PhaseMark> auto& mark) {
  field("phase", mark.phase);
  field("time_ns", mark.time);
}

void describe(auto& field, a<TuneTrial> auto& trial) {
  field("settings", trial.settings);
  field("status", trial.status);
  field("error", trial.error);
  field("p50_ns", trial.p50);
  field("peak_bytes", trial.peak);
  field("gpu_peak_bytes", trial.gpu_peak);
  field("within_limit", trial.within_limit);
}

void describe(auto& field, a<MemoryShare> auto& share) {
  field("kind", share.kind);
  if (share.kind == MemoryKind::module) field("name", share.name);
  field("bytes", share.bytes);
}

void describe(auto& field, a<NodeMemory> auto& node) {
  field("name", node.name);
  field("operation", node.operation);
  field("provider", node.provider);
  field("runs", node.runs);
  field("duration_ns", node.duration);
  field("output_bytes", node.output);
  field("activation_bytes", node.activations);
  field("parameter_bytes", node.parameters);
  field("arena_in_use_bytes", node.in_use);
}

void describe(auto& field, a<LayerMemory> auto& layers) {
  field("recording", layers.recording);
  field("frames", layers.frames);
  field("peak_bytes", layers.peak);
  field("shares", layers.shares);
  field("peak_node", layers.peak_node);
  field("nodes", layers.nodes);
}

void describe(auto& field, a<GpuMemory> auto& gpu) {
  field("device", gpu.device);
  field("name", gpu.name);
  field.unless_zero("uuid", gpu.uuid);
  field("total_bytes", gpu.total);
  field("is_integrated", gpu.is_integrated);
  field("runtime_bytes", gpu.runtime);
  field("loaded_bytes", gpu.loaded);
  field("load_peak_bytes", gpu.load_peak);
  field("running_bytes", gpu.running);
  field("run_peak_bytes", gpu.run_peak);
  field("residual_bytes", gpu.residual);
  field("pinned_host_bytes", gpu.pinned_host);
  field.group("process", [&](auto& process) {
    process("runtime_bytes", gpu.process_runtime);
    process("loaded_bytes", gpu.process_loaded);
    process("running_bytes", gpu.process_running);
    process("residual_bytes", gpu.process_residual);
  });
  field("limit_bytes", gpu.limit);
  field("within_limit", gpu.within_limit);
  field.unless_zero("refused", gpu.refused);
  field("refused_bytes", gpu.refused_bytes);
}

void describe(auto& field, a<JointGpuMemory> auto& gpu) {
  field("device", gpu.device);
  field("joint_peak_bytes", gpu.joint_peak);
  field("sum_of_peaks_bytes", gpu.sum_of_peaks);
  field("limit_bytes", gpu.limit);
}

void describe(auto& field, a<NodePlacement> auto& placement) {
  field("on_device", placement.on_device);
  field("on_cpu", placement.on_cpu);
  field.unless_zero("on_cpu_kinds", placement.on_cpu_kinds);
}

void describe(auto& field, a<InStep> auto& in_step) {
  field("id", in_step.id);
  field("frames", in_step.frames);
  field("one_processor", in_step.one_processor);
}

void describe(auto& field, a<GrowthSlope> auto& growth) {
  field("bytes", growth.slope);
  field("low_bytes", growth.low);
  field("high_bytes", growth.high);
  field("points", growth.points);
}

void describe(auto& field, a<VosTrial> auto& trial) {
  field("objects", trial.objects);
  field("bank_bytes", trial.bank);
  field("peak_bytes", trial.peak);
  field("gpu_peak_bytes", trial.gpu_peak);
}

void describe(auto& field, a<VosClip> auto& clip) {
  field("video", clip.video);
  field.unless_zero("object", clip.object);
  field("width", clip.width);
  field("height", clip.height);
  field("frames", clip.frames);
  field("objects", clip.objects);
  field("fps", clip.fps);
  field("peak_bytes", clip.peak);
  field("gpu_peak_bytes", clip.gpu_peak);
  field("after_bytes", clip.after);
  field("gpu_after_bytes", clip.gpu_after);
  field("growth_per_frame", clip.growth);
  field("gpu_growth_per_frame", clip.gpu_growth);
}

void describe(auto& field, a<VosObjectEnd> auto& end) {
  field("video", end.video);
  field("object", end.object);
  field("after_bytes", end.after);
  field("gpu_after_bytes", end.gpu_after);
}

void describe(auto& field, a<VosObjectScore> auto& score) {
  field("video", score.video);
  field("object", score.object);
  field("frames", score.frames);
  field("j_mean", score.j);
  field("f_mean", score.f);
  field("j_and_f", score.j_and_f);
  field("reference_j", score.reference_j);
  field("reference_j_and_f", score.reference_j_and_f);
}

void describe(auto& field, a<VosLeak> auto& leak) {
  field("level", leak.level);
  field("memory", leak.memory);
  field("growth", leak.growth);
}

void describe(auto& field, a<VosLeftOut> auto& item) {
  field("video", item.video);
  field.unless_zero("object", item.object);
  field("why", item.why);
}

void describe(auto& field, a<VosResult> auto& vos) {
  field("prompt", vos.prompt);
  field("profile", vos.profile);
  field("objects", vos.objects);
  field.unless_zero("label", vos.label);
  field("side", vos.side);
  field.unless_zero("pixel_mean", vos.pixel_mean);
  field.unless_zero("pixel_std", vos.pixel_std);
  field("bank_bytes", vos.bank);
  field.group("mean", [&](auto& mean) {
    mean("j_and_f", vos.j_and_f);
    mean("j_mean", vos.j);
    mean("f_mean", vos.f);
    mean("reference_j", vos.reference_j);
    mean("reference_j_and_f", vos.reference_j_and_f);
  });
  field("growth_per_frame", vos.per_frame);
  field("gpu_growth_per_frame", vos.gpu_per_frame);
  field("leaks", vos.leaks);
  field("clips", vos.clips);
  field.unless_zero("object_ends", vos.object_ends);
  field("scores", vos.scores);
  field("loads_bytes", vos.loads);
  field.unless_zero("gpu_loads_bytes", vos.gpu_loads);
  field("trials", vos.trials);
  field.unless_zero("left_out", vos.left_out);
}

void describe(auto& field, a<VosSource> auto& source) {
  field("dataset", source.folder);
  field("layout", source.layout);
}

void describe(auto& field, a<VosOptions> auto& vos) {
  field("dataset", vos.dataset);
  field.unless_zero("prompts", vos.prompts);
  field("prompt", vos.prompt);
  field.unless_zero("reference_point", vos.reference_point);
  field("profile", vos.profile);
  field("objects", vos.objects);
  field.unless_zero("planes", vos.planes);
  field("max_video_pixels", vos.max_video_pixels);
}

void describe(auto& field, a<ModelResult> auto& model) {
  field("name", model.name);
  field("path", model.path);
  field("backend", model.backend);
  field("backend_version", model.backend_version);
  field("task", model.task);
  field("input", model.input);
  field("status", model.status);
  field("error", model.error);
  field("died_in", model.died_in);
  field("fps", model.fps);
  field("pipeline_fps", model.pipeline_fps);
  // The figure that most readers want, directly; the same again among the stages, for loops over them.
  field("latency_ns", model.inference);
  field("device_latency_ns", model.device_time);
  field.group("stages_ns", [&](auto& stage) {
    stage("decode", model.decode);
    stage("preprocess", model.preprocess);
    stage("inference", model.inference);
    stage("postprocess", model.postprocess);
    stage("end_to_end", model.end_to_end);
  });
  field("runtime_load_time_ns", model.runtime_load_time);
  field("runtime_telemetry", model.runtime_telemetry);
  field("model_load_time_ns", model.model_load_time);
  field("warmup_time_ns", model.warmup_time);
  field("detections_per_frame", model.detections);
  field("frames", model.frames);
  field.unless_zero("skipped_frames", model.skipped_frames);
  field("memory", model.memory);
  field.unless_zero("gpu_memory", model.gpu_memory);
  field("nodes", model.placement);
  field("file_size_bytes", model.file_size);
  field("cpu_percent", model.cpu_percent);
  field("confidence", model.confidence);
  field("iou", model.iou);
  field("settings", model.settings);
  field("smallest_settings", model.smallest_settings);
  field("trials", model.trials);
  field("phases", model.phases);
  field("memory_series", model.memory_series);
  field("cleanups", model.cleanups);
  field("layers", model.layers);
  field("in_step", model.in_step);
  field("vos", model.vos);
  field("warnings", model.warnings);
  field("annotated_images", model.annotated_images);
}

void describe(auto& field, a<ParallelResult> auto& parallel) {
  field("together", parallel.together);
  field("sum_of_peaks_bytes", parallel.sum_of_peaks);
  field("joint_peak_bytes", parallel.joint_peak);
  field("joint_peak_source", parallel.joint_peak_source);
  field("joint_resident_peak_bytes", parallel.joint_resident_peak);
  field("joint_share_peak_bytes", parallel.joint_share_peak);
  field("within_limit", parallel.within_limit);
  field.unless_zero("joint_peak_is_lower_bound", parallel.joint_peak_is_lower_bound);
  field.unless_zero("frames_held", parallel.frames_held);
  field.unless_zero("gpu_memory", parallel.gpu_memory);
}

void describe(auto& field, a<PipelineModel> auto& model) {
  field("name", model.name);
  field("load_time_ns", model.load_time);
  field("memory_increment_bytes", model.memory_increment);
  field("latency_ns", model.inference);
}

void describe(auto& field, a<PipelineResult> auto& pipeline) {
  field("status", pipeline.status);
  field("error", pipeline.error);
  field("models", pipeline.models);
  field.unless_zero("frames_held", pipeline.frames_held);
  field("frame_latency_ns", pipeline.frame);
  field("fps", pipeline.fps);
  field("runtime_bytes", pipeline.runtime);
  field("loaded_bytes", pipeline.loaded);
  field("peak_bytes", pipeline.peak);
  field("memory", pipeline.memory);
  field.unless_zero("gpu_memory", pipeline.gpu_memory);
  field("died_in", pipeline.died_in);
  field("frames", pipeline.frames);
  field.unless_zero("skipped_frames", pipeline.skipped_frames);
}

void describe(auto& field, a<PooledModel> auto& model) {
  field("name", model.name);
  field("every", model.every);
  field.unless_zero("isolated", model.isolated);
  field("requests", model.requests);
  field("hits", model.hits);
  field("loads", model.loads);
  field("unloads", model.unloads);
  field("evictions", model.evictions);
  field("refusals", model.refusals);
  field("failures", model.failures);
  field.unless_zero("error", model.error);
  field("charge_bytes", model.charge);
  field("load_ns", model.load);
  field("wait_ns", model.wait);
  field("latency_ns", model.inference);
}

void describe(auto& field, a<PoolResult> auto& pool) {
  field("status", pool.status);
  field("error", pool.error);
  field("died_in", pool.died_in);
  field("budget_bytes", pool.budget);
  field("threads", pool.threads);
  field("baseline_bytes", pool.baseline);
  field("all_at_once_bytes", pool.all_at_once);
  field("models", pool.models);
  field("frame_latency_ns", pool.frame);
  field("fps", pool.fps);
  field("load_time_ns", pool.load_time);
  field("reload_time_ns", pool.reload_time);
  field("books_peak_bytes", pool.books_peak);
  field("peak_bytes", pool.peak);
  field("samples", pool.samples);
  field("samples_over", pool.samples_over);
  field("memory", pool.memory);
  field.unless_zero("gpu_memory", pool.gpu_memory);
  field("frames", pool.frames);
  field.unless_zero("skipped_frames", pool.skipped_frames);
  field.unless_zero("frames_held", pool.frames_held);
}

void describe(auto& field, a<HostMigInstance> auto& instance) {
  field("name", instance.name);
  field("uuid", instance.uuid);
  field("memory_total_bytes", instance.memory_total);
}

void describe(auto& field, a<HostGpu> auto& gpu) {
  field("index", gpu.index);
  field("name", gpu.name);
  field("uuid", gpu.uuid);
  field("pci_bus_id", gpu.pci_bus_id);
  field("memory_total_bytes", gpu.memory_total);
  field("mig_enabled", gpu.mig_enabled);
  field.unless_zero("mig_instances", gpu.mig_instances);
}

void describe(auto& field, a<HostInfo> auto& host) {
  field("hostname", host.hostname);
  field("machine", host.machine);
  field("kernel", host.kernel);
  field("os", host.os);
  field("cpu_model", host.cpu_model);
  field("board", host.board);
  field.unless_zero("cpus", host.cpus);
  field.unless_zero("ram_total_bytes", host.ram_total);
  field("headroom_version", host.headroom_version);
  field.unless_zero("gpu_driver", host.gpu_driver);
  field.unless_zero("gpus", host.gpus);
  field.unless_zero("power_mode", host.power_mode);
  field.unless_zero("cpu_governor", host.cpu_governor);
}

void describe(auto& field, a<LimitRoute> auto& route) {
  field("name", route.name);
  field("outcome", route.outcome);
  field("detail", route.detail);
}

void describe(auto& field, a<Limit> auto& limit) {
  field("bytes", limit.bytes);
  field("type", limit.type);
  field("mechanism", limit.mechanism);
  field("routes", limit.routes);
  field("note", limit.note);
}

void describe(auto& field, a<SkippedItem> auto& item) {
  field("name", item.name);
  field("reason", item.reason);
}

// Without the names of thousands of images and masks: metadata.json has those.
void describe(auto& field, a<SourceSequence> auto& sequence) {
  field("name", sequence.name);
  field.unless_zero("frames", sequence.frames);  // unknown for a camera
  field.unless_zero("width", sequence.width);
  field.unless_zero("height", sequence.height);
}

void describe(auto& field, a<SourceMetadata> auto& source) {
  field("kind", source.spec.kind);
  field("path", source.spec.path);
  field("camera_index", source.spec.camera_index);
  field("sequences", source.sequences);
  field("skipped", source.skipped);
  field("total_frames", source.total_frames);
  field.unless_zero("prompted_by_mask", source.prompted_by_mask);
  field.unless_zero("prompted_by_file", source.prompted_by_file);
  field.unless_zero("largest_frame_bytes", source.largest_frame);
  field("fingerprint", source.fingerprint);
}

void describe(auto& field, a<MetricSummary> auto& metric) {
  field("name", metric.name);
  field("n", metric.n);
  field("min", metric.min);
  field("mean", metric.mean);
  field("max", metric.max);
}

// Each key is the flag's name, with its unit. The models and the source are the report's own entries.
void describe(auto& field, a<BenchOptions> auto& options) {
  field("backend", options.backend);
  field("task", options.task);
  field("device", options.device);
  field.unless_zero("precision", options.precision);
  field.unless_zero("conv_search", options.conv_search);
  field.unless_zero("capture_graph", options.capture_graph);
  field("imgsz", options.image_size);
  field("conf", options.confidence);
  field("iou", options.iou);
  field("max_frames", options.max_frames);
  field("warmup", options.warmup_frames);
  field("max_frames_in_mem", options.max_frames_in_memory);
  field("limit_videos", options.limit_videos);
  field("limit_objects", options.limit_objects);
  field("threads", options.threads);
  field("mem_limit_bytes", options.memory_limit);
  field.unless_zero("gpu_mem_limit", options.gpu_memory_limit);
  field("limit_mechanism", options.limit_mechanism);
  field("strict", options.strict);
  field("workspace_bytes", options.workspace);
  field("timeout_ns", options.timeout);
  field("tune", options.tune);
  field("parallel", options.parallel);
  field("pipeline", options.pipeline);
  field("pool_bytes", options.pool);
  field("pool_threads", options.pool_threads);
  field("layers", options.layers);
  field("aslr", options.aslr);
  field.unless_zero("in_step", options.in_step);
  field("skip_setup", options.skip_setup);
  field("skip_inference", options.skip_inference);
  field("prepared_dir", options.prepared_dir);
  field("output_dir", options.output_dir);
  field("metrics_interval_ns", options.metrics_interval);
  field("sample_images", options.sample_images);
  field("vos", options.vos);
}

void describe(auto& field, a<BenchResult> auto& run) {
  field("run_name", run.run_name);
  field("started_at", run.started_at);
  field("complete", run.complete);
  field("command", run.command);
  field("host", run.host);
  field.group("source", [&](auto& source) {
    source.inlined(run.source, "kind");
    source("frames_held_peak", run.frames_held_peak);
  });
  field("vos", run.vos);
  field("limit", run.limit);
  field("gpu_limit", run.gpu_limit);
  field.unless_zero("image_size", run.image_size);
  field("confidence", run.confidence);
  field("iou", run.iou);
  field("options", run.options);
  field("setup_time_ns", run.setup_time);
  field("inference_time_ns", run.inference_time);
  field("models", run.models);
  field("parallel", run.parallel);
  field("pipeline", run.pipeline);
  field("pool", run.pool);
  field("system", run.system);
  field("warnings", run.warnings);
}

}  // namespace headroom::report
