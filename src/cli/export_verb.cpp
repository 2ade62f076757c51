#include "cli/verbs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/log.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/common_flags.h"
#include "cli/exit_code.h"
#include "cli/views.h"
#include "exporters/exporter_list.h"
#include "recording/recording.h"
#include "report/recording/recording_words.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const exporters::Exporter& exporter : exporters::exporter_list()) names.emplace_back(exporter.name);
  return names;
}

std::vector<std::string_view> formats_with_gpu_memory() {
  std::vector<std::string_view> names;
  for (const exporters::Exporter& exporter : exporters::exporter_list())
    if (exporter.has_gpu_memory) names.push_back(exporter.name);
  return names;
}

constexpr exporters::Metric kMetricChoices[] = {exporters::Metric::peak, exporters::Metric::leaked,
                                                exporters::Metric::temporary, exporters::Metric::allocated};

std::optional<exporters::Metric> metric_of(const FlagValues& values) {
  for (const exporters::Metric metric : kMetricChoices)
    if (values.text("metric") == name_of(metric)) return metric;
  return std::nullopt;
}

// "run.hrec" becomes "run.speedscope.json", beside it.
fs::path output_beside(fs::path recording, std::string_view extension) {
  return recording.replace_extension(extension);
}

Status check(const fs::path& file, const fs::path& out, const exporters::Exporter& exporter,
             const FlagValues& values) {
  if (values.has("metric") && !exporter.takes_metric)
    return usage_error(fmt::format("--metric has no effect with --to {}", exporter.name),
                       "this format has all metrics", "remove --metric");
  return out == "-" ? Status{} : check_output(out, file, "--out");
}

Result<int> export_recording(const std::vector<std::string>& arguments) {
  auto values = parse_flags(export_verb(), arguments);
  if (!values) return forward_error(values);
  if (values->positionals().size() != 1 || !values->has("to"))
    return usage_error("headroom export needs one recording and a format",
                       fmt::format("--to {}", fmt::join(format_names(), "|")),
                       "write headroom export run.hrec --to speedscope");
  const fs::path file = values->positionals().front();
  const exporters::Exporter& exporter = *exporters::find_exporter(values->text("to"));
  const fs::path out =
      values->has("out") ? fs::path(values->text("out")) : output_beside(file, exporter.extension);
  if (auto fine = check(file, out, exporter, *values); !fine) return forward_error(fine);

  auto options = symbolizer_options(*values);
  if (!options) return forward_error(options);
  auto recording = recording::Recording::open(file);
  if (!recording) return forward_error(recording);
  if (!recording->info().host_recorded && !exporter.has_gpu_memory)
    return usage_error(fmt::format("--to {} does not support GPU memory", exporter.name),
                       fmt::format("{} has GPU memory only (--only gpu)", file.string()),
                       fmt::format("use --to {}", fmt::join(formats_with_gpu_memory(), ", or ")));
  symbols::Symbolizer symbolizer(recording->info().modules, std::move(*options));
  auto sink = exporters::OutputSink::open(out);
  if (!sink) return forward_error(sink);
  if (auto written = exporter.write({*recording, symbolizer, file.string(), metric_of(*values)}, *sink);
      !written)
    return forward_error(written);
  if (auto finished = sink->finish(); !finished) return forward_error(finished);
  for (const std::string& part : report::missing_parts(*recording)) log::warning("{}", part);
  warn_of_missing_symbols(symbolizer.problems());
  if (out == "-") return 0;
  print_output(fmt::format("{} ({})\n\n{}\n", out.string(),
                           format_bytes({static_cast<std::int64_t>(sink->bytes())}),
                           fmt::format(fmt::runtime(exporter.next), shell_word(out.string()))));
  return 0;
}

std::string formats_paragraph() {
  std::string text = "Converts a recording of headroom trace for other tools.";
  for (const exporters::Exporter& exporter : exporters::exporter_list())
    text += fmt::format(" {}: {}.", exporter.name, exporter.summary);
  return text;
}

}  // namespace

const Verb& export_verb() {
  static const Verb kVerb = [] {
    Verb verb;
    verb.name = "export";
    verb.summary = "Convert a recording for other tools: speedscope, flamegraph, …";
    verb.usage = "headroom export FILE.hrec --to FORMAT [FLAGS]";
    verb.description = formats_paragraph();
    verb.examples = {"headroom export run.hrec --to speedscope",
                     "headroom export run.hrec --to collapsed --metric leaked --out -"};
    verb.positional = "FILE.hrec";
    Flag to = choice_flag("to", format_names(), "output format").with_default("");
    to.value_name = "FORMAT";
    std::vector<std::string> metrics;
    for (const exporters::Metric metric : kMetricChoices) metrics.emplace_back(name_of(metric));
    verb.flags = {
        to, text_flag("out", "FILE", "write to FILE; - is standard output").with_default("next to FILE.hrec"),
        symbols_flag(), choice_flag("metric", metrics, "metric to export for each stack")};
    return verb;
  }();
  return kVerb;
}

int run_export_verb(const std::vector<std::string>& arguments) {
  return exit_code_of(export_recording(arguments));
}

}  // namespace headroom::cli
