// Values of flags from words (with CLI11, which only this file knows) and from the environment.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iterator>

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
    std::ranges::replace(underscored, '-', '_');
    text += fmt::format("{}--{}", text.empty() ? "" : ",", name);
    if (underscored != name) text += fmt::format(",--{}", underscored);
  }
  if (flag.short_name != 0) text += fmt::format(",-{}", flag.short_name);
  return text;
}

tl::unexpected<Error> unknown_word(const Verb& verb, const std::string& word) {
  std::string name = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  name = name.substr(0, name.find('='));
  std::ranges::replace(name, '_', '-');
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

constexpr std::string_view kPrefix = "HEADROOM_";
// Variables that are not flags. A unit test compares this list with the sources, scripts and tests.
constexpr std::array<std::string_view, 26> kNotFlags{
    // Folders of plug-ins and runtimes, options of the preload library, the database of `headroom history`.
    "HEADROOM_BACKEND_PATH", "HEADROOM_ONNXRUNTIME", "HEADROOM_TENSORRT", "HEADROOM_ENGINE_CACHE",
    "HEADROOM_MEMORY_TRACER_LIBRARY", "HEADROOM_TRACER", "HEADROOM_TRACE_FILE", "HEADROOM_TRACE_OPTIONS",
    "HEADROOM_HISTORY",
    // What a command of an alert gets.
    "HEADROOM_ALERT", "HEADROOM_ALERT_STATE", "HEADROOM_ALERT_SEVERITY", "HEADROOM_ALERT_FIGURE",
    "HEADROOM_ALERT_VALUE",
    // Builds, tests and benchmarks of Headroom itself.
    "HEADROOM_BIN", "HEADROOM_CORE_HEADERS", "HEADROOM_DEPS_DIR", "HEADROOM_EXACT_VERSIONS",
    "HEADROOM_LIBTORCH_DIR", "HEADROOM_MODELS", "HEADROOM_PLANTED_BYTES", "HEADROOM_PLANTED_LIBRARY",
    "HEADROOM_PLANTED_SLOWDOWN", "HEADROOM_SHARED_DATA", "HEADROOM_UPDATE_GOLDEN", "HEADROOM_WEB_MODULES"};
// New variables of builds and tests start with this, and need no entry above.
constexpr std::string_view kTestPrefix = "HEADROOM_TEST_";

// The variable of a flag's name or alias: --max-frames is HEADROOM_MAX_FRAMES.
std::string environment_name(std::string_view flag) {
  std::string name(kPrefix);
  for (const char c : flag) name += c == '-' ? '_' : static_cast<char>(std::toupper(c));
  return name;
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
      if (toggles[flag.name]) values.entries_[flag.name] = {{"true"}, std::string(kCommandLine)};
      continue;
    }
    const auto& given = texts[flag.name];
    if (given.empty()) continue;
    for (const std::string& value : given)
      if (auto checked = check_given(flag, value); !checked) return forward_error(checked);
    values.entries_[flag.name] = {given, std::string(kCommandLine)};
  }
  return values;
}

Result<FlagValues> read_environment(const Verb& verb, std::vector<std::string>& unknown) {
  FlagValues values;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!text.starts_with(kPrefix)) continue;
    const std::size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    const std::string value(equals == std::string_view::npos ? std::string_view() : text.substr(equals + 1));
    if (name.starts_with(kTestPrefix) || std::ranges::find(kNotFlags, name) != kNotFlags.end()) continue;
    const auto same = [&](const Flag& flag) {
      return environment_name(flag.name) == name ||
             std::ranges::any_of(flag.aliases,
                                 [&](const std::string& alias) { return environment_name(alias) == name; });
    };
    const auto flag = std::ranges::find_if(verb.flags, same);
    if (flag == verb.flags.end()) {
      unknown.emplace_back(name);
      continue;
    }
    if (auto checked = check_value(*flag, value); !checked) {
      checked.error().what = fmt::format("{}: {}", name, checked.error().what);
      return forward_error(checked);
    }
    // The variable of the flag's own name has precedence over its aliases.
    if (name != environment_name(flag->name) && values.entries_.contains(flag->name)) continue;
    values.entries_[flag->name] = {{value}, std::string(name)};
  }
  return values;
}

void forget_environment(const Verb& verb) {
  for (const Flag& flag : verb.flags) {
    ::unsetenv(environment_name(flag.name).c_str());
    for (const std::string& alias : flag.aliases) ::unsetenv(environment_name(alias).c_str());
  }
}

Result<WrappedCommand> parse_wrapped_command(const Verb& verb, const std::vector<std::string>& arguments,
                                             const char* example) {
  const auto separator = std::ranges::find(arguments, "--");
  auto command_line = parse_flags(verb, {arguments.begin(), separator});
  if (!command_line) return forward_error(command_line);
  if (!command_line->positionals().empty())
    return usage_error(fmt::format("unexpected argument '{}' before --", command_line->positionals().front()),
                       "",
                       fmt::format("write the command after --: {} {}", example,
                                   fmt::join(command_line->positionals(), " ")));
  std::vector<std::string> of_other_verbs;
  auto environment = read_environment(verb, of_other_verbs);
  if (!environment) return forward_error(environment);
  WrappedCommand wrapped{std::move(*command_line), {}};
  wrapped.values.entries_.merge(environment->entries_);  // the command line wins
  if (separator != arguments.end()) wrapped.command.assign(std::next(separator), arguments.end());
  return wrapped;
}

}  // namespace headroom::cli
