#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "base/text.h"
#include "cli/common_flags.h"
#include "cli/verbs.h"
#include "sources/nvidia_smi_reader.h"
#include "sources/text_samples.h"
#include "tui/run_top.h"
#include "watch/run_watch.h"
#include "watch/text_input.h"

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

Result<int> show_top(const FlagValues& values) {
  tui::TopOptions options;
  values.read("json", options.json);
  options.once = values.toggle("once") || options.json;
  options.width = width_of_environment();
  values.read("width", options.width);
  values.read("processes", options.processes);
  values.read("sysroot", options.sysroot);
  values.read("replay", options.replay);
  values.read("interval", options.interval);
  if (auto read = read_alerts(values, "default", options.alerts); !read) return forward_error(read);
  options.color = color_mode(values);
  values.read("pss", options.pss);
  if (const auto column = tui::process_column_by_name(values.text("sort"))) options.choice.sort = *column;
  values.read("filter", options.choice.filter);
  values.read("ascii", options.choice.ascii);
  return tui::run_top(std::move(options));
}

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
  if (colon != text.npos && colon + 1 < text.size() && std::ranges::find(kinds, kind) != kinds.end())
    return watch::TextInput{kind, text.substr(colon + 1)};
  const std::string closest = closest_match(kind, kinds);
  return usage_error(fmt::format("invalid --from {}", text),
                     fmt::format("the value is KIND:FILE, and KIND is one of {}", fmt::join(kinds, ", ")),
                     closest.empty() || closest == kind ? "use tegrastats:FILE, or tegrastats:- for a pipe"
                                                        : fmt::format("did you mean {}:FILE?", closest));
}

// "-" skips a column, for drivers with more columns.
Status check_column(const std::string& name) {
  if (name == "-" || sources::is_nvidia_smi_column(name)) return {};
  const std::string closest = sources::closest_nvidia_smi_column(name);
  return usage_error(fmt::format("unknown column '{}' in --columns", name), "nvidia-smi has no such column",
                     closest.empty()
                         ? "nvidia-smi --help-query-gpu lists all columns; write - to skip a column"
                         : fmt::format("did you mean '{}'?", closest));
}

// "index, memory.used": the names that --query-gpu had.
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
  if (auto fine =
          at_most_one(values, {"jsonl", "csv"}, "", "keep one of them; --output FILE.csv writes CSV as well");
      !fine)
    return fine;
  if (options.from && (chosen > 0 || options.baseline || values.has("sysroot") || values.has("processes")))
    return usage_error(
        "--from cannot be combined with flags of the live machine: its text has no processes", "",
        "remove --from, or remove --pid, --name, --processes, --baseline, --sysroot and the command");
  if (options.output.empty() && (values.has("rotate") || values.has("keep")))
    return usage_error("--rotate and --keep have no effect without a log", "", "add --output FILE");
  for (const auto& path : options.plots) {
    if (path.extension() != ".svg" && path.extension() != ".html")
      return usage_error(fmt::format("--plot {} does not end in .svg or .html", path.string()), "",
                         "use --plot FILE.svg or --plot FILE.html");
    if (options.from)
      if (auto fine = check_output(path, options.from->file, "--plot"); !fine) return fine;
  }
  return {};
}

