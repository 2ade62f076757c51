#include "cli/run_verb.h"

#include <utility>

#include "cli/common_flags.h"
#include "cli/exit_code.h"
#include "cli/wrapped_command.h"
#include "trace/device_account.h"

namespace headroom::cli {
namespace {

Flag value(const char* name, FlagKind kind, const char* value_name, const char* help) {
  Flag flag = make_flag(name, kind, value_name, help);
  flag.group = "Limit";
  return flag;
}

std::vector<Flag> run_flags() {
  Flag limit = value("limit", FlagKind::size, "SIZE", "of the machine's memory, all processes together");
  limit.aliases = {"mem-limit"};
  Flag gpu = value("gpu-limit", FlagKind::text, "SIZE", "of each GPU's memory (or 0=4GiB,1=8GiB)");
  gpu.aliases = {"gpu-mem-limit"};
  Flag mechanism = value("limit-mechanism", FlagKind::choice, "WORD", "what enforces --limit");
  mechanism.choices = {"auto", "cgroup", "rlimit", "watchdog", "none"};
  mechanism.default_text = "auto";
  return {std::move(limit), std::move(gpu),
          value("share", FlagKind::text, "NAME", "share the GPU limit with other commands of that NAME"),
          std::move(mechanism)};
}

}  // namespace

const Verb& run_verb() {
  static const Verb kVerb = [] {
    Verb verb;
    verb.name = "run";
    verb.summary = "Run a command under a limit that was tried out first";
    verb.usage = "headroom run --limit SIZE [--gpu-limit SIZE] -- COMMAND …";
    verb.description =
        "Runs a command, unchanged, so that it and its children get no more memory than the limit: the "
        "machine's by a control group or what else enforces it here, a GPU's by a small library that stands "
        "in front of the driver and refuses with the driver's own error. Before, a probe tries to get past "
        "each. The command keeps the terminal, and its exit status is headroom's. One line at the end says "
        "what "
        "it used and what the limit was worth (docs/limits.md).";
    verb.examples = {
        "headroom run --limit 2GiB -- ./app --its-flags",
        "headroom run --gpu-limit 4GiB -- python3 infer.py",
        "headroom run --share night -- ./second   # within the limit of the first",
    };
    verb.positional = "COMMAND";
    verb.flags = run_flags();
    return verb;
  }();
  return kVerb;
}

Result<bench::RunLimitedOptions> run_options_from(const std::vector<std::string>& arguments) {
  auto wrapped = parse_wrapped_command(run_verb(), arguments, "headroom run --limit 2GiB --");
  if (!wrapped) return forward_error(wrapped);
  const FlagValues values = wrapped->merged();
  bench::RunLimitedOptions options;
  options.command = std::move(wrapped->command);
  if (values.has("limit")) options.limit = *parse_size(values.text("limit"));
  if (values.has("limit-mechanism")) {
    options.mechanism = values.text("limit-mechanism");
    if (!options.limit && values.origin("limit-mechanism") == "command line")
      return usage_error("--limit-mechanism enforces nothing without --limit", "",
                         "give --limit SIZE too, or leave it out");
  }
  if (values.has("gpu-limit")) {
    auto limits = read_device_limits(values, "gpu-limit");
    if (!limits) return forward_error(limits);
    options.gpu_limits = *limits;
  }
  if (values.has("share")) {
    options.share = values.text("share");
    if (auto sound = trace::check_share_name(options.share); !sound) return forward_error(sound);
  }
  return options;
}

int run_run_verb(const std::vector<std::string>& arguments) {
  auto options = run_options_from(arguments);
  if (!options) return exit_code_of(options.error());
  return exit_code_of(bench::run_limited(*options));
}

}  // namespace headroom::cli
