#include "cli/views.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/terminal.h"
#include "base/units.h"
#include "cli/common_flags.h"
#include "recording/is_recording.h"

namespace headroom::cli {
namespace fs = std::filesystem;

Status check_views(const FlagValues& values) {
  std::vector<std::string> given;
  for (const char* name : {"json", "csv", "markdown"})
    if (values.toggle(name)) given.push_back(fmt::format("--{}", name));
  if (given.size() < 2) return {};
  return usage_error(fmt::format("{} cannot be combined", fmt::join(given, " and ")), "", "keep one of them");
}

Status print_views(const FlagValues& values, const Views& views) {
  std::string written;
  if (views.html && values.has("html")) {
    const std::string file = values.text("html");
    auto page = views.html();
    if (!page) return forward_error(page);
    if (auto done = write_file_atomically(file, *page); !done) return done;
    written = fmt::format("{} ({})\n", file, format_bytes({std::ssize(*page)}));
  }
  using Named = std::pair<const char*, const std::function<std::string()>*>;
  for (const auto& [name, view] :
       std::array<Named, 3>{{{"json", &views.json}, {"markdown", &views.markdown}, {"csv", &views.csv}}})
    if (*view && values.toggle(name)) {
      print_output((*view)());
      return {};
    }
  print_output(written.empty() ? views.terminal(wants_color(values), terminal_width(STDOUT_FILENO))
                               : written);
  return {};
}

Status check_output(const fs::path& out, const fs::path& input, std::string_view flag) {
  std::error_code code;
  const bool is_input = out == input || fs::equivalent(out, input, code);
  const bool is_recording = recording::is_recording(out);
  if (!is_input && !is_recording) return {};
  return usage_error(fmt::format("{} would replace {}", out.string(),
                                 !is_recording ? "its own input"
                                 : is_input    ? "the recording itself"
                                               : "a recording"),
                     "", fmt::format("choose another file with {}", flag));
}

}  // namespace headroom::cli
