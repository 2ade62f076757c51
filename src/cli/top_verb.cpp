#include "cli/top_verb.h"

#include <cstdlib>
#include <string_view>

#include "base/text.h"
#include "cli/common_flags.h"
#include "cli/exit_code.h"
#include "tui/run_top.h"

namespace headroom::cli {
namespace {

std::vector<Flag> top_flags() {
  Flag interval = make_flag("interval", FlagKind::duration, "TIME", "time between samples");
  interval.default_text = "1s";
  interval.minimum = 50e6;
  interval.maximum = 3600e9;
  Flag sort = make_flag("sort", FlagKind::choice, "WORD", "sort processes by this column");
  sort.choices = {"memory", "gpu", "cpu", "swap", "oom", "pid", "name"};
  sort.default_text = "memory";
  Flag alerts =
      make_flag("alerts", FlagKind::text, "FILE|default|off", "alert rules: a TOML file (docs/alerts.md)");
  alerts.default_text = "default";
  Flag width = make_flag("width", FlagKind::integer, "N", "width of --once in columns");
  width.default_text = "the terminal's, else 80";
  width.minimum = 20;
  width.maximum = 1000;
  Flag processes = make_flag("processes", FlagKind::integer, "N", "process rows of --once");
  processes.default_text = "20";
  processes.minimum = 0;
  processes.maximum = 100000;
  Flag sysroot = make_flag("sysroot", FlagKind::text, "DIR", "read /proc and /sys under DIR");
  sysroot.default_text = "/";
  sysroot.common = false;
  return {make_flag("once", FlagKind::toggle, "", "print one screen and exit"),
          make_flag("json", FlagKind::toggle, "", "print one sample as a JSON object"),
          make_flag("replay", FlagKind::text, "FILE", "replay a log of headroom watch (FILE.jsonl)"),
          std::move(interval),
          std::move(sort),
          make_flag("filter", FlagKind::text, "TEXT", "show only processes with TEXT in their name"),
          make_flag("pss", FlagKind::toggle, "", "show shares of shared pages (walks page tables)"),
          std::move(alerts),
          std::move(width),
          std::move(processes),
          make_flag("ascii", FlagKind::toggle, "", "draw bars with ASCII characters only"),
          std::move(sysroot),
          color_flag()};
}

// As a shell gives it to what it starts without a terminal.
int width_of_environment() {
  const char* const columns = std::getenv("COLUMNS");
  const auto width = columns != nullptr ? parse_number<int>(columns) : std::nullopt;
  return width && *width >= 20 && *width <= 1000 ? *width : 0;
}

Result<tui::TopOptions> options_from(const FlagValues& values) {
  tui::TopOptions options;
  options.json = values.toggle("json");
  options.once = values.toggle("once") || options.json;
  options.width = values.has("width") ? static_cast<int>(*values.integer("width")) : width_of_environment();
  if (values.has("processes")) options.processes = static_cast<int>(*values.integer("processes"));
  if (values.has("sysroot")) options.sysroot = values.text("sysroot");
  if (values.has("replay")) options.replay = values.text("replay");
  if (values.has("interval")) options.interval = *parse_duration(values.text("interval"));
  const std::string alerts = values.has("alerts") ? values.text("alerts") : "default";
  if (alerts == "default") options.alerts = watch::default_alert_settings();
  if (alerts != "default" && alerts != "off") {
    auto rules = watch::read_alert_rules(alerts);
    if (!rules) return forward_error(rules);
    options.alerts = std::move(*rules);
  }
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
  static const Verb kVerb = [] {
    Verb verb;
    verb.name = "top";
    verb.summary = "Show the machine's memory live";
    verb.usage = "headroom top [FLAGS]";
    verb.description =
        "Shows the machine's memory on one screen and updates it live. One bar accounts for every byte "
        "exactly once. Below it are GPUs, swap, stalls, clocks, temperatures, power, engines, alerts and "
        "processes. Each process has its CPU and GPU memory. A figure that the machine does not report is "
        "left out, never shown as zero (docs/top.md).";
    verb.examples = {"headroom top", "headroom top --once --json", "headroom top --replay robot.jsonl"};
    verb.flags = top_flags();
    return verb;
  }();
  return kVerb;
}

int run_top_verb(const std::vector<std::string>& arguments) {
  auto values = parse_flags(top_verb(), arguments);
  if (!values) return exit_code_of(values.error());
  auto options = options_from(*values);
  if (!options) return exit_code_of(options.error());
  return exit_code_of(tui::run_top(std::move(*options)));
}

}  // namespace headroom::cli
