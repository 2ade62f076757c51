#include "cli/common_flags.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/log.h"
#include "cli/exit_code.h"
#include "trace/device_account.h"

namespace headroom::cli {
namespace fs = std::filesystem;

Flag make_flag(const char* name, FlagKind kind, const char* value_name, const char* help) {
  Flag flag = text_flag(name, value_name, help);
  flag.kind = kind;
  return flag;
}

Flag limit_mechanism_flag(const std::string& limit_flag) {
  return choice_flag("limit-mechanism", {"auto", "cgroup", "rlimit", "watchdog", "none"},
                     fmt::format("mechanism that enforces --{}", limit_flag));
}

Flag sysroot_flag(std::string help) { return text_flag("sysroot", "DIR", std::move(help)).rare(); }

Flag color_flag() { return choice_flag("color", {"auto", "always", "never"}, "color terminal output"); }

ColorMode color_mode(const FlagValues& values) {
  const std::string color = values.text("color");
  return color == "always" ? ColorMode::always : color == "never" ? ColorMode::never : ColorMode::automatic;
}

bool wants_color(const FlagValues& values) { return use_color(color_mode(values), STDOUT_FILENO); }

Flag alerts_flag(const char* default_text) {
  return text_flag("alerts", "FILE|default|off", "alert rules: a TOML file (docs/alerts.md)")
      .with_default(default_text);
}

Result<std::optional<watch::AlertSettings>> alert_settings_from(const FlagValues& values,
                                                                const std::string& otherwise) {
  const std::string wanted = values.has("alerts") ? values.text("alerts") : otherwise;
  if (wanted == "off") return std::nullopt;
  if (wanted == "default") return watch::default_alert_settings();
  auto rules = watch::read_alert_rules(wanted);
  if (!rules) return forward_error(rules);
  return std::move(*rules);
}

Result<ledger::Limits> read_device_limits(const FlagValues& values, std::string_view flag) {
  auto limits = trace::parse_device_limits(values.text(flag));
  if (limits) return limits;
  const std::string origin = values.origin(flag);
  if (origin != "command line") limits.error().what = fmt::format("{}: {}", origin, limits.error().what);
  return limits;
}

Flag symbols_flag(const char* help) { return text_flag("symbols", "DIR", help).repeatable(); }

Result<symbols::SymbolizerOptions> symbolizer_options(const FlagValues& values) {
  symbols::SymbolizerOptions options;
  for (const std::string& folder : values.all("symbols")) {
    std::error_code code;
    if (!fs::is_directory(folder, code))
      return usage_error(fmt::format("--symbols {} is not a folder", folder),
                         code ? code.message() : "it is another kind of file",
                         "name a folder that headroom symbols wrote, or a folder with debug files");
    options.symbol_folders.emplace_back(folder);
  }
  return options;
}

void warn_of_missing_symbols(std::vector<std::string> problems) {
  constexpr std::size_t kShown = 3;  // on another machine, all modules have a problem
  std::sort(problems.begin(), problems.end());
  problems.erase(std::unique(problems.begin(), problems.end()), problems.end());
  for (std::size_t i = 0; i < std::min(kShown, problems.size()); ++i) log::warning("{}", problems[i]);
  if (problems.size() > kShown)
    log::warning("{} more modules have no symbols for the same reasons", problems.size() - kShown);
}

}  // namespace headroom::cli
