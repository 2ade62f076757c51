#include "cli/verbs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "base/terminal.h"
#include "bench/conductor/child_process.h"
#include "plugin_builder/build_plugin.h"

namespace headroom::cli {
namespace {

std::vector<Flag> build_plugin_flags() {
  return {text_flag("output", "FOLDER", "folder for the plug-in")
              .with_default("~/.local/lib/headroom, as root /usr/lib/headroom"),
          text_flag("include-dir", "DIR", "search DIR for headers first; repeatable").repeatable()};
}

Result<int> build_plugin_with(const FlagValues& values) {
  if (values.positionals().size() != 1)
    return usage_error("headroom build-plugin needs the name of one plug-in", "",
                       fmt::format("use one of {}", fmt::join(plugin_builder::plugin_names(), ", ")));
  plugin_builder::BuildPluginOptions options;
  options.name = values.positionals().front();
  values.read("output", options.output);
  for (const std::string& folder : values.all("include-dir")) options.include_dirs.emplace_back(folder);
  auto interrupt = bench::Interrupt::listen();
  if (!interrupt) return forward_error(interrupt);
  ProgressLine line;
  auto built = plugin_builder::build_plugin(options, [&](std::string_view at_work) {
    line.update(options.name, -1, at_work);
    return !interrupt->requested();
  });
  line.clear();
  if (interrupt->signal_number() != 0) return kExitInterrupted;
  if (!built) return forward_error(built);
  print_output(fmt::format("{}\n  built for {}{}\n", built->file.string(), built->built_for,
                           built->version.empty() ? "" : ", loaded with version " + built->version));
  if (!built->memory_tracer.empty())
    print_output(
        fmt::format("{}\n  the memory tracer for the same LibTorch\n", built->memory_tracer.string()));
  for (const std::string& note : built->notes) log::warning("{}", note);
  return 0;
}

}  // namespace

const Verb& build_plugin_verb() {
  static const Verb kVerb{
      .name = "build-plugin",
      .summary = "Compile a plug-in for a library of this machine",
      .usage = "headroom build-plugin tensorrt|libtorch|rclcpp [FLAGS]",
      .description =
          "Compiles a plug-in with this machine's g++ (9 or newer; CXX selects another) and headers, loads "
          "it "
          "once, and puts it where Headroom finds it. tensorrt runs TensorRT engines "
          "(docs/tensorrt.md), libtorch runs TorchScript modules (docs/libtorch.md), and rclcpp publishes "
          "the "
          "figures of headroom serve as a ROS 2 node (docs/ros2.md). Build it again after an update of the "
          "library. What is missing is named with its package.",
      .examples = {"headroom build-plugin tensorrt",
                   "headroom build-plugin libtorch   # for the PyTorch of python3, or libtorch-dev",
                   "headroom build-plugin tensorrt --include-dir ~/TensorRT/include --output ~/plugins"},
      .flags = build_plugin_flags(),
      .positional = "NAME",
      .run = run_with_flags<build_plugin_verb, build_plugin_with>,
  };
  return kVerb;
}

}  // namespace headroom::cli
