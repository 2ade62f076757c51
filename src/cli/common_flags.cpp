#include "cli/common_flags.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/files.h"
#include "base/log.h"
#include "cli/verbs.h"
#include "recording/recording.h"
#include "trace/device_account.h"

namespace headroom::cli {
namespace fs = std::filesystem;

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

Screen screen_of(const FlagValues& values) { return Screen(STDOUT_FILENO, color_mode(values)); }

Flag alerts_flag(const char* default_text) {
  return text_flag("alerts", "FILE|default|off", "alert rules: a TOML file (docs/alerts.md)")
      .with_default(default_text);
}

Status read_alerts(const FlagValues& values, const std::string& otherwise,
                   std::optional<watch::AlertSettings>& settings) {
  const std::string wanted = values.has("alerts") ? values.text("alerts") : otherwise;
  settings.reset();
  if (wanted == "off") return {};
  auto rules = wanted == "default" ? watch::default_alert_settings() : watch::read_alert_rules(wanted);
  if (!rules) return forward_error(rules);
  settings = std::move(*rules);
  return {};
}

Status read_device_limits(const FlagValues& values, std::string_view flag, ledger::Limits& limits) {
  if (!values.has(flag)) return {};
  auto parsed = trace::parse_device_limits(values.text(flag));
  if (parsed) {
    limits = *parsed;
    return {};
  }
  const std::string origin = values.origin(flag);
  if (origin != kCommandLine) parsed.error().what = fmt::format("{}: {}", origin, parsed.error().what);
  return forward_error(parsed);
}

Status read_share_name(const FlagValues& values, std::string& share) {
  values.read("share", share);
  return share.empty() ? Status{} : trace::check_share_name(share);
}

Flag allow_no_gpu_flag() {
  return toggle_flag("allow-no-gpu", "run without the GPU limit if there is no GPU driver").rare();
}

Status read_allow_no_gpu(const FlagValues& values, std::string_view limit_flag, bool& allow_no_gpu) {
  allow_no_gpu = values.toggle("allow-no-gpu");
  return values.has("share") ? Status{}
                             : check_needed(values, "allow-no-gpu", fmt::format("{} SIZE", limit_flag));
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
  std::ranges::sort(problems);
  problems.erase(std::unique(problems.begin(), problems.end()), problems.end());
  for (std::size_t i = 0; i < std::min(kShown, problems.size()); ++i) log::warning("{}", problems[i]);
  if (problems.size() > kShown)
    log::warning("{} more modules have no symbols for the same reasons", problems.size() - kShown);
}

Status check_views(const FlagValues& values, const fs::path& input) {
  if (auto fine = at_most_one(values, {"json", "csv", "markdown"}); !fine) return fine;
  return check_output(values.text("html"), input, "--html");
}

Result<int> print_views(const FlagValues& values, const Views& views, int exit_code) {
  std::string written;
  if (views.html && values.has("html")) {
    const std::string file = values.text("html");
    auto page = views.html();
    if (!page) return forward_error(page);
    if (auto done = write_file_atomically(file, *page); !done) return forward_error(done);
    written = fmt::format("{} ({})\n", file, format_bytes({std::ssize(*page)}));
  }
  const std::pair<const char*, const std::function<std::string()>*> texts[] = {
      {"json", &views.json}, {"markdown", &views.markdown}, {"csv", &views.csv}};
  const auto chosen = std::ranges::find_if(
      texts, [&](const auto& text) { return *text.second && values.toggle(text.first); });
  const Screen screen = screen_of(values);
  print_output(chosen != std::end(texts) ? (*chosen->second)()
               : !written.empty()        ? written
                                         : views.terminal(screen.in_color(), screen.width));
  return exit_code;
}

Status check_output(const fs::path& out, const fs::path& input, std::string_view flag) {
  std::error_code code;
  const bool is_input = !out.empty() && (out == input || fs::equivalent(out, input, code));
  const bool is_recording = recording::is_recording(out);
  if (!is_input && !is_recording) return {};
  return usage_error(fmt::format("{} would replace {}", out.string(),
                                 !is_recording ? "its own input"
                                 : is_input    ? "the recording itself"
                                               : "a recording"),
                     "", fmt::format("choose another file with {}", flag));
}

}  // namespace headroom::cli
