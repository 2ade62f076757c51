#include "cli/recording_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>

#include "analysis/recording_analysis.h"
#include "base/files.h"
#include "base/terminal.h"
#include "recording/recording.h"
#include "report/recording_html.h"
#include "report/recording_views.h"
#include "symbols/symbolizer.h"
#include "trace/recording_files.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

// Function names by what is known of the modules; the texts are copied, since they are few.
report::FrameNames names_by_symbols(const recording::RecordingInfo& info, const FlagValues& values) {
  symbols::SymbolizerOptions options;
  for (const std::string& folder : values.all("symbols")) options.symbol_folders.emplace_back(folder);
  auto symbolizer = std::make_shared<symbols::Symbolizer>(info.modules, std::move(options));
  return [symbolizer](std::uint64_t return_address) {
    std::vector<std::string> names;
    for (const symbols::SourceFrame& frame : symbolizer->frames_of(return_address, true))
      names.emplace_back(frame.function);
    return names;
  };
}

}  // namespace

bool is_recording(const fs::path& file) {
  char magic[sizeof recording::kMagic] = {};
  std::ifstream stream(file, std::ios::binary);
  return stream.read(magic, sizeof magic) && std::memcmp(magic, recording::kMagic, sizeof magic) == 0;
}

std::vector<report::ProcessFigures> other_processes(const fs::path& file) {
  std::vector<report::ProcessFigures> others;
  for (const trace::RecordingFile& other : trace::find_recordings(file)) {
    if (other.path == file) continue;
    auto recording = recording::Recording::open(other.path);
    if (!recording) {
      others.emplace_back().file = other.path.string();
      others.back().problem = recording.error().sentence();
      continue;
    }
    // Only the sums are shown of it.
    const auto analysis = analysis::analyze_recording(*recording, {.timeline_points = 2});
    others.push_back(report::figures_of(other.path.string(), recording->info(), analysis));
  }
  std::stable_sort(others.begin(), others.end(),
                   [](const auto& a, const auto& b) { return a.peak_bytes > b.peak_bytes; });
  return others;
}

Status check_output(const fs::path& out, const fs::path& input, std::string_view flag) {
  std::error_code code;
  const bool is_input = out == input || fs::equivalent(out, input, code);
  if (!is_input && !is_recording(out)) return {};
  return usage_error(fmt::format("{} would replace {}", out.string(),
                                 !is_recording(out) ? "what it is made of"
                                 : is_input         ? "the recording itself"
                                                    : "a recording"),
                     "", fmt::format("name another file with {}", flag));
}

Result<int> report_recording(const fs::path& file, const FlagValues& values) {
  for (const char* flag : {"markdown", "csv"})
    if (values.has(flag))
      return usage_error(fmt::format("--{} shows run folders", flag),
                         fmt::format("{} is a recording", file.string()),
                         "leave it out, or take --json, --html, or headroom export");
  if (values.has("html"))
    if (auto sound = check_output(values.text("html"), file, "--html"); !sound) return forward_error(sound);
  auto recording = recording::Recording::open(file);
  if (!recording) return forward_error(recording);
  const analysis::RecordingAnalysis analysis = analysis::analyze_recording(*recording, {});
  const report::RecordingReport report{file.string(),
                                       recording->info(),
                                       recording->stacks(),
                                       analysis,
                                       names_by_symbols(recording->info(), values),
                                       other_processes(file),
                                       values.toggle("all")};
  if (values.toggle("json")) {
    print_output(to_text(report::recording_to_json(report)));
  } else if (values.has("html")) {
    auto page = report::recording_to_html(report, report::take_page_moments(*recording, analysis));
    if (!page) return forward_error(page);
    if (auto written = write_file_atomically(values.text("html"), *page); !written)
      return forward_error(written);
  } else {
    const std::string color = values.text("color");
    const ColorMode mode = color == "always"  ? ColorMode::always
                           : color == "never" ? ColorMode::never
                                              : ColorMode::automatic;
    print_output(
        report::recording_to_terminal(report, use_color(mode, STDOUT_FILENO), terminal_width(STDOUT_FILENO)));
  }
  return 0;
}

}  // namespace headroom::cli
