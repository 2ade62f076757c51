#include "cli/watch_verb.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "cli/common_flags.h"
#include "cli/exit_code.h"
#include "cli/wrapped_command.h"
#include "sources/nvidia_smi_reader.h"
#include "sources/text_samples.h"
#include "watch/run_watch.h"
#include "watch/text_input.h"

namespace headroom::cli {
namespace {

std::vector<std::string> kinds_of_text() {
  std::vector<std::string> kinds = sources::text_reader_names();
  kinds.emplace_back(watch::kOwnLog);
  return kinds;
}

// "tegrastats:FILE"; "tegrastats" alone is the tool itself.
Result<watch::TextInput> text_input_from(const std::string& text) {
  if (text == "tegrastats") return watch::TextInput{text, {}};
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const auto kinds = kinds_of_text();
  if (colon != text.npos && colon + 1 < text.size() &&
      std::find(kinds.begin(), kinds.end(), kind) != kinds.end())
    return watch::TextInput{kind, text.substr(colon + 1)};
  const std::string closest = closest_match(kind, kinds);
  return usage_error(fmt::format("invalid --from {}", text),
                     fmt::format("the value is KIND:FILE, and KIND is one of {}", fmt::join(kinds, ", ")),
                     closest.empty() || closest == kind ? "use tegrastats:FILE, or tegrastats:- for a pipe"
                                                        : fmt::format("did you mean {}:FILE?", closest));
}

// "-" stands for one that is not to be read: of a driver that has more of them.
Status check_column(const std::string& name) {
  if (name == "-" || sources::is_nvidia_smi_column(name)) return {};
  const std::string closest = sources::closest_nvidia_smi_column(name);
  return usage_error(fmt::format("unknown column '{}' in --columns", name), "nvidia-smi has no such column",
                     closest.empty()
                         ? "nvidia-smi --help-query-gpu lists all columns; write - to skip a column"
                         : fmt::format("did you mean '{}'?", closest));
}

// "index, memory.used": as they were given to --query-gpu.
Result<std::vector<std::string>> columns_from(const FlagValues& values, const watch::WatchOptions& options) {
  std::vector<std::string> columns;
  if (!options.from || options.from->kind != "nvidia-smi")
    return usage_error("--columns has no effect without --from nvidia-smi:FILE", "",
                       "add --from nvidia-smi:FILE");
  const std::string text = values.text("columns");
  for (const std::string_view column : split(text, ',')) {
    if (trim(column).empty())
      return usage_error(fmt::format("--columns {} has an empty column name", text), "",
                         "list the columns of the query: --columns timestamp,index,memory.used");
    columns.emplace_back(trim(column));
    if (auto sound = check_column(columns.back()); !sound) return forward_error(sound);
  }
  return columns;
}

Status check_together(const FlagValues& values, const watch::WatchOptions& options) {
  const int chosen = !options.pids.empty() + !options.name.empty() + !options.command.empty();
  if (chosen > 1)
    return usage_error("--pid, --name and a command cannot be combined", "", "keep one of them");
  if (values.toggle("jsonl") && values.toggle("csv"))
    return usage_error("--jsonl and --csv cannot be combined", "",
                       "keep one of them; --output FILE.csv writes CSV as well");
  if (options.from && (chosen > 0 || options.baseline || values.has("sysroot") || values.has("processes")))
    return usage_error(
        "--from cannot be combined with flags of the live machine: its text has no processes", "",
        "remove --from, or remove --pid, --name, --processes, --baseline, --sysroot and the command");
  if (options.output.empty() && (values.has("rotate") || values.has("keep")))
    return usage_error("--rotate and --keep have no effect without a log", "", "add --output FILE");
  for (const auto& path : options.plots)
    if (path.extension() != ".svg" && path.extension() != ".html")
      return usage_error(fmt::format("--plot {} does not end in .svg or .html", path.string()), "",
                         "use --plot FILE.svg or --plot FILE.html");
  return {};
}

Result<watch::WatchOptions> options_from(const std::vector<std::string>& arguments) {
  auto wrapped = parse_wrapped_command(watch_verb(), arguments, "headroom watch --");
  if (!wrapped) return forward_error(wrapped);
  const FlagValues values = wrapped->merged();
  watch::WatchOptions options;
  options.command = std::move(wrapped->command);
  if (values.has("from")) {
    auto input = text_input_from(values.text("from"));
    if (!input) return forward_error(input);
    options.from = std::move(*input);
  }
  if (values.has("columns")) {
    auto columns = columns_from(values, options);
    if (!columns) return forward_error(columns);
    options.from->columns = std::move(*columns);
  }
  if (values.has("sysroot")) options.sysroot = values.text("sysroot");
  options.baseline = values.toggle("baseline");
  if (options.baseline) {
    options.interval = Nanoseconds{500'000'000};
    options.duration = Nanoseconds{10'000'000'000};
    options.largest_processes = 10;
  }
  if (values.has("interval")) options.interval = *parse_duration(values.text("interval"));
  if (values.has("duration")) options.duration = *parse_duration(values.text("duration"));
  auto alerts = alert_settings_from(values, options.from ? "off" : "default");
  if (!alerts) return forward_error(alerts);
  options.alerts = std::move(*alerts);
  if (values.toggle("jsonl")) options.format = watch::Format::jsonl;
  if (values.toggle("csv")) options.format = watch::Format::csv;
  // A command keeps the terminal to itself.
  options.quiet = values.toggle("quiet") ||
                  (options.format == watch::Format::lines && (options.baseline || !options.command.empty()));
  if (values.has("output")) options.output = values.text("output");
  if (values.has("rotate")) options.rotate_at = *parse_size(values.text("rotate"));
  if (values.has("keep")) options.keep = static_cast<int>(*values.integer("keep"));
  for (const std::string& text : values.all("pid"))
    if (const auto pid = parse_number<pid_t>(text)) options.pids.push_back(*pid);
  options.name = values.text("name");
  if (values.has("processes"))
    options.largest_processes = static_cast<std::size_t>(*values.integer("processes"));
  for (const std::string& path : values.all("plot")) options.plots.emplace_back(path);
  options.color = wants_color(values);
  if (auto sound = check_together(values, options); !sound) return forward_error(sound);
  return options;
}

Flag grouped(Flag flag, const char* group) {
  flag.group = group;
  return flag;
}

// Not in the one-screen help.
Flag rare(Flag flag) {
  flag.common = false;
  return flag;
}

Flag number(const char* name, const char* help, double minimum, double maximum, const char* default_text) {
  Flag flag = make_flag(name, FlagKind::integer, "N", help);
  flag.minimum = minimum;
  flag.maximum = maximum;
  flag.default_text = default_text;
  return flag;
}

std::vector<Flag> watch_flags() {
  const char *what = "Input", *log = "Log", *end = "Summary";
  Flag interval = make_flag("interval", FlagKind::duration, "TIME", "time between samples, 1 ms to a day");
  interval.default_text = "1s";
  interval.minimum = 1e6;
  interval.maximum = 86400e9;
  Flag duration = make_flag("duration", FlagKind::duration, "TIME", "stop after TIME");
  duration.default_text = "Ctrl-C";
  duration.minimum = 1e6;
  Flag pid = number("pid", "follow process N and its children; repeatable", 1, 1 << 22, "");
  pid.repeated = true;
  Flag plot = make_flag("plot", FlagKind::text, "FILE", "draw memory over time (FILE.svg, FILE.html)");
  plot.repeated = true;
  Flag rotate = make_flag("rotate", FlagKind::size, "SIZE", "start a new log file at SIZE");
  rotate.default_text = "never";
  rotate.minimum = 4096;
  Flag sysroot = make_flag("sysroot", FlagKind::text, "DIR", "read /proc and /sys under DIR");
  sysroot.common = false;
  return {
      grouped(std::move(interval), what),
      grouped(std::move(duration), what),
      grouped(std::move(pid), what),
      grouped(make_flag("name", FlagKind::text, "TEXT", "follow processes with TEXT in their names"), what),
      grouped(make_flag("from", FlagKind::text, "KIND:FILE",
                        "read output of tegrastats, nvidia-smi, meminfo or headroom (- is a pipe)"),
              what),
      grouped(rare(make_flag("columns", FlagKind::text, "NAMES",
                             "columns of an nvidia-smi CSV without a header: index,memory.used")),
              what),
      grouped(std::move(sysroot), what),
      grouped(make_flag("jsonl", FlagKind::toggle, "", "print one JSON object per sample"), log),
      grouped(rare(make_flag("csv", FlagKind::toggle, "", "print one CSV row per sample")), log),
      grouped(alerts_flag("default, with --from off"), log),
      grouped(rare(make_flag("quiet", FlagKind::toggle, "", "print no samples")), log),
      grouped(make_flag("output", FlagKind::text, "FILE", "log to FILE.csv, FILE.jsonl or FILE.jsonl.gz"),
              log),
      grouped(rare(std::move(rotate)), log),
      grouped(rare(number("keep", "keep N older log files", 0, 9999, "4")), log),
      grouped(number("processes", "add the N largest processes to each sample", 0, 100000, "0"), log),
      grouped(make_flag("baseline", FlagKind::toggle, "", "measure the machine's idle memory for 10 s"), end),
      grouped(std::move(plot), end),
      rare(color_flag())};
}

}  // namespace

const Verb& watch_verb() {
  static const Verb kVerb = [] {
    Verb verb;
    verb.name = "watch";
    verb.summary = "Log the machine's memory over time";
    verb.usage = "headroom watch [FLAGS] [-- COMMAND …]";
    verb.description =
        "Samples the machine's memory, swap, pressure, processors, GPU, temperatures and power at a steady "
        "pace. Prints the samples and can also write a log. Ends with the minimum, mean, maximum and slope "
        "of each figure, and with memory over time. Can follow a command, or processes by number or name, "
        "including their children. Also reads saved output of tegrastats, nvidia-smi or /proc/meminfo. A "
        "figure that a source does not report is left out, never logged as zero (docs/watch.md, "
        "docs/monitor-sources.md).";
    verb.examples = {
        "headroom watch", "headroom watch --interval 100ms --output run.jsonl.gz -- python3 infer.py",
        "headroom watch --baseline", "headroom watch --from tegrastats:stats.log --plot memory.svg"};
    verb.positional = "COMMAND";
    verb.flags = watch_flags();
    return verb;
  }();
  return kVerb;
}

int run_watch_verb(const std::vector<std::string>& arguments) {
  auto options = options_from(arguments);
  if (!options) return exit_code_of(options.error());
  watch::Console console;  // until the last word was said
  return exit_code_of(watch::run_watch(*options, console));
}

}  // namespace headroom::cli
