#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/log.h"
#include "bench/conductor/bench.h"
#include "bench/conductor/gpu_limit.h"
#include "cli/common_flags.h"
#include "cli/verbs.h"
#include "trace/attach.h"
#include "trace/device_account.h"
#include "trace/run_trace.h"
#include "trace/tracer_environment.h"

namespace headroom::cli {
namespace {

std::vector<Flag> run_flags() {
  return grouped({{"Limit",
                   {size_flag("limit", "memory limit of the command and its children").also("mem-limit"),
                    text_flag("gpu-limit", "SIZE", "limit of each GPU's memory (or 0=4GiB,1=8GiB)")
                        .also("gpu-mem-limit"),
                    text_flag("share", "NAME", "share the GPU limit with commands of the same NAME"),
                    allow_no_gpu_flag(), limit_mechanism_flag("limit")}}});
}

Result<int> run_limited_command(const std::vector<std::string>& arguments) {
  auto wrapped = parse_wrapped_command(run_verb(), arguments, "headroom run --limit 2GiB --");
  if (!wrapped) return forward_error(wrapped);
  const FlagValues& values = wrapped->values;
  if (auto fine = check_needed(values, "limit-mechanism", "limit SIZE"); !fine) return forward_error(fine);
  bench::RunLimitedOptions options;
  options.command = std::move(wrapped->command);
  values.read("limit", options.limit);
  values.read("limit-mechanism", options.mechanism);
  if (auto fine = read_device_limits(values, "gpu-limit", options.gpu_limits); !fine)
    return forward_error(fine);
  if (auto fine = read_share_name(values, options.share); !fine) return forward_error(fine);
  if (auto fine = read_allow_no_gpu(values, "gpu-limit", options.allow_no_gpu); !fine)
    return forward_error(fine);
  return bench::run_limited(options);
}

std::vector<Flag> trace_flags() {
  return grouped(
      {{"Process",
        {integer_flag("pid", "record a process that runs already", 1, 1 << 30),
         duration_flag("for", "end the recording of --pid after TIME").with_default("Ctrl-C")}},
       {"Events to record",
        {toggle_flag("full", "record every allocation"),
         choice_flag("stacks", {"unwind", "fp", "off"}, "method for call stacks"),
         choice_flag("layers", {"auto", "off"}, "record the model's layers"),
         size_flag("large", "record each allocation of at least SIZE").with_default("4KiB"),
         size_flag("sample-period", "sample smaller allocations, one per SIZE on average")
             .with_default("256KiB")
             .rare(),
         choice_flag("only", {"gpu"}, "record GPU memory only, not host memory").with_default("")}},
       {"Recording file",
        {text_flag("out", "FILE", "write the recording to FILE").with_default("outputs/DATE/NAME.hrec"),
         toggle_flag("force", "replace FILE if it is a recording"),
         size_flag("max-size", "limit a file").with_default("8GiB, or half of the free disk"),
         size_flag("ring", "keep only the last SIZE of each recording"),
         integer_flag("max-events", "record only the first N events of each process", 1, 1e15).rare()}},
       {"Limits",
        {text_flag("gpu-mem-limit", "SIZE", "GPU memory limit (or 0=4GiB)").also("gpu-limit"),
         text_flag("share", "NAME", "share the limit with commands of the same NAME"),
         allow_no_gpu_flag()}}});
}

constexpr std::array kBounds{"ring", "max-size", "max-events"};
constexpr std::array kOfDefaultMode{"large", "sample-period"};

// The flags among those given that say how the heap is recorded.
std::vector<const char*> flags_of_the_heap(const FlagValues& values) {
  std::vector<const char*> given;
  if (values.toggle("full")) given.push_back("full");
  for (const char* name : kOfDefaultMode)
    if (values.has(name)) given.push_back(name);
  return given;
}

// Drops values of the environment that the command line contradicts.
void drop_contradicted(FlagValues& values) {
  const auto given = [&](const char* name) { return values.origin(name) == kCommandLine; };
  const auto drop = [&](const char* name) {
    if (!given(name)) values.entries_.erase(name);
  };
  const bool has_bound = std::ranges::any_of(kBounds, given);
  const bool has_default_mode = std::ranges::any_of(kOfDefaultMode, given);
  const bool is_full = given("full");
  for (const char* name : kBounds)
    if (has_bound) drop(name);
  for (const char* name : kOfDefaultMode)
    if (is_full || given("only")) drop(name);
  if (has_default_mode || given("only")) drop("full");
  if (is_full || has_default_mode) drop("only");
}

Status no_flag_without_effect(const FlagValues& values) {
  if (values.has("only"))
    for (const char* name : flags_of_the_heap(values))
      return usage_error(fmt::format("--only gpu and --{} cannot be combined", name),
                         "--only gpu records no host memory", "remove one of them");
  if (!values.toggle("full")) return {};
  return reject_flags(values, {"large", "sample-period"}, "and --full cannot be combined",
                      "--full records every allocation, so it samples none", "remove one of them");
}

Status positive_size(const FlagValues& values, const char* name, Bytes& size) {
  values.read(name, size);
  if (!values.has(name) || size.count > 0) return {};
  return usage_error(fmt::format("--{} is zero", name), "", "use a size above zero");
}

Result<trace::TraceOptions> trace_options_from(const std::vector<std::string>& arguments,
                                               FlagValues& values) {
  auto wrapped = parse_wrapped_command(trace_verb(), arguments, "headroom trace --");
  if (!wrapped) return forward_error(wrapped);
  values = std::move(wrapped->values);
  drop_contradicted(values);
  if (auto fine = at_most_one(values, {"ring", "max-size", "max-events"}, "", "keep one of these limits");
      !fine)
    return forward_error(fine);
  if (auto fine = no_flag_without_effect(values); !fine) return forward_error(fine);

  trace::TraceOptions options;
  options.command = std::move(wrapped->command);
  options.gpu_only = values.has("only");
  options.library = options.gpu_only ? trace::gpu_tracer_library() : trace::tracer_library();
  values.read("out", options.output);
  values.read("force", options.replace_output);
  values.read("full", options.full);
  options.layers = values.text("layers") != "off";
  values.read("stacks", options.stacks);
  values.read("ring", options.ring);
  values.read("max-size", options.max_size);
  values.read("max-events", options.max_events);
  if (auto fine = read_device_limits(values, "gpu-mem-limit", options.device_limits); !fine)
    return forward_error(fine);
  if (auto fine = read_share_name(values, options.share); !fine) return forward_error(fine);
  if (auto fine = read_allow_no_gpu(values, "gpu-mem-limit", options.allow_no_gpu); !fine)
    return forward_error(fine);
  if (auto fine = positive_size(values, "large", options.large); !fine) return forward_error(fine);
  if (auto fine = positive_size(values, "sample-period", options.sample_period); !fine)
    return forward_error(fine);
  return options;
}

// How strong the limit was, and how much the command used.
void log_limit(const trace::DeviceAccount& account, const Limit& proved) {
  const std::string used = bench::describe_use(account);
  const bool is_unhooked = account.unhooked_drivers() > 0;
  if (proved.type == LimitType::unavailable && used.empty() && !is_unhooked) {
    log::warning("the GPU memory limit was not enforced{}", proved.note.empty() ? "" : ": " + proved.note);
    return;
  }
  log::info("{}", !used.empty() ? used
                  : is_unhooked ? "no GPU memory was charged to the limit"
                                : "the command allocated no GPU memory");
  log::info("the GPU memory limit was {}: {}{}{}", name_of(bench::type_after(proved, account)),
            bench::describe_routes(proved), bench::describe_escapes(account),
            proved.note.empty() ? "" : "; " + proved.note);
}

// Flags that only take effect at a program's start.
constexpr std::array kOfCommand{"only", "layers", "gpu-mem-limit", "share"};

Result<int> attach_to_process(const FlagValues& values, const trace::TraceOptions& options) {
  if (!options.command.empty())
    return usage_error("--pid and a command cannot be combined", "--pid records a process that runs already",
                       "remove one of them");
  for (const char* name : kOfCommand)
    if (values.origin(name) == kCommandLine)
      return usage_error(fmt::format("--pid and --{} cannot be combined", name),
                         "it must be known when the program starts",
                         fmt::format("remove --{}, or start the program with headroom trace --", name));
  trace::AttachOptions attach;
  attach.trace = options;
  attach.trace.library = trace::attach_library();
  attach.trace.layers = false;
  std::int64_t pid = 0;
  values.read("pid", pid);
  attach.pid = static_cast<pid_t>(pid);
  values.read("for", attach.duration);
  return trace::run_attach(attach);
}

Result<int> trace_command(const std::vector<std::string>& arguments) {
  FlagValues values;
  auto options = trace_options_from(arguments, values);
  if (!options) return forward_error(options);
  if (auto fine = check_needed(values, "for", "pid N"); !fine) return forward_error(fine);
  if (values.has("pid")) return attach_to_process(values, *options);
  if (!options->device_limits.any() && options->share.empty()) return trace::run_trace(*options);
  // Opened before the trace, because only the account knows the limit of a shared name.
  auto account = trace::DeviceAccount::open(options->device_limits, options->share);
  if (!account) return forward_error(account);
  auto gpu = bench::prove_gpu_limit(account->limits(), options->allow_no_gpu);
  if (!gpu) return forward_error(gpu);
  if (gpu->interrupted_by != 0) return 128 + gpu->interrupted_by;
  options->proved_limit = gpu->limit.type;
  auto ended = trace::run_trace(*options);
  if (ended) log_limit(*account, gpu->limit);
  return ended;
}

}  // namespace

const Verb& run_verb() {
  static const Verb kVerb{
      .name = "run",
      .summary = "Run a command under memory limits that a probe tests first",
      .usage = "headroom run --limit SIZE [--gpu-limit SIZE] -- COMMAND …",
      .description =
          "Runs an unmodified command so that it and its children cannot use more memory than the limit. A "
          "control group or another mechanism enforces the limit of the machine's memory. A small library in "
          "front of the GPU driver enforces the GPU limit: it fails a request with the driver's own error. "
          "Before the run, a probe tries to exceed each limit. The command keeps the terminal, and headroom "
          "exits with its exit status. The last line reports the memory used and how strong each limit was "
          "(docs/limits.md).",
      .examples = {"headroom run --limit 2GiB -- ./app --its-flags",
                   "headroom run --gpu-limit 4GiB -- python3 infer.py",
                   "headroom run --share night -- ./second   # shares the first one's limit"},
      .flags = run_flags(),
      .positional = "COMMAND",
      .run = run_limited_command,
  };
  return kVerb;
}

const Verb& trace_verb() {
  static const Verb kVerb{
      .name = "trace",
      .summary = "Record a program's memory allocations, with stack and layer",
      .usage = "headroom trace [FLAGS] (-- COMMAND … | --pid N)",
      .description =
          "Runs an unmodified command and records its memory allocations, each with call stack and model "
          "layer. A small preloaded library writes them to a file that survives a crash of the command. "
          "Layers come from NVTX, ONNX Runtime and PyTorch. The command keeps the terminal, and headroom "
          "exits with its exit status. Each process of the command gets a separate recording. docs/trace.md "
          "lists the recorded events and their cost. With --pid, it records a process that runs already, and "
          "lets it go on afterwards (docs/attach.md).",
      .examples = {"headroom trace -- ./app --its-flags",
                   "headroom trace --full --out app.hrec -- python3 train.py",
                   "headroom trace --pid 4711 --for 60s   # a process that runs already",
                   "headroom trace --ring 256MiB -- ./service   # the last moments before an OOM",
                   "headroom trace --only gpu -- python3 infer.py   # GPU memory only",
                   "headroom trace --gpu-mem-limit 4GiB -- python3 infer.py   # GPU limit"},
      .flags = trace_flags(),
      .positional = "COMMAND",
      .run = trace_command,
  };
  return kVerb;
}

}  // namespace headroom::cli
