// From words to values, with CLI11. Only this file knows it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/text.h"
#include "cli/flag_table.h"

namespace headroom::cli {
namespace {

// Every spelling of a flag: its name and aliases, with dashes and with underscores, and its letter.
std::string spellings(const Flag& flag) {
  std::vector<std::string> names{flag.name};
  names.insert(names.end(), flag.aliases.begin(), flag.aliases.end());
  std::string text;
  for (const std::string& name : names) {
    std::string underscored = name;
    std::replace(underscored.begin(), underscored.end(), '-', '_');
    text += fmt::format("{}--{}", text.empty() ? "" : ",", name);
    if (underscored != name) text += fmt::format(",--{}", underscored);
  }
  if (flag.short_name != 0) text += fmt::format(",-{}", flag.short_name);
  return text;
}

tl::unexpected<Error> unknown_word(const Verb& verb, const std::string& word) {
  std::string name = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  name = name.substr(0, name.find('='));
  std::replace(name.begin(), name.end(), '_', '-');
  std::vector<std::string> names;
  for (const Flag& flag : verb.flags) names.push_back(flag.name);
  const std::string closest = closest_match(name, names);
  const std::string what = word.starts_with("-")
                               ? fmt::format("headroom {}: unknown flag {}", verb.name, word)
                               : fmt::format("headroom {}: unexpected argument '{}'", verb.name, word);
  return usage_error(what, "",
                     closest.empty() ? fmt::format("headroom help {} lists all flags", verb.name)
                                     : fmt::format("did you mean --{}?", closest));
}

// "--sysroot DIR".
std::string with_its_value(const Flag& flag) {
  return fmt::format("--{} {}", flag.name, flag.value_name.empty() ? "VALUE" : flag.value_name);
}

// CLI11 names the flag by its first spelling: "--sysroot: 1 required TEXT missing".
tl::unexpected<Error> missing_value(const Verb& verb, std::string_view problem) {
  const std::string_view spelling = problem.substr(0, problem.find(':'));
  const Flag* flag = spelling.starts_with("--") ? find_flag(verb, spelling.substr(2)) : nullptr;
  if (flag == nullptr)
    return usage_error(fmt::format("a flag of headroom {} needs a value", verb.name), std::string(problem),
                       fmt::format("headroom help {} shows the syntax", verb.name));
  return usage_error(fmt::format("--{} needs a value", flag->name), with_its_value(*flag));
}

// As its kind demands, with how the flag is written where the kind knows no better fix.
Status check_given(const Flag& flag, const std::string& value) {
  auto checked = check_value(flag, value);
  if (!checked && (value.empty() || checked.error().fix.empty()) && flag.kind != FlagKind::choice)
    checked.error().fix = "write " + with_its_value(flag);
  return checked;
}

}  // namespace

Result<FlagValues> parse_flags(const Verb& verb, const std::vector<std::string>& arguments) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::map<std::string, std::vector<std::string>> texts;
  std::map<std::string, bool> toggles;
  for (const Flag& flag : verb.flags) {
    if (flag.kind == FlagKind::toggle) {
      app.add_flag(spellings(flag), toggles[flag.name]);
      continue;
    }
    // One value each time; several times keeps all here, and the last one wins where only one is wanted.
    app.add_option(spellings(flag), texts[flag.name])->expected(1)->take_all()->allow_extra_args(false);
  }
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(std::move(reversed));
  } catch (const CLI::ArgumentMismatch& problem) {
    return missing_value(verb, problem.what());
  } catch (const CLI::ParseError& problem) {
    return usage_error(fmt::format("cannot parse the command line of headroom {}", verb.name),
                       problem.what());
  }

  FlagValues values;
  bool after_dashes = false;  // what follows "--" is no flag
  for (const std::string& word : app.remaining()) {
    if (word == "--" && !after_dashes && !verb.positional.empty()) {
      after_dashes = true;
      continue;
    }
    const bool is_flag = word.size() > 1 && word.front() == '-' && !after_dashes;
    if (is_flag || verb.positional.empty()) return unknown_word(verb, word);
    if (word.empty())
      return usage_error(fmt::format("headroom {}: an argument is empty", verb.name), "",
                         "check for an unset shell variable");
    values.positionals_.push_back(word);
  }
  for (const Flag& flag : verb.flags) {
    if (flag.kind == FlagKind::toggle) {
      if (toggles[flag.name]) values.entries_[flag.name] = {{"true"}, "command line"};
      continue;
    }
    const auto& given = texts[flag.name];
    if (given.empty()) continue;
    for (const std::string& value : given)
      if (auto checked = check_given(flag, value); !checked) return forward_error(checked);
    values.entries_[flag.name] = {given, "command line"};
  }
  return values;
}

}  // namespace headroom::cli
