#include "cli/verbs.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/log.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/common_flags.h"
#include "cli/exit_code.h"
#include "recording/recording.h"
#include "symbols/carry_symbols.h"
#include "trace/recording_files.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

Result<int> collect_symbols(const std::vector<std::string>& arguments) {
  auto values = parse_flags(symbols_verb(), arguments);
  if (!values) return forward_error(values);
  if (values->positionals().size() != 1 || !values->has("out"))
    return usage_error("headroom symbols needs one recording and --out DIR", "",
                       "write headroom symbols run.hrec --out symbols");
  const fs::path root = values->positionals().front();
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
  auto options = symbolizer_options(*values);
  if (!options) return forward_error(options);
  options->sysroot = values->text("sysroot");
  const fs::path out = values->text("out");
  const auto carried = symbols::carry_symbols(modules, *options, out);
  if (!carried) return tl::unexpected<Error>(carried.error());
  for (const std::string& problem : carried->problems) log::warning("{}", problem);
  print_output(fmt::format("{} modules, {} files in {} ({} copied now)\n\nheadroom report {} --symbols {}\n",
                           carried->modules, carried->files, out.string(), format_bytes(carried->copied),
                           shell_word(root.string()), shell_word(out.string())));
  return 0;
}

}  // namespace

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
  };
  return kVerb;
}

int run_symbols_verb(const std::vector<std::string>& arguments) {
  return exit_code_of(collect_symbols(arguments));
}

}  // namespace headroom::cli
