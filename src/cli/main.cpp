#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/flag_help.h"
#include "cli/general_verbs.h"
#include "cli/process_verbs.h"
#include "cli/verb_list.h"

namespace {

using namespace headroom::cli;

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

int run(const std::vector<std::string>& words) {
  if (words.empty()) {
    std::fputs("error: headroom needs a verb; headroom -h lists them\n", stderr);
    return 2;
  }
  const std::string& first = words.front();
  if (first == "-h" || first == "--help") return run_help_verb({});
  if (first == "--version") {
    fmt::print("headroom {}\n", HEADROOM_VERSION);
    return 0;
  }
  const std::vector<std::string> arguments(words.begin() + 1, words.end());
  if (const auto code = run_process_verb(first, arguments)) return *code;
  for (const VerbEntry& entry : verb_list()) {
    if (entry.verb.name != first) continue;
    if (contains(arguments, "--help")) return run_help_verb({first});
    if (!contains(arguments, "-h")) return entry.run(arguments);
    fmt::print("{}", short_help(entry.verb));
    return 0;
  }
  return run_help_verb({first});  // names the closest verb and fails
}

}  // namespace

int main(int count, char** arguments) {
  // A closed pipe (`headroom … | head`) is not an error: the write fails and the command ends quietly.
  ::signal(SIGPIPE, SIG_IGN);
  const int code = run(std::vector<std::string>(arguments + 1, arguments + count));
  const bool flushed = std::fflush(stdout) == 0;
  return code == 0 && !flushed && errno != EPIPE ? 3 : code;
}