Result<watch::WatchOptions> watch_options_from(const WrappedCommand& wrapped) {
  const FlagValues& values = wrapped.values;
  watch::WatchOptions options;
  options.command = wrapped.command;
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
  values.read("sysroot", options.sysroot);
  options.baseline = values.toggle("baseline");
  if (options.baseline) {
    options.interval = Nanoseconds{500'000'000};
    options.duration = Nanoseconds{10'000'000'000};
    options.largest_processes = 10;
  }
  values.read("interval", options.interval);
  values.read("duration", options.duration);
  if (auto read = read_alerts(values, options.from ? "off" : "default", options.alerts); !read)
    return forward_error(read);
  if (values.toggle("jsonl")) options.format = watch::Format::jsonl;
  if (values.toggle("csv")) options.format = watch::Format::csv;
  // A command keeps the terminal to itself.
  options.quiet = values.toggle("quiet") ||
                  (options.format == watch::Format::lines && (options.baseline || !options.command.empty()));
  values.read("output", options.output);
  values.read("rotate", options.rotate_at);
  values.read("keep", options.keep);
  for (const std::string& text : values.all("pid")) options.pids.push_back(*parse_number<pid_t>(text));
  values.read("name", options.name);
  values.read("processes", options.largest_processes);
  for (const std::string& path : values.all("plot")) options.plots.emplace_back(path);
  options.color = screen_of(values).in_color();
  if (auto sound = check_together(values, options); !sound) return forward_error(sound);
  return options;
}

Result<int> watch_figures(const std::vector<std::string>& arguments) {
  auto wrapped = parse_wrapped_command(watch_verb(), arguments, "headroom watch --");
  if (!wrapped) return forward_error(wrapped);
  auto options = watch_options_from(*wrapped);
  if (!options) return forward_error(options);
  watch::Console console;  // until the error is printed
  return exit_code_of(watch::run_watch(*options, console));
}

std::vector<Flag> watch_flags() {
  return grouped(
      {{"Input",
        {duration_flag("interval", "time between samples, 1 ms to a day")
             .within(1e6, 86400e9)
             .with_default("1s"),
         duration_flag("duration", "stop after TIME").within(1e6).with_default("Ctrl-C"),
         integer_flag("pid", "follow process N and its children; repeatable", 1, 1 << 22).repeatable(),
         text_flag("name", "TEXT", "follow processes with TEXT in their names"),
         text_flag("from", "KIND:FILE",
                   "read output of tegrastats, nvidia-smi, meminfo or headroom (- is a pipe)"),
         text_flag("columns", "NAMES", "columns of an nvidia-smi CSV without a header: index,memory.used")
             .rare(),
         sysroot_flag()}},
       {"Log",
        {toggle_flag("jsonl", "print one JSON object per sample"),
         toggle_flag("csv", "print one CSV row per sample").rare(), alerts_flag("default, with --from off"),
         toggle_flag("quiet", "print no samples").rare(),
         text_flag("output", "FILE", "log to FILE.csv, FILE.jsonl or FILE.jsonl.gz"),
         size_flag("rotate", "start a new log file at SIZE").within(4096).with_default("never").rare(),
         integer_flag("keep", "keep N older log files", 0, 9999).with_default("4").rare(),
         integer_flag("processes", "add the N largest processes to each sample", 0, 100000)
             .with_default("0")}},
       {"Summary",
        {toggle_flag("baseline", "measure the machine's idle memory for 10 s"),
         text_flag("plot", "FILE", "draw memory over time (FILE.svg, FILE.html)").repeatable()}},
       {"Options", {color_flag().rare()}}});
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
      .run = run_with_flags<top_verb, show_top>,
  };
  return kVerb;
}

const Verb& watch_verb() {
  static const Verb kVerb{
      .name = "watch",
      .summary = "Log the machine's memory over time",
      .usage = "headroom watch [FLAGS] [-- COMMAND …]",
      .description =
          "Samples the machine's memory, swap, pressure, processors, GPU, temperatures and power at a steady "
          "pace. Prints the samples and can also write a log. Ends with the minimum, mean, maximum and slope "
          "of each figure, and with memory over time. Can follow a command, or processes by number or name, "
          "including their children. Also reads saved output of tegrastats, nvidia-smi or /proc/meminfo. A "
          "figure that a source does not report is left out, never logged as zero (docs/watch.md, "
          "docs/monitor-sources.md).",
      .examples = {"headroom watch",
                   "headroom watch --interval 100ms --output run.jsonl.gz -- python3 infer.py",
                   "headroom watch --baseline",
                   "headroom watch --from tegrastats:stats.log --plot memory.svg"},
      .flags = watch_flags(),
      .positional = "COMMAND",
      .run = watch_figures,
  };
  return kVerb;
}

}  // namespace headroom::cli
