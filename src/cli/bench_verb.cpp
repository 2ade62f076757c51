#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/files.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/unfinished.h"
#include "bench/conductor/bench.h"
#include "cli/bench_flags.h"
#include "cli/common_flags.h"
#include "cli/verbs.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

// No process starts in less (limits::make_memory_limit demands as much); above the largest is a slip of
// units.
constexpr Bytes kSmallestLimit = mebibytes(8), kLargestMemory = gibibytes(64 << 10);
// The scan is killed with 16 MiB for a folder of small photos: the decoding libraries alone take most of it.
constexpr Bytes kSmallestWorkspace = mebibytes(32);
constexpr Nanoseconds kShortestTimeout{1'000'000'000}, kLongestTimeout{30 * 24 * 3'600'000'000'000};
// Each sample reads dozens of files of /proc and /sys: more often than this it would disturb what it watches.
constexpr Nanoseconds kShortestInterval{10'000'000}, kLongestInterval{3'600'000'000'000};

std::vector<Flag> input_flags() {
  std::vector<Flag> flags{
      text_flag("source", "SRC", "input: a path, camera=N, rtsp://…, gst=PIPELINE, …"),
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
      number_flag("conf", "confidence threshold, 0 to 1", 0, 1).with_default("0.25"),
      number_flag("iou", "IoU threshold of NMS, 0 to 1", 0, 1).with_default("0.45"),
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

// --task vos
std::vector<Flag> vos_flags() {
  std::vector<Flag> flags{
      text_flag("dataset", "DIR", "videos with objects to track").also("split-dir"),
      text_flag("prompts", "FILE", "prompts of objects (JSON or CSV)")
          .with_default("that in the data set's folder"),
      text_flag("models", "LIST", "compatibility alias: NAME_points,NAME_bbox,… of --weights-dir"),
      text_flag("weights-dir", "DIR", "folder of the models of --models").with_default("."),
      choice_flag("prompt", {"points", "box", "mask"}, "kind of prompt, made from the first mask"),
      choice_flag("point-rule", {"inside", "reference"},
                  "the point: far inside the mask, or its pixels' mean"),
      choice_flag("vos-profile", {"predictor", "evaluation"},
                  "as the predictor of SAM 2, or as its evaluation"),
      choice_flag("vos-objects", {"together", "alone"},
                  "objects of a video share a pass, or one after another"),
      choice_flag("planes", {"uint8", "fp16"},
                  "prepared frames: 8-bit levels, or normalised values of 16 bits"),
      integer_flag("max-video-pixels", "leave out videos with more pixels per frame", 1, 1e9),
      choice_flag("autocast-dtype", {"bfloat16", "float16", "float32"},
                  "of memories, and of LibTorch models (as --precision)"),
      toggle_flag("compile-models", "compatibility alias: acts where TensorRT engines lie beside the graphs"),
  };
  for (Flag& flag : flags) flag.common = flag.name == "dataset";
  return flags;
}

std::vector<Flag> limit_flags() {
  return {
      size_flag("mem-limit", "memory limit of each model, such as 2GiB")
          .within(kSmallestLimit, kLargestMemory),
      text_flag("gpu-mem-limit", "SIZE", "GPU memory limit, shared by all models (or 0=4GiB,1=8GiB)")
          .also("gpu-limit"),
      number_flag("gpu-mem-limit-gb", "compatibility alias: limit in GiB, at most 8 (docs/gpu-limits.md)",
                  0.01),
      limit_mechanism_flag("mem-limit"),
      toggle_flag("strict", "exit with 1 if the limit is exceeded"),
      size_flag("workspace", "scratch memory of the setup phase")
          .with_default("256MiB")
          .within(kSmallestWorkspace, kLargestMemory),
      number_flag("workspace-mb", "same as --workspace, in MiB", 32, 64 << 20),
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
      toggle_flag("quiet", "print only errors, the result and the report's path"),
      verbose,
      color_flag(),
      text_flag("config", "FILE", "read flags from a TOML file (docs/configuration.md)"),
      toggle_flag("dump-config", "print the merged configuration and exit"),
  };
}

// The flags of the one-screen help.
constexpr std::array<std::string_view, 12> kCommon{"source",     "dataset",   "model",      "device",
                                                   "max-frames", "mem-limit", "strict",     "tune",
                                                   "parallel",   "pipeline",  "output-dir", "json"};

std::vector<Flag> bench_flags() {
  std::vector<Flag> flags = grouped({{"Inputs", input_flags()},
                                     {"Video object segmentation (docs/bench-vos.md)", vos_flags()},
                                     {"Limit", limit_flags()},
                                     {"Phases", phase_flags()},
                                     {"Output", output_flags()}});
  for (Flag& flag : flags) flag.common = std::ranges::find(kCommon, flag.name) != kCommon.end();
  return flags;
}

// Configuration file < environment < command line.
Result<FlagValues> merge(const FlagValues& command_line) {
  std::vector<std::string> unknown;
  auto environment = read_environment(bench_verb(), unknown);
  if (!environment) return environment;
  for (const std::string& name : unknown)
    log::warning("{} is ignored: headroom bench has no such flag", name);
  std::string file = command_line.text("config");
  if (file.empty()) file = environment->text("config");
  if (!command_line.positionals().empty()) {
    if (command_line.positionals().size() > 1 || !file.empty())
      return usage_error("more than one configuration file was given", "",
                         "use one file, either with --config or as an argument");
    file = command_line.positionals().front();
  }
  FlagValues values;
  if (!file.empty()) {
    auto config = read_config_file(file);
    if (!config) return config;
    values = std::move(*config);
  }
  override_with(values, *environment);
  override_with(values, command_line);
  values.entries_.erase("config");
  return values;
}

// Before anything is measured, and before a run folder is made: a folder that cannot be written is wrong use.
Status check_writable(const std::string& folder, const std::string& flag) {
  Status status = make_folder(folder);
  if (status)
    if (auto probe = UnfinishedFile::create(fs::path(folder) / ".headroom"); !probe)
      status = forward_error(probe);
  if (status) return {};
  return usage_error(fmt::format("cannot write to {}", folder), status.error().why,
                     fmt::format("choose a writable folder with --{}", flag));
}

// As many runs as --repeat says, each with a folder of its own. A model that fails fails its run, and the
// next one is made all the same; wrong use, an interruption and a setup that failed end them all.
Result<int> make_runs(const BenchOptions& options, const std::string& command,
                      const std::vector<std::string>& warnings) {
  int worst = 0;
  for (int number = 1; number <= options.repeat; ++number) {
    if (options.repeat > 1) log::info("run {} of {}", number, options.repeat);
    auto code = bench::run_bench(options, command, warnings);
    if (!code || *code > 1) return code;
    worst = std::max(worst, *code);
  }
  return worst;
}

Result<int> run_bench(const std::vector<std::string>& arguments) {
  auto command_line = parse_flags(bench_verb(), arguments);
  if (!command_line) return forward_error(command_line);
  auto values = merge(*command_line);
  if (!values) return forward_error(values);
  if (values->toggle("dump-config")) {
    values->entries_.erase("dump-config");
    make_paths_absolute(*values);
    print_output(to_toml(*values));
    return 0;
  }
  std::vector<std::string> warnings;
  auto options = bench_options_from(*values, warnings);
  if (!options) return forward_error(options);
  if (options->verbose) log::set_console_level(log::Level::debug);
  if (options->quiet) log::set_console_level(log::Level::error);
  if (auto writable = check_writable(options->output_dir, "output-dir"); !writable)
    return forward_error(writable);
  if (!options->skip_setup)
    if (auto writable = check_writable(options->prepared_dir, "prepared-dir"); !writable)
      return forward_error(writable);
  // For the plug-in onnxruntime_tensorrt, in every child: engines are kept where the setup phase keeps its
  // data.
  std::error_code code;
  const fs::path engines = fs::absolute(fs::path(options->prepared_dir) / "engines", code);
  if (!code) ::setenv("HEADROOM_ENGINE_CACHE", engines.c_str(), 0);
  std::vector<std::string> command{"headroom", "bench"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  if (options->source)  // a report is shown to others: without the password of a stream
    for (std::string& word : command)
      if (const std::string& path = options->source->path; !path.empty() && word.ends_with(path))
        word.replace(word.size() - path.size(), path.size(), options->source->shown_path());
  return make_runs(*options, shell_command(command), warnings);
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
      .examples = {"headroom bench --source photos --model yolo11n.onnx --mem-limit 2GiB",
                   "headroom bench --source video=drive.mp4 --model a=a.onnx --model b=b.onnx",
                   "headroom bench --config bench.toml --tune --strict"},
      .flags = bench_flags(),
      .positional = "bench.toml",
      .run = run_bench,
  };
  return kVerb;
}

}  // namespace headroom::cli
