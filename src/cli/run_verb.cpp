#include "cli/verbs.h"

#include <utility>

#include "bench/conductor/limited_command.h"
#include "cli/common_flags.h"
#include "cli/exit_code.h"
#include "cli/wrapped_command.h"
#include "trace/device_account.h"

namespace headroom::cli {
namespace {

std::vector<Flag> run_flags() {
  std::vector<Flag> flags;
  add_group(
      flags, "Limit",
      {size_flag("limit", "memory limit of the command and its children").also("mem-limit"),
       text_flag("gpu-limit", "SIZE", "limit of each GPU's memory (or 0=4GiB,1=8GiB)").also("gpu-mem-limit"),
       text_flag("share", "NAME", "share the GPU limit with commands of the same NAME"),
       limit_mechanism_flag("limit")});
  return flags;
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
      return usage_error("--limit-mechanism has no effect without --limit", "",
                         "add --limit SIZE, or remove --limit-mechanism");
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
      .examples =
          {
              "headroom run --limit 2GiB -- ./app --its-flags",
              "headroom run --gpu-limit 4GiB -- python3 infer.py",
              "headroom run --share night -- ./second   # shares the first one's limit",
          },
      .flags = run_flags(),
      .positional = "COMMAND",
  };
  return kVerb;
}

int run_run_verb(const std::vector<std::string>& arguments) {
  auto options = run_options_from(arguments);
  if (!options) return exit_code_of(options.error());
  return exit_code_of(bench::run_limited(*options));
}

}  // namespace headroom::cli
