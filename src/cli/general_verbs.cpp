#include "cli/verbs.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/terminal.h"
#include "base/text.h"
#include "cli/exit_code.h"
#include "cli/flag_help.h"

namespace headroom::cli {
namespace {

std::vector<const Verb*> visible_verbs() {
  std::vector<const Verb*> verbs;
  for (const VerbEntry& entry : verb_list())
    if (!entry.verb.hidden) verbs.push_back(&entry.verb);
  return verbs;
}

Verb simple_verb(std::string name, std::string summary, std::string usage, std::string positional,
                 std::vector<std::string> examples) {
  Verb verb;
  verb.name = std::move(name);
  verb.summary = std::move(summary);
  verb.usage = std::move(usage);
  verb.positional = std::move(positional);
  verb.examples = std::move(examples);
  return verb;
}

int report_unknown_flag(const std::string& flag) {
  const std::string name = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  const std::string closest = closest_match(name, {"help", "version"});
  return exit_code_of(
      Error{ErrorKind::usage, fmt::format("unknown flag {}", flag), "",
            closest.empty() ? "headroom -h lists all verbs" : fmt::format("did you mean --{}?", closest)});
}

}  // namespace

const Verb& help_verb() {
  static const Verb kVerb = simple_verb("help", "Show the full help of a verb", "headroom help [VERB]",
                                        "VERB", {"headroom help bench"});
  return kVerb;
}

int run_help_verb(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    print_output(program_help(visible_verbs()));
    return 0;
  }
  std::vector<std::string> names;
  for (const Verb* verb : visible_verbs()) {
    if (verb->name == arguments.front()) {
      print_output(long_help(*verb));
      return 0;
    }
    names.push_back(verb->name);
  }
  if (arguments.front().starts_with('-')) return report_unknown_flag(arguments.front());
  const std::string closest = closest_match(arguments.front(), names);
  return exit_code_of(
      Error{ErrorKind::usage, fmt::format("unknown verb '{}'", arguments.front()), "",
            closest.empty() ? "headroom -h lists all verbs" : fmt::format("did you mean '{}'?", closest)});
}

const Verb& generate_verb() {
  static const Verb kVerb = simple_verb(
      "generate", "Print the man page or shell completions", "headroom generate man|bash|zsh|fish", "WHAT",
      {"headroom generate man > headroom.1", "headroom generate bash > headroom.bash"});
  return kVerb;
}

int run_generate_verb(const std::vector<std::string>& arguments) {
  const std::string what = arguments.size() == 1 ? arguments.front() : "";
  const auto verbs = visible_verbs();
  if (what == "man")
    print_output(man_page(verbs));
  else if (what == "bash")
    print_output(bash_completion(verbs));
  else if (what == "zsh")
    print_output(zsh_completion(verbs));
  else if (what == "fish")
    print_output(fish_completion(verbs));
  else
    return exit_code_of(Error{
        ErrorKind::usage, fmt::format("headroom generate: unknown output '{}'", fmt::join(arguments, " ")),
        "", "use man, bash, zsh or fish"});
  return 0;
}

}  // namespace headroom::cli
