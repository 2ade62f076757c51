// Findings on a terminal: a paragraph each, and one line for those that are none.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/display_width.h"
#include "report/finding/finding_views.h"
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

// Lines of a finding: sentences are broken, and those behind the first start further in.
class Paragraphs {
 public:
  Paragraphs(bool color, std::optional<int> width) : color_(color), width_(width) {}

  void title(const Finding& finding) {
    const std::string_view severity = name_of(finding.severity);
    const std::string id = fmt::format("[{}]", finding.id);
    std::string line = broken(fmt::format("{}: {} {}", severity, finding.title, id), 0);
    // The id is the last word, on a line of its own where there is no room.
    const std::size_t begin = severity.size() + 2, end = line.size() - std::min(id.size() + 1, line.size());
    if (line.ends_with(id) && begin <= end)
      line = fmt::format("{}: {}{}", painted(severity, paint_of(finding.severity), color_),
                         painted(line.substr(begin, end - begin), kBold, color_), line.substr(end));
    text_ += line + '\n';
  }
  void sentence(std::string_view words, int indent = 2) {
    text_.append(static_cast<std::size_t>(indent), ' ').append(broken(words, indent)) += '\n';
  }
  // "tried: it helps: …"
  void painted_sentence(std::string_view lead, std::string_view words, std::string_view paint, int indent) {
    std::string line = broken(fmt::format("{}{}", lead, words), indent);
    const std::size_t begin = line.starts_with(lead) ? lead.size() : 0;  // a long name was cut
    line = line.substr(0, begin) + painted(line.substr(begin), paint, color_);
    text_.append(static_cast<std::size_t>(indent), ' ').append(line) += '\n';
  }
  // As it stands, with what goes before it.
  void whole(std::string_view line) { text_.append(line) += '\n'; }

  std::string text() && { return std::move(text_); }

 private:
  std::string broken(std::string_view words, int indent) const {
    if (!width_) return std::string(words);
    constexpr int kFurther = 2, kNarrowest = 20;
    // What is wrapped begins behind the indent, which the terminal's width has in it.
    const int room = std::max(kNarrowest, *width_) - indent;
    std::string lines = wrap(words, room, kFurther), spaces(static_cast<std::size_t>(indent), ' ');
    for (std::size_t at = lines.find('\n'); at != lines.npos; at = lines.find('\n', at + 1))
      lines.insert(at + 1, spaces);
    return lines;
  }

  bool color_;
  std::optional<int> width_;
  std::string text_;
};

void add_cures(const Finding& finding, Paragraphs& paragraphs) {
  int number = 0;
  for (const Cure& cure : finding.cures) {
    paragraphs.sentence(fmt::format("{}. {}{}", ++number, cure.what,
                                    cure.saves && cure.saves->count > 0
                                        ? fmt::format(" (could save {})", format_bytes(*cure.saves))
                                        : ""));
    if (!cure.command.empty()) paragraphs.whole("       " + cure.command);
    if (!cure.tried) continue;
    paragraphs.painted_sentence("tried: ", cure.tried->sentence, paint_of(*cure.tried), 5);
    if (cure.tried->command != cure.command) paragraphs.whole("       " + cure.tried->command);
  }
}

void add_finding(const Finding& finding, Paragraphs& paragraphs) {
  paragraphs.title(finding);
  if (finding.severity == Severity::benign) {
    if (!finding.evidence.empty()) paragraphs.whole("  seen: " + place_of(finding.evidence.front()));
    paragraphs.sentence(finding.cause);
    return;
  }
  for (const Evidence& evidence : finding.evidence)
    paragraphs.whole(
        fmt::format("  seen: {}{}{}", place_of(evidence), evidence.text.empty() ? "" : ": ", evidence.text));
  if (finding.times > 1) paragraphs.sentence(fmt::format("{} times in total", finding.times));
  if (!finding.cause.empty())
    paragraphs.sentence(fmt::format("cause ({}): {}", name_of(finding.confidence), finding.cause));
  add_cures(finding, paragraphs);
}

}  // namespace

std::string findings_to_terminal(const DoctorReport& report, bool color, std::optional<int> width) {
  Paragraphs paragraphs(color, width);
  for (const Finding& finding : report.findings) {
    add_finding(finding, paragraphs);
    paragraphs.whole("");
  }
  for (const TriedCure& tried : report.together) {
    paragraphs.painted_sentence(tried.settings.model + " with several cures together: ", tried.sentence,
                                paint_of(tried), 0);
    paragraphs.whole(fmt::format("  {}\n", tried.command));
  }
  paragraphs.sentence(count_in_words(report.findings), 0);
  constexpr std::size_t kMostNamed = 10;
  for (std::size_t i = 0; i < std::min(kMostNamed, report.examined.size()); ++i)
    paragraphs.sentence(fmt::format("examined {}: {}", without_control_characters(report.examined[i].input),
                                    without_control_characters(report.examined[i].words)));
  if (report.examined.size() > kMostNamed)
    paragraphs.sentence(fmt::format("and {} more (--json lists them)", report.examined.size() - kMostNamed));
  return std::move(paragraphs).text();
}

}  // namespace headroom::report
