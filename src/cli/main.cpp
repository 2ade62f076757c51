#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <exception>

#include "base/terminal.h"
#include "base/text.h"
#include "bench/conductor/bench.h"
#include "bench/conductor/setup_phase.h"
#include "bench/processes.h"
#include "cli/flag_help.h"
#include "cli/installed_parts.h"
#include "cli/verbs.h"
#include "limits/memory_limit.h"

namespace {

using namespace headroom;
using namespace headroom::cli;
using Words = std::vector<std::string>;

// A program that Headroom starts as its own child (bench/processes.h). These verbs are not for people.
struct ProcessVerb {
  std::string_view name;
  int (*run)(const Words& arguments);
};

std::string value_after(const Words& arguments, std::string_view flag) {
  const auto found = std::ranges::find(arguments, flag);
  return found == arguments.end() || found + 1 == arguments.end() ? "" : *(found + 1);
}

int run_probe(const Words& arguments) {
  return limits::run_limit_probe(
      value_after(arguments, "--route"),
      Bytes{parse_number<std::int64_t>(value_after(arguments, "--target")).value_or(0)});
}

constexpr ProcessVerb kProcessVerbs[] = {
    {"_worker", [](const Words&) { return bench::run_worker(); }},
    {"_decode", [](const Words& words) { return bench::run_decode_process(words.empty() ? "" : words[0]); }},
    {"_setup", [](const Words&) { return bench::run_setup_process(); }},
    {"_scan", [](const Words&) { return bench::run_scan_process(); }},
    {"_fingerprint", [](const Words&) { return bench::run_fingerprint_process(); }},
    {"_layers", [](const Words&) { return bench::run_layers_process(); }},
    {"_gpu_probe", [](const Words&) { return bench::run_gpu_probe_process(); }},
    {"_gpu_metrics",
     [](const Words& words) { return bench::run_gpu_metrics_process(words == Words{"--spared"}); }},
    {"_build_engine", [](const Words&) { return bench::run_build_engine_process(); }},
    {"_score", [](const Words&) { return bench::run_score_process(); }},
    {"_annotate", [](const Words&) { return bench::run_annotate_process(); }},
    {"_probe", run_probe}};

// Among Headroom's own words: those after "--" belong to another program.
bool contains(const Words& words, std::string_view word) {
  const auto end = std::ranges::find(words, "--");
  return std::find(words.begin(), end, word) != end;
}

Result<int> run_program(const Words& words) {
  if (words.empty()) return usage_error("headroom needs a verb", "", "headroom -h lists all verbs");
  const std::string& first = words.front();
  if (first == "-h" || first == "--help") return help_verb().run({});
  const Words arguments(words.begin() + 1, words.end());
  if (first == "--version") {
    print_output(fmt::format("headroom {}\n", HEADROOM_VERSION));
    if (contains(arguments, "--verbose")) print_output(installed_parts_text());
    return 0;
  }
  const auto verb = std::ranges::find(verb_list(), first, &Verb::name);
  // help names the closest verb of an unknown one, and fails
  if (verb == verb_list().end() || contains(arguments, "--help")) return help_verb().run({first});
  if (!contains(arguments, "-h")) return (*verb)->run(arguments);
  print_output(short_help(**verb));
  return 0;
}

// Started with a standard descriptor closed (`headroom … >&-`), the next file opened would take its number
// and receive the output. The null device takes it, opened the other way round, so that its use still fails.
void occupy_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0) [[maybe_unused]]
      const int taken = ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

// An unexpected exception is still one sentence and the exit code of an internal fault.
int run_guarded(const Words& words) {
  try {
    return exit_code_of(run_program(words));
  } catch (const std::exception& fault) {
    return exit_code_of(Error{ErrorKind::internal, "internal error in headroom", fault.what(), ""});
  }
}

}  // namespace

int main(int count, char** arguments) {
  occupy_standard_descriptors();
  // A closed pipe (`headroom … | head`) is not an error: print_output takes note of it and the verb goes on.
  ::signal(SIGPIPE, SIG_IGN);
  // A limit on file sizes (ulimit -f) is an error of the write, which each writer says in words.
  ::signal(SIGXFSZ, SIG_IGN);
  const Words words(arguments + 1, arguments + count);
  // Headroom's own children have protocols of their own, and an unexpected end of them is a crash.
  for (const ProcessVerb& verb : kProcessVerbs)
    if (!words.empty() && words.front() == verb.name) return verb.run({words.begin() + 1, words.end()});
  const int code = run_guarded(words);
  const Status printed = output_status();
  if (printed) return code;
  const int output_code = exit_code_of(printed.error());
  return code != 0 ? code : output_code;
}
