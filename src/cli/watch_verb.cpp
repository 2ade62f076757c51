#include "cli/watch_verb.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "cli/common_flags.h"
#include "cli/exit_code.h"
#include "cli/wrapped_command.h"
#include "sources/text_samples.h"
#include "watch/run_watch.h"

namespace headroom::cli {
namespace {

// "tegrastats:FILE"
Result<watch::TextInput> text_input_from(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const auto& kinds = sources::text_reader_names();
  if (colon == text.npos || colon + 1 == text.size() ||
      std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
    const std::string closest = closest_match(kind, kinds);
    return usage_error(fmt::format("--from {} names no text", text),
                       fmt::format("it is KIND:FILE, and a kind is one of {}", fmt::join(kinds, ", ")),
                       closest.empty() ? "give tegrastats:FILE, or tegrastats:- for a pipe"
                                       : fmt::format("did you mean {}:FILE?", closest));
  }
  return watch::TextInput{kind, text.substr(colon + 1)};
}

Result<watch::WatchOptions> options_from(const std::vector<std::string>& arguments) {
  auto wrapped = parse_wrapped_command(watch_verb(), arguments, "headroom watch --");
  if (!wrapped) return forward_error(wrapped);
  const FlagValues values = wrapped->merged();
  watch::WatchOptions options;
  if (values.has("from")) {
    auto input = text_input_from(values.text("from"));
    if (!input) return forward_error(input);
    options.from = std::move(*input);
  }
  if (values.has("interval")) options.interval = *parse_duration(values.text("interval"));
  const std::string alerts = values.has("alerts") ? values.text("alerts") : "off";
  if (alerts == "default") options.alerts = watch::default_alert_settings();
  if (alerts != "default" && alerts != "off") {
    auto rules = watch::read_alert_rules(alerts);
    if (!rules) return forward_error(rules);
    options.alerts = std::move(*rules);
  }
  if (values.toggle("jsonl")) options.format = watch::Format::jsonl;
  return options;
}

std::vector<Flag> watch_flags() {
  Flag interval = make_flag("interval", FlagKind::duration, "TIME", "between samples");
  interval.default_text = "1s";
  interval.minimum = 1e6;
  interval.maximum = 86400e9;
  return {make_flag("from", FlagKind::text, "KIND:FILE",
                    "read what tegrastats, nvidia-smi or meminfo printed (FILE or -)"),
          std::move(interval),
          make_flag("alerts", FlagKind::text, "FILE|default|off", "rules of a TOML file (docs/alerts.md)"),
          make_flag("jsonl", FlagKind::toggle, "", "print an object a sample")};
}

}  // namespace

const Verb& watch_verb() {
  static const Verb kVerb = [] {
    Verb verb;
    verb.name = "watch";
    verb.summary = "Log the memory of the machine";
    verb.usage = "headroom watch --from KIND:FILE [FLAGS]";
    verb.description =
        "Reads a log of tegrastats (all Jetson generations), of nvidia-smi or dumps of /proc/meminfo, and "
        "prints a "
        "line or a JSON object a sample. What is not understood is kept and counted; what is not told is "
        "absent, "
        "never zero (docs/watch.md, docs/monitor-sources.md).";
    verb.examples = {"headroom watch --from tegrastats:stats.log",
                     "tegrastats | headroom watch --from tegrastats:- --jsonl",
                     "headroom watch --from nvidia-smi:gpu_log.csv --jsonl"};
    verb.flags = watch_flags();
    return verb;
  }();
  return kVerb;
}

int run_watch_verb(const std::vector<std::string>& arguments) {
  auto options = options_from(arguments);
  if (!options) return exit_code_of(options.error());
  if (!options->from)
    return exit_code_of(
        Error{ErrorKind::usage, "headroom watch needs a text", "", "give --from tegrastats:FILE"});
  return exit_code_of(watch::run_watch(*options));
}

}  // namespace headroom::cli
