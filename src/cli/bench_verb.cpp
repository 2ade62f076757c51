#include "cli/verbs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/files.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/text.h"
#include "bench/conductor/bench.h"
#include "cli/bench_flags.h"
#include "cli/config_file.h"
#include "cli/environment.h"
#include "cli/exit_code.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

// Configuration file < environment < command line.
Result<FlagValues> merge(const FlagValues& command_line) {
  std::vector<std::string> unknown;
  auto environment = read_environment(bench_verb(), unknown);
  if (!environment) return environment;
  for (const std::string& name : unknown)
    log::warning("{} is ignored: headroom bench has no such flag", name);
  std::string file = command_line.text("config");
  if (file.empty()) file = environment->text("config");
  if (!command_line.positionals().empty()) {
    if (command_line.positionals().size() > 1 || !file.empty())
      return usage_error("more than one configuration file was given", "",
                         "use one file, either with --config or as an argument");
    file = command_line.positionals().front();
  }
  FlagValues values;
  if (!file.empty()) {
    auto config = read_config_file(bench_verb(), file);
    if (!config) return config;
    values = std::move(*config);
  }
  override_with(values, *environment);
  override_with(values, command_line);
  values.entries_.erase("config");
  return values;
}

// Before anything is measured, and before a run folder is made: a folder that cannot be written is wrong use.
Status check_writable(const std::string& folder, const std::string& flag) {
  const fs::path probe = fs::path(folder) / fmt::format(".headroom-{}", ::getpid());
  Status status = make_folder(folder);
  if (status) status = write_file_atomically(probe, "");
  std::error_code ignored;
  fs::remove(probe, ignored);
  if (status) return {};
  return usage_error(fmt::format("cannot write to {}", folder), status.error().why,
                     fmt::format("choose a writable folder with --{}", flag));
}

// As many runs as --repeat says, each with a folder of its own. A model that fails fails its run, and the
// next one is made all the same; wrong use, an interruption and a setup that failed end them all.
Result<int> make_runs(const BenchOptions& options, const std::string& command,
                      const std::vector<std::string>& warnings) {
  int worst = 0;
  for (int number = 1; number <= options.repeat; ++number) {
    if (options.repeat > 1) log::info("run {} of {}", number, options.repeat);
    auto code = bench::run_bench(options, command, warnings);
    if (!code || *code > 1) return code;
    worst = std::max(worst, *code);
  }
  return worst;
}

Result<int> run_bench(const std::vector<std::string>& arguments) {
  auto command_line = parse_flags(bench_verb(), arguments);
  if (!command_line) return forward_error(command_line);
  auto values = merge(*command_line);
  if (!values) return forward_error(values);
  if (values->toggle("dump-config")) {
    values->entries_.erase("dump-config");
    make_paths_absolute(*values);
    print_output(to_toml(bench_verb(), *values));
    return 0;
  }
  std::vector<std::string> warnings;
  auto options = bench_options_from(*values, warnings);
  if (!options) return forward_error(options);
  if (options->verbose) log::set_console_level(log::Level::debug);
  if (options->quiet) log::set_console_level(log::Level::error);
  if (auto writable = check_writable(options->output_dir, "output-dir"); !writable)
    return forward_error(writable);
  if (!options->skip_setup)
    if (auto writable = check_writable(options->prepared_dir, "prepared-dir"); !writable)
      return forward_error(writable);
  // For the plug-in onnxruntime_tensorrt, in every child: engines are kept where the setup phase keeps its
  // data.
  std::error_code code;
  const fs::path engines = fs::absolute(fs::path(options->prepared_dir) / "engines", code);
  if (!code) ::setenv("HEADROOM_ENGINE_CACHE", engines.c_str(), 0);
  std::vector<std::string> command{"headroom", "bench"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return make_runs(*options, shell_command(command), warnings);
}

}  // namespace

int run_bench_verb(const std::vector<std::string>& arguments) { return exit_code_of(run_bench(arguments)); }

}  // namespace headroom::cli
