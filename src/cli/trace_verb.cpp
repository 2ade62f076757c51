#include "cli/verbs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "base/log.h"
#include "bench/conductor/gpu_limit.h"
#include "cli/common_flags.h"
#include "cli/exit_code.h"
#include "cli/wrapped_command.h"
#include "trace/device_account.h"
#include "trace/run_trace.h"
#include "trace/trace_options.h"
#include "trace/tracer_environment.h"

namespace headroom::cli {
namespace {

std::vector<Flag> trace_flags() {
  std::vector<Flag> flags;
  add_group(flags, "Events to record",
            {toggle_flag("full", "record every allocation"),
             choice_flag("stacks", {"unwind", "fp", "off"}, "method for call stacks"),
             choice_flag("layers", {"auto", "off"}, "record the model's layers"),
             size_flag("large", "record each allocation of at least SIZE").with_default("4KiB"),
             size_flag("sample-period", "sample smaller allocations, one per SIZE on average")
                 .with_default("256KiB")
                 .rare(),
             choice_flag("only", {"gpu"}, "record GPU memory only, not host memory").with_default("")});
  add_group(flags, "Recording file",
            {text_flag("out", "FILE", "write the recording to FILE").with_default("outputs/DATE/NAME.hrec"),
             toggle_flag("force", "replace FILE if it is a recording"),
             size_flag("max-size", "limit a recording to SIZE; later events are counted")
                 .with_default("8GiB, at most half of the free disk"),
             size_flag("ring", "keep only the last SIZE of each recording"),
             integer_flag("max-events", "record only the first N events of each process", 1, 1e15)});
  add_group(flags, "Limits",
            {text_flag("gpu-mem-limit", "SIZE", "GPU memory limit (or 0=4GiB)").also("gpu-limit"),
             text_flag("share", "NAME", "share the limit with commands of the same NAME")});
  return flags;
}

constexpr std::array kBounds{"ring", "max-size", "max-events"};

Status at_most_one_bound(const FlagValues& values) {
  std::vector<std::string> given;
  for (const char* name : kBounds)
    if (values.has(name)) given.push_back(fmt::format("--{}", name));
  if (given.size() < 2) return {};
  return usage_error(fmt::format("{} cannot be combined", fmt::join(given, " and ")), "",
                     "keep one of these limits");
}

constexpr std::array kOfDefaultMode{"large", "sample-period"};

// The flags among those given that say how the heap is recorded.
std::vector<const char*> flags_of_the_heap(const FlagValues& values) {
  std::vector<const char*> given;
  if (values.toggle("full")) given.push_back("full");
  for (const char* name : kOfDefaultMode)
    if (values.has(name)) given.push_back(name);
  return given;
}

// What the command line says goes before what the environment says against it.
void drop_contradicted(const FlagValues& command_line, FlagValues& environment) {
  const auto given = [&](const char* name) { return command_line.has(name); };
  if (std::any_of(kBounds.begin(), kBounds.end(), given))
    for (const char* name : kBounds) environment.entries_.erase(name);
  if (command_line.toggle("full"))
    for (const char* name : kOfDefaultMode) environment.entries_.erase(name);
  if (std::any_of(kOfDefaultMode.begin(), kOfDefaultMode.end(), given)) environment.entries_.erase("full");
  if (!flags_of_the_heap(command_line).empty()) environment.entries_.erase("only");
  if (given("only"))
    for (const char* name : flags_of_the_heap(environment)) environment.entries_.erase(name);
}

Status no_flag_without_effect(const FlagValues& values) {
  if (values.has("only"))
    for (const char* name : flags_of_the_heap(values))
      return usage_error(fmt::format("--only gpu and --{} cannot be combined", name),
                         "--only gpu records no host memory", "remove one of them");
  if (!values.toggle("full")) return {};
  for (const char* name : kOfDefaultMode)
    if (values.has(name))
      return usage_error(fmt::format("--full and --{} cannot be combined", name),
                         "--full records every allocation, so it samples none", "remove one of them");
  return {};
}

Status positive_size(const FlagValues& values, const char* name, Bytes& size) {
  if (!values.has(name)) return {};
  size = *parse_size(values.text(name));
  if (size.count > 0) return {};
  return usage_error(fmt::format("--{} is zero", name), "", "use a size above zero");
}

std::optional<Bytes> optional_size(const FlagValues& values, const char* name) {
  if (!values.has(name)) return std::nullopt;
  return *parse_size(values.text(name));
}

Result<trace::TraceOptions> trace_options_from(const std::vector<std::string>& arguments) {
  auto wrapped = parse_wrapped_command(trace_verb(), arguments, "headroom trace --");
  if (!wrapped) return forward_error(wrapped);
  drop_contradicted(wrapped->command_line, wrapped->environment);
  const FlagValues values = wrapped->merged();
  if (auto bound = at_most_one_bound(values); !bound) return forward_error(bound);
  if (auto flags = no_flag_without_effect(values); !flags) return forward_error(flags);

  trace::TraceOptions options;
  options.command = std::move(wrapped->command);
  options.gpu_only = values.has("only");
  options.library = options.gpu_only ? trace::gpu_tracer_library() : trace::tracer_library();
  options.output = values.text("out");
  options.replace_output = values.toggle("force");
  options.full = values.toggle("full");
  options.layers = values.text("layers") != "off";
  if (values.has("stacks")) options.stacks = values.text("stacks");
  options.ring = optional_size(values, "ring");
  options.max_size = optional_size(values, "max-size");
  options.max_events = values.integer("max-events");
  if (values.has("gpu-mem-limit")) {
    auto limits = read_device_limits(values, "gpu-mem-limit");
    if (!limits) return forward_error(limits);
    options.device_limits = *limits;
  }
  if (values.has("share")) {
    options.share = values.text("share");
    if (auto sound = trace::check_share_name(options.share); !sound) return forward_error(sound);
  }
  if (auto read = positive_size(values, "large", options.large); !read) return forward_error(read);
  if (auto read = positive_size(values, "sample-period", options.sample_period); !read)
    return forward_error(read);
  return options;
}

}  // namespace

const Verb& trace_verb() {
  static const Verb kVerb{
      .name = "trace",
      .summary = "Record a program's memory allocations, with stack and layer",
      .usage = "headroom trace [FLAGS] -- COMMAND …",
      .description =
          "Runs an unmodified command and records its memory allocations, each with call stack and model "
          "layer. A small preloaded library writes them to a file that survives a crash of the command. "
          "Layers "
          "come from NVTX, ONNX Runtime and PyTorch. The command keeps the terminal, and headroom exits with "
          "its exit status. Each process of the command gets a separate recording. docs/trace.md lists the "
          "recorded events and their cost.",
      .examples =
          {
              "headroom trace -- ./app --its-flags",
              "headroom trace --full --out app.hrec -- python3 train.py",
              "headroom trace --ring 256MiB -- ./service   # the last moments before an OOM",
              "headroom trace --only gpu -- python3 infer.py   # GPU memory only",
              "headroom trace --gpu-mem-limit 4GiB -- python3 infer.py   # GPU limit",
          },
      .flags = trace_flags(),
      .positional = "COMMAND",
  };
  return kVerb;
}

int run_trace_verb(const std::vector<std::string>& arguments) {
  auto options = trace_options_from(arguments);
  if (!options) return exit_code_of(options.error());
  Limit proved;
  // Here already, as only the account knows the limit of a name. The trace finds it open.
  std::optional<trace::DeviceAccount> account;
  if (options->device_limits.any() || !options->share.empty()) {
    auto opened = trace::DeviceAccount::open(options->device_limits, options->share);
    if (!opened) return exit_code_of(opened.error());
    account.emplace(std::move(*opened));
    auto gpu = bench::prove_gpu_limit(account->limits());
    if (!gpu) return exit_code_of(gpu.error());
    if (gpu->interrupted_by != 0) return 128 + gpu->interrupted_by;
    proved = std::move(gpu->limit);
    options->proved_limit = proved.type;
  }
  const auto ended = trace::run_trace(*options);
  if (!ended || !account) return exit_code_of(ended);
  const std::string used = bench::describe_use(*account);
  if (proved.type == LimitType::unavailable && used.empty() && account->unhooked_drivers() == 0) {
    log::warning("the GPU memory limit was not enforced{}", proved.note.empty() ? "" : ": " + proved.note);
    return *ended;
  }
  if (!used.empty())
    log::info("{}", used);
  else if (account->unhooked_drivers() > 0)
    log::info("no GPU memory was charged to the limit");
  else
    log::info("the command allocated no GPU memory");
  log::info("the GPU memory limit was {}: {}{}{}", name_of(bench::type_after(proved, *account)),
            bench::describe_routes(proved), bench::describe_escapes(*account),
            proved.note.empty() ? "" : "; " + proved.note);
  return *ended;
}

}  // namespace headroom::cli
