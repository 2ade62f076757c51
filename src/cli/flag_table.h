// The one table of verbs and flags. Parsing, -h, --help, `headroom help VERB`, the man page and the
// completions are all made from it, so none of them can forget a flag.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/units.h"

namespace headroom::cli {

enum class FlagKind {
  toggle,    // --strict
  text,      // --output-dir DIR
  integer,   // --max-frames 300
  number,    // --conf 0.25
  size,      // --mem-limit 2GiB
  duration,  // --timeout 2min; a bare number is seconds
  choice,    // --backend onnxruntime
};

struct Flag {
  std::string name;  // with dashes, without leading ones: "max-frames"; underscores are accepted too
  FlagKind kind = FlagKind::toggle;
  std::string value_name;         // "DIR"
  std::string help;               // one line
  std::string group = "Options";  // heading in --help
  std::string default_text;       // shown in help; empty: none
  std::vector<std::string> choices;
  std::vector<std::string> aliases;  // other spellings ("enable-cudnn-tuning" for "tune")
  char short_name = 0;
  bool repeated = false;  // may be given several times
  bool common = true;     // shown in the one-screen -h
  // For numbers as given, for sizes in bytes, for durations in nanoseconds.
  double minimum = -1e300, maximum = 1e300;

  // A copy with one more property, for tables of flags.
  Flag with_default(std::string text) const { return with(&Flag::default_text, std::move(text)); }
  Flag within(double least, double most = 1e300) const {
    return with(&Flag::minimum, least).with(&Flag::maximum, most);
  }
  template <class Quantity>  // Bytes or Nanoseconds
  Flag within(Quantity least, Quantity most) const requires requires {
    least.count;
  }
  { return within(static_cast<double>(least.count), static_cast<double>(most.count)); }
  Flag also(std::string alias) const { return with(&Flag::aliases, {std::move(alias)}); }
  Flag repeatable() const { return with(&Flag::repeated, true); }
  Flag rare() const { return with(&Flag::common, false); }  // not in the one-screen -h
  template <class Value>
  Flag with(Value Flag::*property, std::type_identity_t<Value> value) const {
    Flag flag = *this;
    flag.*property = std::move(value);
    return flag;
  }
};

// Flags that the one-screen -h shows. The value of an integer is called N, of a size SIZE, of a duration TIME
// and of a choice WORD; its default is the first of its choices.
Flag toggle_flag(std::string name, std::string help);
Flag text_flag(std::string name, std::string value_name, std::string help);
Flag number_flag(std::string name, std::string help, double least, double most = 1e300);
Flag integer_flag(std::string name, std::string help, double least, double most = 1e300);
Flag size_flag(std::string name, std::string help);
Flag duration_flag(std::string name, std::string help);
Flag choice_flag(std::string name, std::vector<std::string> choices, std::string help,
                 std::string value_name = "WORD");

// Flags under headings of --help.
std::vector<Flag> grouped(std::vector<std::pair<std::string, std::vector<Flag>>> groups);

// Origin of the values of a command line.
inline constexpr std::string_view kCommandLine = "command line";

struct Verb {
  std::string name{};
  std::string summary{};      // one line
  std::string usage{};        // "headroom bench --source SRC --model NAME=PATH …"
  std::string description{};  // a paragraph for --help and the man page
  std::vector<std::string> examples{};
  std::vector<Flag> flags{};
  std::string positional{};  // name of the positional argument, empty: none
  // Returns the exit code: 0 success, 1 failed gate, 2 wrong use or unreadable input, 3 internal error.
  Result<int> (*run)(const std::vector<std::string>& arguments) = nullptr;
};

// The values given for one verb, from defaults < configuration file < environment < command line.
class FlagValues {
 public:
  bool has(std::string_view name) const { return entries_.contains(name); }
  bool toggle(std::string_view name) const { return text(name) == "true"; }
  // The last value given, or empty.
  std::string text(std::string_view name) const;
  std::vector<std::string> all(std::string_view name) const;
  std::optional<std::int64_t> integer(std::string_view name) const;
  std::optional<double> number(std::string_view name) const;
  const std::vector<std::string>& positionals() const { return positionals_; }
  // Where a value came from: "command line", "HEADROOM_MAX_FRAMES", "bench.toml:12", "default".
  std::string origin(std::string_view name) const;

  // Sets the target if the flag was given. parse_flags() has checked the value.
  template <class Target>
  void read(std::string_view name, Target& target) const {
    if (!has(name)) return;
    if constexpr (std::is_same_v<Target, Bytes>)
      target = *parse_size(text(name));
    else if constexpr (std::is_same_v<Target, Nanoseconds>)
      target = *parse_duration(text(name));
    else if constexpr (std::is_same_v<Target, bool>)
      target = toggle(name);
    else if constexpr (std::is_integral_v<Target>)
      target = static_cast<Target>(*integer(name));
    else if constexpr (std::is_floating_point_v<Target>)
      target = *number(name);
    else
      target = text(name);
  }
  template <class Value>
  void read(std::string_view name, std::optional<Value>& target) const {
    if (has(name)) read(name, target.emplace());
  }

  struct Entry {
    std::vector<std::string> values;
    std::string origin;
  };
  std::map<std::string, Entry, std::less<>> entries_;
  std::vector<std::string> positionals_;
};

// Fails if several of the flags were given.
Status at_most_one(const FlagValues& values, std::initializer_list<std::string_view> flags,
                   std::string why = {}, std::string fix = "keep one of them");
// Fails if the command line has the flag without the one that it needs: "try", "mem-limit SIZE".
Status check_needed(const FlagValues& values, std::string_view flag, const std::string& needed);
// Fails for the first of the flags that was given: "--csv works with run folders only".
Status reject_flags(const FlagValues& values, std::initializer_list<std::string_view> flags,
                    std::string_view problem, const std::string& why, const std::string& fix);

// Parses a verb's arguments (command line only) with CLI11; values are checked by kind, so later reads cannot
// fail. Errors are one sentence with the closest flag for a slip.
Result<FlagValues> parse_flags(const Verb& verb, const std::vector<std::string>& arguments);

// Checks one value as its flag's kind demands.
Status check_value(const Flag& flag, std::string_view value);

// The flag of this name or alias (dashes or underscores), or nullptr.
const Flag* find_flag(const Verb& verb, std::string_view name);

// The values of a verb's flags in the environment. An invalid value is an error that names the variable.
// `unknown` receives the variables with Headroom's prefix that belong to no flag.
Result<FlagValues> read_environment(const Verb& verb, std::vector<std::string>& unknown);

// Removes the variables of a verb's flags, for child processes.
void forget_environment(const Verb& verb);

// The arguments of a verb that runs another program: `headroom VERB [FLAGS] -- COMMAND …`.
struct WrappedCommand {
  FlagValues values;                 // of the command line, else of the environment
  std::vector<std::string> command;  // the words after --
};
// `example`: how a call begins, for the error about words before --: "headroom trace --".
Result<WrappedCommand> parse_wrapped_command(const Verb& verb, const std::vector<std::string>& arguments,
                                             const char* example);

}  // namespace headroom::cli
