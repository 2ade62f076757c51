#include "report/finding/finding_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/json.h"
#include "base/utf8.h"
#include "report/text_layout.h"

namespace headroom::report {
namespace {

std::string title_of_figure(const headroom::Figure& figure) {
  std::string_view name = figure.name;
  for (const std::string_view unit : {"_bytes", "_ms", "_percent", "_seconds"})
    if (name.ends_with(unit)) name.remove_suffix(unit.size());
  std::string title(name);
  std::ranges::replace(title, '_', ' ');
  return title;
}

std::string value_of_figure(const headroom::Figure& figure) {
  if (const auto* text = std::get_if<std::string>(&figure.value)) return *text;
  std::string_view unit;
  if (figure.name.ends_with("_ms")) unit = " ms";
  if (figure.name.ends_with("_percent")) unit = " %";
  if (figure.name.ends_with("_seconds")) unit = " s";
  if (const auto* real = std::get_if<double>(&figure.value)) return fmt::format("{:.3g}{}", *real, unit);
  const std::int64_t number = std::get<std::int64_t>(figure.value);
  return figure.name.find("_bytes") != figure.name.npos ? format_bytes({number})
                                                        : fmt::format("{}{}", number, unit);
}

std::string count_in_words(const std::vector<Finding>& findings) {
  std::string words;
  const auto add = [&](Severity severity, std::string_view one, std::string_view several) {
    const auto count = std::ranges::count_if(
        findings, [severity](const Finding& finding) { return finding.severity == severity; });
    if (count == 0) return;
    words += fmt::format("{}{} {}", words.empty() ? "" : ", ", count, count == 1 ? one : several);
  };
  add(Severity::severe, "severe finding", "severe findings");
  add(Severity::warning, "warning", "warnings");
  add(Severity::note, "note", "notes");
  add(Severity::benign, "benign finding", "benign findings");
  return words.empty() ? "nothing found" : words;
}

Json to_json(const TriedCure& tried) {
  Json object;
  object["model"] = tried.settings.model;
  if (!tried.settings.also.empty())
    object[tried.settings.leave_out_also ? "left_out" : "also"] = tried.settings.also;
  set_if(object, "settings", tried.settings.settings);
  set_if(object, "max_frames_in_mem", tried.settings.max_frames_in_memory);
  object["command"] = tried.command;
  object["verdict"] = name_of(tried.verdict);
  object["sentence"] = tried.sentence;
  if (!tried.figures.empty()) {
    for (const TriedFigure& figure : tried.figures) {
      object["before"][figure.name] = std::llround(figure.before);
      object["after"][figure.name] = std::llround(figure.after);
    }
    // after / before in percent; absent if unknown.
    for (const TriedFigure& figure : tried.figures)
      if (std::isfinite(figure.high))
        object["change_percent"][figure.name] = {{"low", 100 * (figure.low - 1)},
                                                 {"high", 100 * (figure.high - 1)}};
    object["differs"] = Json::array();
    for (const TriedFigure& figure : tried.figures)
      if (figure.differs) object["differs"].push_back(figure.name);
    for (const TriedFigure& figure : tried.figures)
      if (!figure.is_judged) object["not_judged"].push_back(figure.name);
  }
  set_if(object, "saved_bytes", tried.saved);
  if (tried.latency_change) object["latency_change_percent"] = 100 * *tried.latency_change;
  return object;
}

Json to_json(const Finding& finding) {
  Json object;
  object["id"] = finding.id;
  object["severity"] = name_of(finding.severity);
  object["title"] = finding.title;
  set_if(object, "cause", finding.cause);
  object["confidence"] = name_of(finding.confidence);
  object["times"] = finding.times;
  object["evidence"] = json_list(finding.evidence, [](const Evidence& evidence) {
    Json item = {{"file", evidence.file}};
    if (evidence.line > 0) item["line"] = evidence.line;
    set_if(item, "text", evidence.text);
    return item;
  });
  object["figures"] = Json::object();
  for (const headroom::Figure& figure : finding.figures) {
    const auto* const real = std::get_if<double>(&figure.value);
    if (real == nullptr || std::isfinite(*real))
      object["figures"][figure.name] =
          std::visit([](const auto& value) -> Json { return value; }, figure.value);
  }
  object["cures"] = json_list(finding.cures, [](const Cure& cure) {
    Json item = {{"what", cure.what}};
    set_if(item, "command", cure.command);
    set_if(item, "saves_bytes", cure.saves);
    if (cure.tried) item["tried"] = to_json(*cure.tried);
    return item;
  });
  return object;
}

std::string_view paint_of(Severity severity) { return name_in({kRed, kYellow, kBold, kGreen}, severity); }

std::string place_of(const Evidence& evidence) {
  return evidence.line > 0 ? fmt::format("{}:{}", evidence.file, evidence.line) : evidence.file;
}

std::string_view paint_of(const TriedCure& tried) {
  return name_in({kGreen, kYellow, kYellow, kRed, kRed}, tried.verdict);
}

// The lines of a finding; continuation lines are indented.
class Paragraphs {
 public:
  Paragraphs(bool color, std::optional<int> width) : color_(color), width_(width) {}

  void title(const Finding& finding) {
    const std::string_view severity = name_of(finding.severity);
    const std::string id = fmt::format("[{}]", finding.id);
    std::string line = broken(fmt::format("{}: {} {}", severity, finding.title, id), 0);
    // The id is the last word, maybe on its own line.
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
  // Without wrapping.
  void whole(std::string_view line) { text_.append(line) += '\n'; }

  std::string text() && { return std::move(text_); }

 private:
  std::string broken(std::string_view words, int indent) const {
    if (!width_) return std::string(words);
    constexpr int kFurther = 2, kNarrowest = 20;
    // The width includes the indent.
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

std::string words_for_saving(const Cure& cure) {
  if (!cure.saves || cure.saves->count <= 0) return "";
  return fmt::format(" (could save {})", format_bytes(*cure.saves));
}

void add_cures(const Finding& finding, Paragraphs& paragraphs) {
  int number = 0;
  for (const Cure& cure : finding.cures) {
    paragraphs.sentence(fmt::format("{}. {}{}", ++number, cure.what, words_for_saving(cure)));
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

Json findings_to_json(const DoctorReport& report) {
  Json document;
  document["schema_version"] = kDoctorSchemaVersion;
  document["inputs"] = report.inputs;
  if (!report.problems.empty()) document["problems"] = report.problems;
  if (!report.examined.empty())
    document["examined"] = json_list(report.examined, [](const ExaminedInput& examined) -> Json {
      return {{"input", examined.input}, {"kind", examined.kind}, {"words", examined.words}};
    });
  document["findings"] = json_list(report.findings, [](const Finding& finding) { return to_json(finding); });
  if (!report.together.empty())
    document["together"] = json_list(report.together, [](const TriedCure& tried) { return to_json(tried); });
  return document;
}

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
      text += fmt::format("- {} {}\n", code(place_of(evidence)), code(evidence.text));
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
      text += fmt::format("{}. {}{}{}\n", ++number, escaped(cure.what), words_for_saving(cure),
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
