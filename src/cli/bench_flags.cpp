#include "cli/bench_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <thread>

#include "bench/conductor/gpu_limit.h"
#include "bench/conductor/unified_memory.h"
#include "cli/common_flags.h"
#include "cli/model_flags.h"
#include "inference/backend.h"
#include "inference/task.h"
#include "media/source_scan.h"
#include "trace/device_account.h"
#include "types/device_name.h"

namespace headroom::cli {
namespace {

// The reference's bound on its gigabyte flag.
constexpr double kLargestGigabytes = 8.0;

// No process starts in less (limits::make_memory_limit demands as much); above the largest is a slip of
// units.
constexpr Bytes kSmallestLimit = mebibytes(8), kLargestMemory = gibibytes(64 << 10);
// The scan is killed with 16 MiB for a folder of small photos: the decoding libraries alone take most of it.
constexpr Bytes kSmallestWorkspace = mebibytes(32);
constexpr Nanoseconds kShortestTimeout{1'000'000'000}, kLongestTimeout{30 * 24 * 3'600'000'000'000};
// Each sample reads dozens of files of /proc and /sys: more often than this it would disturb what it watches.
constexpr Nanoseconds kShortestInterval{10'000'000}, kLongestInterval{3'600'000'000'000};

// Two spellings of one setting.
constexpr std::array<std::pair<const char*, const char*>, 3> kAlternatives{
    {{"mem-limit", "gpu-mem-limit-gb"},
     {"gpu-mem-limit", "gpu-mem-limit-gb"},
     {"workspace", "workspace-mb"}}};

std::vector<Flag> input_flags() {
  std::vector<Flag> flags{
      text_flag("source", "SRC", "input: image_dir=DIR, video=FILE, camera=N or a path"),
      text_flag("model", "NAME=PATH", "model to measure; repeatable").repeatable(),
  };
  for (std::size_t i = 0; i < kModelSlots.size(); ++i)
    flags.push_back(
        text_flag(fmt::format("model{}", i), "PATH", fmt::format("model of slot {}", kModelSlots.at(i))));
  const std::vector<Flag> more{
      text_flag("backend", "NAME", "use this runtime for all models").with_default("by extension"),
      text_flag("task", "NAME", "set the task of all models (docs/tasks.md)").with_default("automatic"),
      text_flag("device", "NAME", "device to run models on: cpu or cuda:N").with_default("cpu"),
      choice_flag("precision", {"fp32", "fp16", "bf16"}, "precision of LibTorch models (docs/libtorch.md)")
          .with_default("bf16 on GPUs from Ampere on, else fp32"),
      choice_flag("conv-search", {"exhaustive", "heuristic", "default"},
                  "method to choose convolution algorithms on a GPU"),
      toggle_flag("capture-graph", "run the model as a captured CUDA graph"),
      integer_flag("imgsz", "input size in pixels, if the model has no fixed size", 16, 8192)
          .with_default("640"),
      number_flag("conf", FlagKind::number, "confidence threshold, 0 to 1", 0, 1).with_default("0.25"),
      number_flag("iou", FlagKind::number, "IoU threshold of NMS, 0 to 1", 0, 1).with_default("0.45"),
      integer_flag("max-frames", "measure at most N frames per video or folder", 1, 1e12).with_default("300"),
      integer_flag("warmup", "run N warm-up frames before the measurement", 0, 1e6).with_default("10"),
      integer_flag("max-frames-in-mem", "keep at most N decoded frames in memory", 1, 4096)
          .with_default("600, at most 16 MiB and an eighth of the limit"),
      integer_flag("limit-videos", "use only the first N videos or folders", 1, 1e9),
      integer_flag("limit-objects", "use only the first N objects of each video", 1, 1e9),
      integer_flag("threads", "threads of the runtime; 0: the runtime's default", 0, 1024).with_default("0"),
  };
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

std::vector<Flag> limit_flags() {
  return {
      size_flag("mem-limit", "memory limit of each model, such as 2GiB")
          .within(kSmallestLimit, kLargestMemory),
      text_flag("gpu-mem-limit", "SIZE", "GPU memory limit, shared by all models (or 0=4GiB,1=8GiB)")
          .also("gpu-limit"),
      number_flag("gpu-mem-limit-gb", FlagKind::gigabytes,
                  "compatibility alias: limit in GiB, at most 8 (docs/gpu-limits.md)", 0.01),
      limit_mechanism_flag("mem-limit"),
      toggle_flag("strict", "exit with 1 if the limit is exceeded"),
      size_flag("workspace", "scratch memory of the setup phase")
          .with_default("256MiB")
          .within(kSmallestWorkspace, kLargestMemory),
      number_flag("workspace-mb", FlagKind::megabytes, "same as --workspace, in MiB", 32, 64 << 20),
      duration_flag("timeout", "fail a model that does not respond for TIME")
          .with_default("2min")
          .within(kShortestTimeout, kLongestTimeout),
  };
}

std::vector<Flag> phase_flags() {
  return {
      toggle_flag("tune", "search the fastest settings within the limit").also("enable-cudnn-tuning"),
      toggle_flag("parallel", "also run all models at once, under one limit"),
      toggle_flag("pipeline", "also run all models in one process, frame by frame"),
      size_flag("pool", "also run all models in one process of at most SIZE, loading and unloading on demand")
          .within(kSmallestLimit, kLargestMemory),
      integer_flag("pool-threads", "run up to N models of a frame at the same time (--pool)", 1, 256)
          .with_default("1"),
      toggle_flag("layers", "also trace each model: memory by kind and by layer"),
      toggle_flag("aslr", "keep address space randomization on; each run gets another heap layout"),
      text_flag("in-step", "NAME", "alternate frames with the other run of the same NAME, for headroom diff"),
      integer_flag("repeat", "make N runs in a row, one folder each, for headroom diff", 1, 1000)
          .with_default("1"),
      toggle_flag("skip-setup", "skip the setup phase; use the data of an earlier one"),
      toggle_flag("skip-inference", "run the setup phase only"),
      text_flag("prepared-dir", "DIR", "folder for the data of the setup phase")
          .with_default("./preprocessed_data")
          .also("preprocessed-dir"),
  };
}

std::vector<Flag> output_flags() {
  Flag verbose = toggle_flag("verbose", "print more detail");
  verbose.short_name = 'v';
  return {
      text_flag("output-dir", "DIR", "write run folders to DIR").with_default("outputs").also("out-dir"),
      duration_flag("metrics-interval", "time between samples of the machine")
          .with_default("0.5s")
          .within(kShortestInterval, kLongestInterval),
      integer_flag("sample-images", "annotated images to save per model", 0, 1000).with_default("3"),
      toggle_flag("json", "print report.json on standard output"),
      toggle_flag("quiet", "print only errors and the result"),
      verbose,
      color_flag(),
      text_flag("config", "FILE", "read flags from a TOML file (docs/configuration.md)"),
      toggle_flag("dump-config", "print the merged configuration and exit"),
  };
}

// The flags of the one-screen help.
constexpr std::array<std::string_view, 11> kCommon{"source",    "model",      "device", "max-frames",
                                                   "mem-limit", "strict",     "tune",   "parallel",
                                                   "pipeline",  "output-dir", "json"};

std::vector<Flag> bench_flags() {
  std::vector<Flag> flags;
  add_group(flags, "Inputs", input_flags());
  add_group(flags, "Limit", limit_flags());
  add_group(flags, "Phases", phase_flags());
  add_group(flags, "Output", output_flags());
  for (Flag& flag : flags)
    flag.common = std::find(kCommon.begin(), kCommon.end(), flag.name) != kCommon.end();
  return flags;
}

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
    if (values.has(one) && values.has(other))
      return usage_error(fmt::format("--{} and --{} cannot be combined", one, other),
                         "both set the same value", "keep one of them");
  if (values.has("mem-limit")) options.memory_limit = *parse_size(values.text("mem-limit"));
  if (values.has("gpu-mem-limit")) {
    options.gpu_memory_limit = values.text("gpu-mem-limit");
    if (auto limits = read_device_limits(values, "gpu-mem-limit"); !limits) return forward_error(limits);
  }
  if (const auto gigabytes = values.number("gpu-mem-limit-gb")) {
    if (*gigabytes > kLargestGigabytes)
      warnings.push_back(fmt::format(
          "--gpu-mem-limit-gb {} is above the maximum of 8, so 8 GiB is used; for a larger limit, use "
          "--mem-limit (host memory) or --gpu-mem-limit (GPU memory)",
          *gigabytes));
    set_reference_limit(from_gib(std::min(*gigabytes, kLargestGigabytes)), options);
  }
  if (values.has("workspace"))
    options.workspace = *parse_size(values.text("workspace"));
  else if (const auto megabytes = values.number("workspace-mb"))
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

Status check_task(const std::string& task) {
  if (task.empty()) return {};
  std::vector<std::string> names;
  for (const inference::TaskName& known : inference::task_names()) names.emplace_back(known.name);
  if (std::find(names.begin(), names.end(), task) != names.end()) return {};
  return usage_error(fmt::format("unknown task '{}'", task), "",
                     fmt::format("use one of {}", fmt::join(names, ", ")));
}

}  // namespace

const Verb& bench_verb() {
  static const Verb kVerb{
      .name = "bench",
      .summary = "Benchmark models: latency, FPS and memory, under a memory limit",
      .usage = "headroom bench [--source SRC] --model NAME=PATH … [FLAGS]",
      .description =
          "Runs each model on the frames of a source, in a fresh process under the limit. A setup phase "
          "prepares the data first. Models that take no frames (audio, recurrent state, integer inputs) need "
          "no source: they run on inputs made from their signatures. Writes a run folder with report.json, "
          "report.md, report.html, summary.csv, metrics.jsonl, annotated samples and footprints. A model "
          "that "
          "fails, crashes, hangs or runs out of memory is reported, and the others continue. Flags can also "
          "come from a TOML file (--config) and from the environment (HEADROOM_MAX_FRAMES=50).",
      .examples =
          {
              "headroom bench --source photos --model yolo11n.onnx --mem-limit 2GiB",
              "headroom bench --source video=drive.mp4 --model a=a.onnx --model b=b.onnx",
              "headroom bench --config bench.toml --tune --strict",
          },
      .flags = bench_flags(),
      .positional = "bench.toml",
  };
  return kVerb;
}

void override_with(FlagValues& values, const FlagValues& stronger) {
  for (const auto& [one, other] : kAlternatives)
    if (stronger.has(one) || stronger.has(other)) {
      values.entries_.erase(one);
      values.entries_.erase(other);
    }
  for (const auto& [name, entry] : stronger.entries_) values.entries_[name] = entry;
}

void make_paths_absolute(FlagValues& values) {
  const auto absolute = [](const std::string& path) {
    std::error_code code;
    const std::filesystem::path whole = std::filesystem::absolute(path, code);
    return code ? path : whole.lexically_normal().string();
  };
  const auto change = [&](std::string_view flag, auto new_value) {
    if (const auto entry = values.entries_.find(flag); entry != values.entries_.end())
      for (std::string& value : entry->second.values) value = new_value(value);
  };
  change("model", [&](const std::string& value) {
    auto model = parse_model(value);
    if (!model) return value;
    model->path = absolute(model->path);
    return words_of(*model);
  });
  for (std::size_t i = 0; i < kModelSlots.size(); ++i) change(fmt::format("model{}", i), absolute);
  change("source", [&](const std::string& value) {
    for (const SourceKind kind : {SourceKind::image_dir, SourceKind::video}) {
      const std::string head = fmt::format("{}=", name_of(kind));
      if (value.starts_with(head)) return head + absolute(value.substr(head.size()));
    }
    return value.starts_with("camera=") ? value : absolute(value);
  });
  for (const char* folder : {"prepared-dir", "output-dir"}) change(folder, absolute);
}

Result<BenchOptions> bench_options_from(const FlagValues& values, std::vector<std::string>& warnings) {
  BenchOptions options;
  const auto text = [&](const char* name, std::string& target) {
    if (values.has(name)) target = values.text(name);
  };
  const auto integer = [&](const char* name, auto& target) {
    if (const auto number = values.integer(name))
      target = static_cast<std::remove_reference_t<decltype(target)>>(*number);
  };
  text("backend", options.backend);
  text("task", options.task);
  text("device", options.device);
  if (values.has("precision"))
    options.precision = parse_precision(values.text("precision")).value_or(options.precision);
  if (values.has("conv-search"))
    options.conv_search = parse_conv_search(values.text("conv-search")).value_or(options.conv_search);
  options.capture_graph = values.toggle("capture-graph");
  text("limit-mechanism", options.limit_mechanism);
  text("prepared-dir", options.prepared_dir);
  text("output-dir", options.output_dir);
  integer("imgsz", options.image_size);
  integer("max-frames", options.max_frames);
  integer("warmup", options.warmup_frames);
  integer("limit-videos", options.limit_videos);
  integer("limit-objects", options.limit_objects);
  integer("threads", options.threads);
  integer("sample-images", options.sample_images);
  options.confidence = values.number("conf").value_or(options.confidence);
  options.iou = values.number("iou").value_or(options.iou);
  options.max_frames_in_memory = values.integer("max-frames-in-mem");
  if (values.has("timeout")) options.timeout = *parse_duration(values.text("timeout"));
  if (values.has("metrics-interval"))
    options.metrics_interval = *parse_duration(values.text("metrics-interval"));
  options.strict = values.toggle("strict");
  options.tune = values.toggle("tune");
  options.parallel = values.toggle("parallel");
  options.pipeline = values.toggle("pipeline");
  options.layers = values.toggle("layers");
  options.aslr = values.toggle("aslr");
  text("in-step", options.in_step);
  integer("repeat", options.repeat);
  if (values.has("pool")) options.pool = *parse_size(values.text("pool"));
  if (values.has("pool-threads")) options.pool_threads = values.integer("pool-threads");
  options.skip_setup = values.toggle("skip-setup");
  options.skip_inference = values.toggle("skip-inference");
  options.json = values.toggle("json");
  options.quiet = values.toggle("quiet");
  options.verbose = values.toggle("verbose");
  options.color = color_mode(values);

  if (options.skip_setup && options.skip_inference)
    return usage_error("--skip-setup and --skip-inference cannot be combined: nothing would run", "",
                       "keep one of them");
  if (options.repeat > 1 && options.json)
    return usage_error("--repeat and --json cannot be combined", "standard output would get several reports",
                       "read report.json of each run's folder");
  if (auto read = read_models(values, options); !read) return forward_error(read);
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
