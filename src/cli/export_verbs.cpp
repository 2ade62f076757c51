#include <fmt/format.h>

#include "base/log.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/common_flags.h"
#include "cli/verbs.h"
#include "exporters/exporter_list.h"
#include "recording/recording.h"
#include "report/recording/recording_words.h"
#include "symbols/symbolizer.h"
#include "trace/recording_files.h"
#include "types/enum_names.h"

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

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const exporters::Metric metric : kMetricChoices) names.emplace_back(name_of(metric));
  return names;
}

Result<int> export_recording(const FlagValues& values) {
  if (values.positionals().size() != 1 || !values.has("to"))
    return usage_error("headroom export needs one recording and a format",
                       fmt::format("--to {}", fmt::join(format_names(), "|")),
                       "write headroom export run.hrec --to speedscope");
  const fs::path file = values.positionals().front();
  const exporters::Exporter& exporter = *exporters::find_exporter(values.text("to"));
  fs::path out = fs::path(file).replace_extension(exporter.extension);  // run.speedscope.json beside run.hrec
  values.read("out", out);
  if (values.has("metric") && !exporter.takes_metric)
    return usage_error(fmt::format("--metric has no effect with --to {}", exporter.name),
                       "this format has all metrics", "remove --metric");
  if (out != "-")
    if (auto fine = check_output(out, file, "--out"); !fine) return forward_error(fine);

  auto options = symbolizer_options(values);
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
  if (auto written = exporter.write({*recording, symbolizer, file.string(),
                                     find_named(values.text("metric"), exporters::Metric::allocated)},
                                    *sink);
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

Result<int> collect_symbols(const FlagValues& values) {
  if (values.positionals().size() != 1 || !values.has("out"))
    return usage_error("headroom symbols needs one recording and --out DIR", "",
                       "write headroom symbols run.hrec --out symbols");
  const fs::path root = values.positionals().front();
  auto own = recording::Recording::open(root);
  if (!own) return forward_error(own);
  std::vector<recording::Module> modules = own->info().modules;
  for (const trace::RecordingFile& file : trace::find_recordings(root)) {
    if (file.path == root) continue;
    const auto recording = recording::Recording::open(file.path);
    if (!recording) {
      log::warning("{}", recording.error().sentence());
      continue;
    }
    const auto& seen = recording->info().modules;
    modules.insert(modules.end(), seen.begin(), seen.end());
  }
  auto options = symbolizer_options(values);
  if (!options) return forward_error(options);
  options->sysroot = values.text("sysroot");
  const fs::path out = values.text("out");
  auto carried = symbols::carry_symbols(modules, *options, out);
  if (!carried) return forward_error(carried);
  for (const std::string& problem : carried->problems) log::warning("{}", problem);
  print_output(fmt::format("{} modules, {} files in {} ({} copied now)\n\nheadroom report {} --symbols {}\n",
                           carried->modules, carried->files, out.string(), format_bytes(carried->copied),
                           shell_word(root.string()), shell_word(out.string())));
  return 0;
}

}  // namespace

const Verb& export_verb() {
  static const Verb kVerb{
      .name = "export",
      .summary = "Convert a recording for other tools: speedscope, flamegraph, …",
      .usage = "headroom export FILE.hrec --to FORMAT [FLAGS]",
      .description = formats_paragraph(),
      .examples = {"headroom export run.hrec --to speedscope",
                   "headroom export run.hrec --to collapsed --metric leaked --out -"},
      .flags =
          {choice_flag("to", format_names(), "output format", "FORMAT").with_default(""),
           text_flag("out", "FILE", "write to FILE; - is standard output").with_default("next to FILE.hrec"),
           symbols_flag(), choice_flag("metric", metric_names(), "metric to export for each stack")},
      .positional = "FILE.hrec",
      .run = run_with_flags<export_verb, export_recording>,
  };
  return kVerb;
}

const Verb& symbols_verb() {
  static const Verb kVerb{
      .name = "symbols",
      .summary = "Collect the symbol files that a recording's functions need",
      .usage = "headroom symbols FILE.hrec --out DIR [FLAGS]",
      .description =
          "Copies the programs and libraries of a recording, with their debug files, into a folder sorted by "
          "build id. Take the folder and the recording to another machine. There, read the recording with "
          "--symbols DIR.",
      .examples = {"headroom symbols run.hrec --out run.symbols",
                   "headroom report run.hrec --symbols run.symbols"},
      .flags = {text_flag("out", "DIR", "folder to fill; existing files stay"),
                symbols_flag("also search DIR for symbol files"),
                text_flag("sysroot", "DIR", "look up the recorded paths under DIR")},
      .positional = "FILE.hrec",
      .run = run_with_flags<symbols_verb, collect_symbols>,
  };
  return kVerb;
}

}  // namespace headroom::cli
