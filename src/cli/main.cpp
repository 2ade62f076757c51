#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "base/terminal.h"
#include "cli/exit_code.h"
#include "cli/flag_help.h"
#include "cli/process_verbs.h"
#include "cli/verbs.h"

namespace {

using namespace headroom;
using namespace headroom::cli;

// Among Headroom's own words: what follows "--" is another program's.
bool contains(const std::vector<std::string>& words, std::string_view word) {
  const auto end = std::find(words.begin(), words.end(), "--");
  return std::find(words.begin(), end, word) != end;
}

int run_program(const std::vector<std::string>& words) {
  if (words.empty())
    return exit_code_of(Error{ErrorKind::usage, "headroom needs a verb", "", "headroom -h lists all verbs"});
  const std::string& first = words.front();
  if (first == "-h" || first == "--help") return run_help_verb({});
  if (first == "--version") {
    print_output(fmt::format("headroom {}\n", HEADROOM_VERSION));
    return 0;
  }
  const std::vector<std::string> arguments(words.begin() + 1, words.end());
  for (const VerbEntry& entry : verb_list()) {
    if (entry.verb.name != first) continue;
    if (contains(arguments, "--help")) return run_help_verb({first});
    if (!contains(arguments, "-h")) return entry.run(arguments);
    print_output(short_help(entry.verb));
    return 0;
  }
  return run_help_verb({first});  // names the closest verb and fails
}

// Started with a standard descriptor closed (`headroom … >&-`), the next file opened would take its number
// and receive what is printed. The null device takes it, opened the other way round, so that its use still
// fails.
void occupy_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0) [[maybe_unused]]
      const int taken = ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

// What no verb foresaw is still one sentence and the exit code of an internal fault.
int run_guarded(const std::vector<std::string>& words) {
  try {
    return run_program(words);
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
  const std::vector<std::string> words(arguments + 1, arguments + count);
  // Headroom's own children: they have protocols of their own, and an unforeseen end of them is a crash.
  if (!words.empty())
    if (const auto code = run_process_verb(words.front(), {words.begin() + 1, words.end()})) return *code;
  const int code = run_guarded(words);
  const Status printed = output_status();
  if (printed) return code;
  const int output_code = exit_code_of(printed.error());
  return code != 0 ? code : output_code;
}
