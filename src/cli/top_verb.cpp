#include "cli/verbs.h"

#include <cstdlib>
#include <string_view>

#include "base/text.h"
#include "cli/common_flags.h"
#include "cli/exit_code.h"
#include "tui/run_top.h"

namespace headroom::cli {
namespace {

std::vector<Flag> top_flags() {
  return {
      toggle_flag("once", "print one screen and exit"),
      toggle_flag("json", "print one sample as a JSON object"),
      text_flag("replay", "FILE", "replay a log of headroom watch (FILE.jsonl)"),
      duration_flag("interval", "time between samples").within(50e6, 3600e9).with_default("1s"),
      choice_flag("sort", {"memory", "gpu", "cpu", "swap", "oom", "pid", "name"},
                  "sort processes by this column"),
      text_flag("filter", "TEXT", "show only processes with TEXT in their name"),
      toggle_flag("pss", "show shares of shared pages (walks page tables)"),
      alerts_flag("default"),
      integer_flag("width", "width of --once in columns", 20, 1000).with_default("the terminal's, else 80"),
      integer_flag("processes", "process rows of --once", 0, 100000).with_default("20"),
      toggle_flag("ascii", "draw bars with ASCII characters only"),
      sysroot_flag().with_default("/"),
      color_flag()};
}

// COLUMNS, which a shell may set for commands without a terminal.
int width_of_environment() {
  const char* const columns = std::getenv("COLUMNS");
  const auto width = columns != nullptr ? parse_number<int>(columns) : std::nullopt;
  return width && *width >= 20 && *width <= 1000 ? *width : 0;
}

Result<tui::TopOptions> top_options_from(const FlagValues& values) {
  tui::TopOptions options;
  options.json = values.toggle("json");
  options.once = values.toggle("once") || options.json;
  options.width = values.has("width") ? static_cast<int>(*values.integer("width")) : width_of_environment();
  if (values.has("processes")) options.processes = static_cast<int>(*values.integer("processes"));
  if (values.has("sysroot")) options.sysroot = values.text("sysroot");
  if (values.has("replay")) options.replay = values.text("replay");
  if (values.has("interval")) options.interval = *parse_duration(values.text("interval"));
  auto alerts = alert_settings_from(values, "default");
  if (!alerts) return forward_error(alerts);
  options.alerts = std::move(*alerts);
  options.color = color_mode(values);
  options.pss = values.toggle("pss");
  if (values.has("sort"))
    options.choice.sort =
        tui::process_column_by_name(values.text("sort")).value_or(tui::ProcessColumn::memory);
  options.choice.filter = values.text("filter");
  options.choice.ascii = values.toggle("ascii");
  return options;
}

}  // namespace

const Verb& top_verb() {
  static const Verb kVerb{
      .name = "top",
      .summary = "Show the machine's memory live",
      .usage = "headroom top [FLAGS]",
      .description =
          "Shows the machine's memory on one screen and updates it live. One bar accounts for every byte "
          "exactly once. Below it are GPUs, swap, stalls, clocks, temperatures, power, engines, alerts and "
          "processes. Each process has its CPU and GPU memory. A figure that the machine does not report is "
          "left out, never shown as zero (docs/top.md).",
      .examples = {"headroom top", "headroom top --once --json", "headroom top --replay robot.jsonl"},
      .flags = top_flags(),
  };
  return kVerb;
}

int run_top_verb(const std::vector<std::string>& arguments) {
  auto values = parse_flags(top_verb(), arguments);
  if (!values) return exit_code_of(values.error());
  auto options = top_options_from(*values);
  if (!options) return exit_code_of(options.error());
  return exit_code_of(tui::run_top(std::move(*options)));
}

}  // namespace headroom::cli
