#include "cli/symbols_verb.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/log.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/common_flags.h"
#include "cli/exit_code.h"
#include "recording/recording.h"
#include "symbols/carry_symbols.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

// The recording itself, and those of the processes that it started (FILE.d/PID-GENERATION.hrec).
std::vector<fs::path> recordings_of(const fs::path& root) {
  std::vector<fs::path> files{root};
  fs::path folder = root;
  folder += ".d";
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().extension() == ".hrec") files.push_back(entry->path());
  std::sort(files.begin() + 1, files.end());
  return files;
}

Result<int> run(const std::vector<std::string>& arguments) {
  auto values = parse_flags(symbols_verb(), arguments);
  if (!values) return forward_error(values);
  if (values->positionals().size() != 1 || !values->has("out"))
    return usage_error("headroom symbols needs one recording and --out DIR", "",
                       "write headroom symbols run.hrec --out symbols");
  const fs::path root = values->positionals().front();
  std::vector<recording::Module> modules;
  for (const fs::path& file : recordings_of(root)) {
    const auto recording = recording::Recording::open(file);
    if (!recording && file == root) return tl::unexpected<Error>(recording.error());
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
  static const Verb kVerb = [] {
    Verb verb;
    verb.name = "symbols";
    verb.summary = "Collect the symbol files that a recording's functions need";
    verb.usage = "headroom symbols FILE.hrec --out DIR [FLAGS]";
    verb.description =
        "Copies the programs and libraries of a recording, with their debug files, into a folder sorted by "
        "build id. Take the folder and the recording to another machine. There, read the recording with "
        "--symbols DIR.";
    verb.examples = {"headroom symbols run.hrec --out run.symbols",
                     "headroom report run.hrec --symbols run.symbols"};
    verb.positional = "FILE.hrec";
    verb.flags = {make_flag("out", FlagKind::text, "DIR", "folder to fill; existing files stay"),
                  symbols_flag("also search DIR for symbol files"),
                  make_flag("sysroot", FlagKind::text, "DIR", "look up the recorded paths under DIR")};
    return verb;
  }();
  return kVerb;
}

int run_symbols_verb(const std::vector<std::string>& arguments) { return exit_code_of(run(arguments)); }

}  // namespace headroom::cli
