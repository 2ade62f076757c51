#include "doctor/next_command.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace headroom::doctor {
namespace {

// Words in capitals, and names that every example has, stand for what only the reader knows.
bool is_whole(std::string_view command) {
  for (const std::string_view word : split_words(command)) {
    constexpr std::size_t kShortest = 3;
    const std::size_t capitals = std::min(word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_"), word.size());
    if (capitals >= kShortest || word == "…" || word == "app.py" || word == "model.onnx") return false;
  }
  return true;
}

bool is_to_be_run(std::string_view command) {
  constexpr std::string_view kPrograms[] = {"headroom ", "journalctl ", "dmesg ", "kubectl "};
  return std::any_of(std::begin(kPrograms), std::end(kPrograms),
                     [command](std::string_view program) { return command.starts_with(program); }) &&
         is_whole(command);
}

}  // namespace

std::string next_command(const report::DoctorReport& report, bool tried) {
  // A bench can try its cures itself.
  const auto has_settings = [](const Finding& finding) {
    return std::any_of(finding.cures.begin(), finding.cures.end(),
                       [](const Cure& cure) { return cure.settings.has_value(); });
  };
  if (!tried && report.inputs.size() == 1 &&
      std::any_of(report.findings.begin(), report.findings.end(), has_settings))
    return fmt::format("headroom doctor {} --try", shell_word(report.inputs.front()));
  for (const Finding& finding : report.findings) {
    if (finding.severity != Severity::severe && finding.severity != Severity::warning) break;
    for (const Cure& cure : finding.cures)
      if (is_to_be_run(cure.command)) return cure.command;
  }
  const bool is_live = std::find(report.inputs.begin(), report.inputs.end(), "--live") != report.inputs.end();
  return is_live ? "headroom watch --output watch.jsonl" : "headroom doctor --live";
}

}  // namespace headroom::doctor
