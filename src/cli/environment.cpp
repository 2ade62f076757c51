#include "cli/environment.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace headroom::cli {
namespace {

constexpr std::string_view kPrefix = "HEADROOM_";
// Variables that are not flags: folders of plug-ins and runtimes, options of the preload library, tests.
constexpr std::array<std::string_view, 10> kNotFlags{
    "HEADROOM_BACKEND_PATH",  "HEADROOM_ONNXRUNTIME", "HEADROOM_TENSORRT",      "HEADROOM_ENGINE_CACHE",
    "HEADROOM_TRACER",        "HEADROOM_TRACE_FILE",  "HEADROOM_TRACE_OPTIONS", "HEADROOM_SHARED_DATA",
    "HEADROOM_UPDATE_GOLDEN", "HEADROOM_DEPS_DIR"};

}  // namespace

std::string environment_name(std::string_view flag) {
  std::string name(kPrefix);
  for (const char c : flag) {
    if (c == '-')
      name += '_';
    else
      name += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return name;
}

Result<FlagValues> read_environment(const Verb& verb, std::vector<std::string>& unknown) {
  FlagValues values;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!text.starts_with(kPrefix)) continue;
    const std::size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    const std::string value(equals == std::string_view::npos ? std::string_view() : text.substr(equals + 1));
    if (std::find(kNotFlags.begin(), kNotFlags.end(), name) != kNotFlags.end()) continue;
    const auto same = [&](const Flag& flag) {
      return environment_name(flag.name) == name ||
             std::any_of(flag.aliases.begin(), flag.aliases.end(),
                         [&](const std::string& alias) { return environment_name(alias) == name; });
    };
    const auto flag = std::find_if(verb.flags.begin(), verb.flags.end(), same);
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

}  // namespace headroom::cli
