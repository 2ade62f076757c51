#include "cli/verbs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "base/terminal.h"
#include "base/text.h"
#include "bench/conductor/bench.h"
#include "cli/common_flags.h"
#include "trace/device_account.h"
#include "types/device_name.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

// No builder works with less; no GPU has more. Other sizes are mistakes of units.
constexpr Bytes kSmallestBuilderWorkspace = mebibytes(1), kLargestSize = gibibytes(64 << 10),
                kSmallestBuildLimit = mebibytes(64);

std::vector<Flag> build_engine_flags() {
  return grouped(
      {{"Engine",
        {integer_flag("imgsz", "input size in pixels, if the model has no fixed size", 16, 8192)
             .with_default("640"),
         toggle_flag("fp16", "allow layers in FP16 (TensorRT 10)"),
         toggle_flag("bf16", "allow layers in BF16 (TensorRT 10)"),
         toggle_flag("int8", "allow INT8, for a model with Q/DQ nodes"),
         size_flag("workspace", "scratch memory per layer (kWORKSPACE, kTACTIC_DRAM)")
             .within(kSmallestBuilderWorkspace, kLargestSize)
             .with_default("TensorRT's default"),
         text_flag("out", "FILE", "engine file; its record is FILE.json").with_default("MODEL.engine"),
         toggle_flag("force", "replace an existing engine file"),
         text_flag("device", "NAME", "GPU to build on and for").with_default("cuda:0")}},
       {"Limit",
        {size_flag("mem-limit", "memory limit of the build").within(kSmallestBuildLimit, kLargestSize),
         text_flag("gpu-mem-limit", "SIZE", "GPU memory limit (or 0=4GiB)"),
         limit_mechanism_flag("mem-limit").rare(),
         duration_flag("timeout", "fail if the builder does not respond for TIME")
             .within(1e9, 30 * 24 * 3600e9)
             .with_default("10min")
             .rare()}}});
}

Result<bench::BuildEngineOptions> build_engine_options_from(const std::vector<std::string>& arguments) {
  auto values = parse_flags(build_engine_verb(), arguments);
  if (!values) return forward_error(values);
  if (values->positionals().size() != 1)
    return usage_error("headroom build-engine needs one model", "", "use headroom build-engine model.onnx");
  bench::BuildEngineOptions options;
  tensorrt::EngineRequest& request = options.request;
  request.model = values->positionals().front();
  if (to_lower(request.model.extension().string()) != ".onnx")
    return usage_error(
        fmt::format("cannot build an engine from {}: not an ONNX model", request.model.string()), "",
        "export the model to .onnx first");
  request.engine = tensorrt::engine_path(request.model);
  values->read("out", request.engine);
  if (auto fine = check_output(request.engine, request.model, "--out"); !fine) return forward_error(fine);
  const auto device = parse_device_name(values->has("device") ? values->text("device") : "cuda:0");
  if (!device || !device->is_cuda)
    return usage_error(fmt::format("cannot build an engine on '{}'", values->text("device")),
                       "an engine is built on the NVIDIA GPU that runs it",
                       fmt::format("use cuda:N with N from 0 to {}", kMostCudaDevices - 1));
  request.device = device->text();
  if (auto fine = at_most_one(*values, {"fp16", "bf16", "int8"}, "an engine has one precision"); !fine)
    return forward_error(fine);
  for (const char* name : {"fp16", "bf16", "int8"})
    if (values->toggle(name)) request.precision = *tensorrt::parse_precision(name);
  values->read("imgsz", request.image_size);
  values->read("workspace", request.workspace);
  values->read("force", request.force);
  values->read("mem-limit", options.limit);
  values->read("limit-mechanism", options.mechanism);
  if (auto fine = check_needed(*values, "limit-mechanism", "mem-limit SIZE"); !fine)
    return forward_error(fine);
  values->read("timeout", options.timeout);
  if (auto fine = read_device_limits(*values, "gpu-mem-limit", options.gpu_limits); !fine)
    return forward_error(fine);
  if (values->has("gpu-mem-limit") && options.gpu_limits.bytes[device->ordinal] == ledger::kNoLimit)
    return usage_error(fmt::format("--gpu-mem-limit {} has no effect", values->text("gpu-mem-limit")),
                       fmt::format("the engine is built on {}", request.device),
                       "set the limit of that device");
  return options;
}

std::string summary(const bench::BuildEngineOptions& options, const bench::BuiltEngine& built) {
  const tensorrt::EngineRecord& record = built.record;
  const std::string engine = options.request.engine.string();
  std::string text = built.outcome.already_built
                         ? fmt::format("{} already exists, built {} from this model for this machine\n",
                                       engine, record.created_at)
                         : fmt::format("{}: {}, built in {}\n", engine, format_bytes(record.engine.bytes),
                                       format_duration(built.time));
  text += fmt::format("  TensorRT {}, {}, for {} (compute capability {})\n", record.machine.tensorrt_version,
                      record.settings.precision, record.machine.gpu, record.machine.compute_capability);
  text += fmt::format("  inputs: {}\n", fmt::join(record.inputs, ", "));
  if (!built.outcome.already_built) {
    text += fmt::format("  the builder's allocator used at most {} of GPU memory",
                        format_bytes(built.outcome.device_peak));
    if (built.outcome.refused > 0)
      text +=
          fmt::format(", and {} of its requests were refused, so TensorRT may have skipped faster kernels",
                      built.outcome.refused);
    text += '\n';
  }
  if (!built.outcome.note.empty()) text += fmt::format("  {}\n", built.outcome.note);
  return text + fmt::format("\nNext: headroom bench --device {} --model {} --source …\n",
                            options.request.device, shell_word(engine));
}

Result<int> build(const std::vector<std::string>& arguments) {
  auto options = build_engine_options_from(arguments);
  if (!options) return forward_error(options);
  ProgressLine line;
  auto built = bench::build_engine(*options,
                                   [&](const std::string& at_work) { line.update("building", -1, at_work); });
  line.clear();
  if (!built) return forward_error(built);
  if (built->interrupted) {
    log::warning("interrupted; no engine was written");
    return kExitInterrupted;
  }
  print_output(summary(*options, *built));
  return 0;
}

}  // namespace

const Verb& build_engine_verb() {
  static const Verb kVerb{
      .name = "build-engine",
      .summary = "Build a TensorRT engine from an ONNX model",
      .usage = "headroom build-engine MODEL.onnx [--imgsz 640] [--fp16] [FLAGS]",
      .description =
          "Builds a TensorRT engine from an ONNX model, in a child process under the limit. Next to the "
          "engine it writes a JSON file with the machine, the versions and the build settings. An engine "
          "works with one GPU model and one TensorRT version. headroom bench rejects an engine from another "
          "setup or of a changed model, and says why. Needs Headroom's TensorRT plug-in and TensorRT's "
          "libraries (docs/tensorrt.md).",
      .examples = {"headroom build-engine yolo11n.onnx --imgsz 640 --fp16",
                   "headroom build-engine m.onnx --workspace 512MiB --gpu-mem-limit 2GiB",
                   "headroom bench --device cuda:0 --model m=m.engine --source video.mp4"},
      .flags = build_engine_flags(),
      .positional = "MODEL.onnx",
      .run = build,
  };
  return kVerb;
}

}  // namespace headroom::cli
