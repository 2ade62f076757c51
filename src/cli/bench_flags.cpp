#include "cli/bench_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <thread>

#include "bench/conductor/gpu_limit.h"
#include "cli/common_flags.h"
#include "inference/backend.h"
#include "inference/task.h"
#include "media/source_scan.h"
#include "types/device_name.h"

namespace headroom::cli {
namespace {

// The reference's bound on its gigabyte flag.
constexpr double kLargestGigabytes = 8.0;

// Two spellings of one setting.
constexpr std::pair<const char*, const char*> kAlternatives[] = {{"precision", "autocast-dtype"},
                                                                 {"mem-limit", "gpu-mem-limit-gb"},
                                                                 {"gpu-mem-limit", "gpu-mem-limit-gb"},
                                                                 {"workspace", "workspace-mb"}};

Bytes from_gib(double gib) { return {std::llround(gib * 1073741824.0)}; }

// The reference's one limit is of "GPU memory". On its Jetson that is the machine's memory; on a machine
// whose GPU has its own it is the GPU's, and the machine's is not bounded. A run on the CPU has no other
// memory than the machine's.
void set_reference_limit(Bytes limit, BenchOptions& options) {
  const std::vector<unsigned> devices = bench::cuda_devices(options);
  if (!devices.empty()) options.gpu_memory_limit = exact_size(limit);
  if (devices.empty() || bench::has_unified_memory(devices)) options.memory_limit = limit;
}

Status read_limit(const FlagValues& values, BenchOptions& options, std::vector<std::string>& warnings) {
  for (const auto& [one, other] : kAlternatives)
    if (auto fine = at_most_one(values, {one, other}, "both set the same value"); !fine) return fine;
  values.read("mem-limit", options.memory_limit);
  values.read("gpu-mem-limit", options.gpu_memory_limit);
  ledger::Limits checked;
  if (auto fine = read_device_limits(values, "gpu-mem-limit", checked); !fine) return fine;
  if (const auto gigabytes = values.number("gpu-mem-limit-gb")) {
    if (*gigabytes > kLargestGigabytes)
      warnings.push_back(fmt::format(
          "--gpu-mem-limit-gb {} is above the maximum of 8, so 8 GiB is used; for a larger limit, use "
          "--mem-limit (host memory) or --gpu-mem-limit (GPU memory)",
          *gigabytes));
    set_reference_limit(from_gib(std::min(*gigabytes, kLargestGigabytes)), options);
  }
  values.read("workspace", options.workspace);
  if (const auto megabytes = values.number("workspace-mb"))
    options.workspace = Bytes{std::llround(*megabytes * 1048576.0)};
  return {};
}

// A variable of the environment may be set for all runs, so it is accepted without a limit.
Status check_limit_flags(const FlagValues& values, const BenchOptions& options) {
  if (options.memory_limit || !options.gpu_memory_limit.empty() || options.pool) return {};
  for (const char* flag : {"strict", "limit-mechanism"})
    if (values.has(flag) && !values.origin(flag).starts_with("HEADROOM_"))
      return usage_error(fmt::format("--{} has no effect without a limit", flag), "",
                         fmt::format("add --mem-limit SIZE, or remove --{}", flag));
  return {};
}

// Finds a typo before anything runs. A backend that is not installed fails its model only.
Status check_backends(const BenchOptions& options) {
  std::vector<std::string> names{options.backend};
  for (const ModelSpec& model : options.models) names.push_back(model.backend);
  for (const std::string& name : names) {
    if (name.empty()) continue;
    auto found = inference::choose_backend({}, name, options.device);
    if (!found && found.error().kind == ErrorKind::usage) return forward_error(found);
  }
  return {};
}

void warn_of_threads(int threads, std::vector<std::string>& warnings) {
  const unsigned cores = std::thread::hardware_concurrency();
  if (cores == 0 || threads <= 2 * static_cast<int>(cores)) return;
  warnings.push_back(
      fmt::format("--threads {} is more than twice the {} cores of this machine; waiting threads can make "
                  "each run many times slower",
                  threads, cores));
}

// As it is written everywhere: "cuda" is "cuda:0".
Status normalise_device(std::string& name) {
  const auto device = parse_device_name(name);
  if (!device)
    return usage_error(fmt::format("unknown device '{}'", name), "",
                       fmt::format("use cpu, or cuda:N with N from 0 to {}", kMostCudaDevices - 1));
  name = device->text();
  return {};
}

constexpr std::string_view kVosTask = "vos";

// Flags that act only with --task vos, and those that cannot.
constexpr std::array<std::string_view, 11> kVosFlags{
    "dataset",     "prompts",     "models",           "weights-dir",    "prompt", "point-rule",
    "vos-profile", "vos-objects", "max-video-pixels", "compile-models", "planes"};
constexpr std::array<std::string_view, 8> kNotVosFlags{"source", "parallel", "pipeline", "pool",
                                                       "layers", "in-step",  "conf",     "iou"};

// A variable of the environment may be set for all runs.
bool is_given(const FlagValues& values, std::string_view flag) {
  return values.has(flag) && !values.origin(flag).starts_with("HEADROOM_");
}

Status check_vos_flags(const FlagValues& values, bool is_vos) {
  if (!is_vos) {
    for (const std::string_view flag : kVosFlags)
      if (is_given(values, flag))
        return usage_error(fmt::format("--{} has no effect without --task vos", flag), "",
                           fmt::format("add --dataset DIR, or remove --{}", flag));
    return {};
  }
  for (const std::string_view flag : kNotVosFlags)
    if (is_given(values, flag))
      return usage_error(fmt::format("--{} cannot be combined with --task vos", flag), "",
                         fmt::format("remove --{}", flag));
  if (!values.has("dataset"))
    return usage_error("--task vos needs a data set", "", "add --dataset DIR (docs/bench-vos.md)");
  return {};
}

template <class Enum>
Enum choice_of(const FlagValues& values, std::string_view flag, std::initializer_list<Enum> choices) {
  for (const Enum choice : choices)
    if (values.text(flag) == name_of(choice)) return choice;
  return *choices.begin();
}

Result<VosOptions> read_vos_options(const FlagValues& values, std::vector<std::string>& warnings) {
  VosOptions vos;
  std::error_code code;
  const std::filesystem::path folder = std::filesystem::absolute(values.text("dataset"), code);
  vos.dataset = folder.lexically_normal().string();
  if (!std::filesystem::is_directory(folder, code))
    return input_error(fmt::format("cannot read --dataset {}", values.text("dataset")),
                       std::filesystem::exists(folder, code) ? "it is not a folder" : "it was not found",
                       "name the folder that has the videos (docs/bench-vos.md)");
  if (values.has("prompts")) vos.prompts = std::filesystem::absolute(values.text("prompts"), code).string();
  vos.prompt = choice_of(values, "prompt", {PromptKind::points, PromptKind::box, PromptKind::mask});
  vos.reference_point = values.text("point-rule") == "reference";
  vos.profile = choice_of(values, "vos-profile", {VosProfile::predictor, VosProfile::evaluation});
  vos.objects = choice_of(values, "vos-objects", {VosObjects::together, VosObjects::alone});
  vos.planes = choice_of(values, "planes", {PlaneType::uint8, PlaneType::fp16});
  values.read("max-video-pixels", vos.max_video_pixels);
  if (is_given(values, "imgsz"))
    warnings.emplace_back(
        "--imgsz has no effect with --task vos: an exported graph has one input size; export the model again "
        "with --size");
  if (values.toggle("compile-models"))
    warnings.emplace_back(
        "--compile-models acts where TensorRT engines lie beside the graphs; other runtimes optimize each "
        "graph when they load it");
  return vos;
}

Status check_task(const std::string& task) {
  if (task.empty()) return {};
  std::vector<std::string> names{std::string(kVosTask)};
  for (const inference::TaskName& known : inference::task_names()) names.emplace_back(known.name);
  if (std::ranges::find(names, task) != names.end()) return {};
  return usage_error(fmt::format("unknown task '{}'", task), "",
                     fmt::format("use one of {}", fmt::join(names, ", ")));
}

}  // namespace

void override_with(FlagValues& values, const FlagValues& stronger) {
  for (const auto& [one, other] : kAlternatives)
    if (stronger.has(one) || stronger.has(other)) {
      values.entries_.erase(one);
      values.entries_.erase(other);
    }
  for (const auto& [name, entry] : stronger.entries_) values.entries_[name] = entry;
}

std::string path_from(const std::filesystem::path& folder, std::string_view flag, const std::string& value) {
  const auto path = [&](const std::string& given) {
    return std::filesystem::path(given).is_absolute() ? given : (folder / given).lexically_normal().string();
  };
  if (flag == "model") {
    auto model = parse_model(value);
    if (!model) return value;
    model->path = path(model->path);
    return words_of(*model);
  }
  if (flag != "source") return path(value);
  for (const SourceKind kind : {SourceKind::image_dir, SourceKind::video, SourceKind::raw}) {
    const std::string head = fmt::format("{}=", name_of(kind));
    if (value.starts_with(head)) return head + path(value.substr(head.size()));
  }
  const bool has_no_path = value.find("://") != std::string::npos ||
                           std::ranges::any_of(std::array{"camera=", "csi=", "gst="},
                                               [&](const char* head) { return value.starts_with(head); });
  return has_no_path ? value : path(value);
}

void make_paths_absolute(FlagValues& values) {
  std::error_code code;
  const std::filesystem::path here = std::filesystem::current_path(code);
  for (auto& [flag, entry] : values.entries_)
    if (is_model_or_source(flag) || flag == "prepared-dir" || flag == "output-dir" || flag == "dataset" ||
        flag == "prompts" || flag == "weights-dir")
      for (std::string& value : entry.values) value = path_from(here, flag, value);
}

bool is_model_or_source(std::string_view flag) {
  const bool is_slot = flag.size() == 6 && flag.starts_with("model");
  return flag == "source" || flag == "model" || is_slot;
}

Result<BenchOptions> bench_options_from(const FlagValues& values, std::vector<std::string>& warnings) {
  BenchOptions options;
  values.read("backend", options.backend);
  values.read("task", options.task);
  values.read("device", options.device);
  options.precision = parse_precision(values.text("precision")).value_or(options.precision);
  if (values.has("autocast-dtype"))
    options.precision = values.text("autocast-dtype") == "float32"   ? Precision::fp32
                        : values.text("autocast-dtype") == "float16" ? Precision::fp16
                                                                     : Precision::bf16;
  options.conv_search = parse_conv_search(values.text("conv-search")).value_or(options.conv_search);
  values.read("capture-graph", options.capture_graph);
  values.read("limit-mechanism", options.limit_mechanism);
  values.read("prepared-dir", options.prepared_dir);
  values.read("output-dir", options.output_dir);
  values.read("imgsz", options.image_size);
  values.read("max-frames", options.max_frames);
  values.read("warmup", options.warmup_frames);
  values.read("limit-videos", options.limit_videos);
  values.read("limit-objects", options.limit_objects);
  values.read("threads", options.threads);
  values.read("sample-images", options.sample_images);
  values.read("conf", options.confidence);
  values.read("iou", options.iou);
  values.read("max-frames-in-mem", options.max_frames_in_memory);
  values.read("timeout", options.timeout);
  values.read("metrics-interval", options.metrics_interval);
  values.read("strict", options.strict);
  values.read("tune", options.tune);
  values.read("parallel", options.parallel);
  values.read("pipeline", options.pipeline);
  values.read("layers", options.layers);
  values.read("aslr", options.aslr);
  values.read("in-step", options.in_step);
  values.read("repeat", options.repeat);
  values.read("pool", options.pool);
  values.read("pool-threads", options.pool_threads);
  values.read("skip-setup", options.skip_setup);
  values.read("skip-inference", options.skip_inference);
  values.read("json", options.json);
  values.read("quiet", options.quiet);
  values.read("verbose", options.verbose);
  options.color = color_mode(values);

  if (options.skip_setup && options.skip_inference)
    return usage_error("--skip-setup and --skip-inference cannot be combined: nothing would run", "",
                       "keep one of them");
  if (options.repeat > 1 && options.json)
    return usage_error("--repeat and --json cannot be combined", "standard output would get several reports",
                       "read report.json of each run's folder");
  const bool is_vos = options.task == kVosTask || values.has("dataset");
  if (auto fine = check_vos_flags(values, is_vos); !fine) return forward_error(fine);
  if (is_vos && !options.task.empty() && options.task != kVosTask)
    return usage_error(fmt::format("--dataset cannot be combined with --task {}", options.task), "",
                       "remove --task, or use --source");
  if (is_vos) {
    options.task = kVosTask;
    auto vos = read_vos_options(values, warnings);
    if (!vos) return forward_error(vos);
    options.vos = std::move(*vos);
  }
  if (auto read = read_models(values, options); !read) return forward_error(read);
  for (const ModelSpec& model : options.models)
    if (!is_vos && (model.task == kVosTask || model.prompt))
      return usage_error(fmt::format("model {} needs --task vos", model.name), "", "add --dataset DIR");
    else if (is_vos && !model.task.empty() && model.task != kVosTask)
      return usage_error(fmt::format("model {} has the task {}", model.name, model.task),
                         "all models of a run with --task vos have that task", "remove its task");
  warn_of_threads(options.threads, warnings);
  for (const ModelSpec& model : options.models)
    if (auto known = check_task(model.task); !known) return forward_error(known);
  if (auto known = check_task(options.task); !known) return forward_error(known);
  if (auto known = normalise_device(options.device); !known) return forward_error(known);
  for (ModelSpec& model : options.models)
    if (!model.device.empty())
      if (auto known = normalise_device(model.device); !known) return forward_error(known);
  if (auto read = read_limit(values, options, warnings); !read) return forward_error(read);
  if (auto fine = check_limit_flags(values, options); !fine) return forward_error(fine);
  if (auto known = check_backends(options); !known) return forward_error(known);
  if (bench::cuda_devices(options).empty() && (options.capture_graph || values.has("conv-search")))
    return usage_error(
        fmt::format("--{} has no effect", options.capture_graph ? "capture-graph" : "conv-search"),
        "no model runs on a GPU", "add --device cuda:N, or remove the flag");
  if (values.has("source")) {
    auto source = media::parse_source(values.text("source"));
    if (!source) return forward_error(source);
    options.source = std::move(*source);
  }
  return options;
}

}  // namespace headroom::cli
