// Findings on a terminal: a paragraph each, and one line for those that are none.
#include <fmt/format.h>

#include <algorithm>

#include "report/finding_views.h"
#include "report/terminal_table.h"

namespace headroom::report {
namespace {

std::string_view paint_of(Severity severity) {
  switch (severity) {
    case Severity::severe:
      return kRed;
    case Severity::warning:
      return kYellow;
    case Severity::note:
      return kBold;
    case Severity::benign:
      return kGreen;
  }
  return {};
}

std::string place_of(const Evidence& evidence) {
  return evidence.line > 0 ? fmt::format("{}:{}", evidence.file, evidence.line) : evidence.file;
}

std::string_view paint_of(const TriedCure& tried) {
  switch (tried.verdict) {
    case CureVerdict::helps:
      return kGreen;
    case CureVerdict::costs_speed:
    case CureVerdict::no_difference:
      return kYellow;
    case CureVerdict::worse:
    case CureVerdict::failed:
      break;
  }
  return kRed;
}

void add_cures(const Finding& finding, bool color, std::string& text) {
  int number = 0;
  for (const Cure& cure : finding.cures) {
    text += fmt::format("  {}. {}", ++number, cure.what);
    if (cure.saves) text += fmt::format(" (could save {})", format_bytes(*cure.saves));
    text += '\n';
    if (!cure.command.empty()) text += fmt::format("       {}\n", cure.command);
    if (cure.tried)
      text += fmt::format("     tried: {}\n       {}\n",
                          painted(cure.tried->sentence, paint_of(*cure.tried), color), cure.tried->command);
  }
}

}  // namespace

std::string findings_to_terminal(const DoctorReport& report, bool color) {
  std::string text;
  for (const Finding& finding : report.findings) {
    text +=
        fmt::format("{}: {} [{}]\n", painted(name_of(finding.severity), paint_of(finding.severity), color),
                    painted(finding.title, kBold, color), finding.id);
    if (finding.severity == Severity::benign) {
      if (!finding.evidence.empty()) text += fmt::format("  seen: {}\n", place_of(finding.evidence.front()));
      text += fmt::format("  {}\n\n", finding.cause);
      continue;
    }
    for (const Evidence& evidence : finding.evidence)
      text += fmt::format("  seen: {}{}{}\n", place_of(evidence), evidence.text.empty() ? "" : ": ",
                          evidence.text);
    if (finding.times > 1) text += fmt::format("  {} times in all\n", finding.times);
    if (!finding.cause.empty())
      text += fmt::format("  cause ({}): {}\n", name_of(finding.confidence), finding.cause);
    add_cures(finding, color, text);
    text += '\n';
  }
  for (const TriedCure& tried : report.together)
    text += fmt::format("{} with several cures together: {}\n  {}\n\n", tried.settings.model,
                        painted(tried.sentence, paint_of(tried), color), tried.command);
  text += count_in_words(report.findings) + "\n";
  constexpr std::size_t kMostNamed = 10;
  for (std::size_t i = 0; i < std::min(kMostNamed, report.examined.size()); ++i)
    text += fmt::format("  looked at {}: {}\n", report.examined[i].input, report.examined[i].words);
  if (report.examined.size() > kMostNamed)
    text += fmt::format("  and at {} more (--json names them)\n", report.examined.size() - kMostNamed);
  return text;
}

}  // namespace headroom::report
