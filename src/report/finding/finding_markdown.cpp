#include <fmt/format.h>

#include "report/finding/finding_views.h"
#include "report/markdown_text.h"

namespace headroom::report {

std::string findings_to_markdown(const DoctorReport& report) {
  std::string text = fmt::format("## headroom doctor: {}\n\n", count_in_words(report.findings));
  for (const std::string& problem : report.problems)
    text += fmt::format("- could not read: {}\n", escaped(problem));
  if (!report.problems.empty()) text += '\n';
  for (const Finding& finding : report.findings) {
    text += fmt::format("### {}: {}\n\n", name_of(finding.severity), escaped(finding.title));
    if (!finding.cause.empty())
      text += fmt::format("Cause ({}): {}\n\n", name_of(finding.confidence), escaped(finding.cause));
    for (const Evidence& evidence : finding.evidence)
      text += fmt::format(
          "- {} {}\n",
          code(evidence.line > 0 ? fmt::format("{}:{}", evidence.file, evidence.line) : evidence.file),
          evidence.text.empty() ? "" : code(evidence.text));
    if (finding.times > 1) text += fmt::format("- {} times in total\n", finding.times);
    if (!finding.evidence.empty()) text += '\n';
    if (!finding.figures.empty()) {
      MarkdownTable table(1, {"Figure", "Value"});
      for (const headroom::Figure& figure : finding.figures)
        table.add({escaped(title_of_figure(figure)), escaped(value_of_figure(figure))});
      text += table.text();
    }
    int number = 0;
    for (const Cure& cure : finding.cures) {
      text += fmt::format("{}. {}{}{}\n", ++number, escaped(cure.what),
                          cure.saves && cure.saves->count > 0
                              ? fmt::format(" (could save {})", format_bytes(*cure.saves))
                              : "",
                          cure.command.empty() ? "" : ": " + code(cure.command));
      if (!cure.tried) continue;
      text += fmt::format("   - tried: {}\n", escaped(cure.tried->sentence));
      if (cure.tried->command != cure.command)
        text += fmt::format("   - command: {}\n", code(cure.tried->command));
    }
    if (!finding.cures.empty()) text += '\n';
  }
  for (const TriedCure& tried : report.together)
    text += fmt::format("### {} with several cures together\n\n{}\n\n- {}\n\n", escaped(tried.settings.model),
                        escaped(tried.sentence), code(tried.command));
  return text;
}

}  // namespace headroom::report
