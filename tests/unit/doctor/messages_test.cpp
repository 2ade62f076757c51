// Every message of tests/golden/doctor/messages.tsv, as programs and kernels print them, gives the expected
// finding and figures. So does every message of the shared data.
#include <fmt/format.h>

#include <map>

#include "base/json.h"
#include "base/text.h"
#include "doctor/log/anchor_search.h"
#include "doctor/log/log_findings.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

struct Expected {
  std::string id, severity, figures;
};

std::string as_text(const Figure& figure) {
  if (const auto* text = std::get_if<std::string>(&figure.value)) return *text;
  return fmt::format("{}", std::get<std::int64_t>(figure.value));
}

Expected found_in(const std::string& line) {
  doctor::LogFindings logs;
  logs.read_line("log", 1, line);
  const auto findings = logs.findings();
  if (findings.empty()) return {"-", "-", ""};
  EXPECT_EQ(findings.size(), 1U) << line;
  std::string figures;
  for (const Figure& figure : findings.front().figures)
    figures += fmt::format("{}{}={}", figures.empty() ? "" : ";", figure.name, as_text(figure));
  return {findings.front().id, std::string(name_of(findings.front().severity)), figures};
}

// Expected findings by line.
std::map<std::string, Expected> golden_messages() {
  std::map<std::string, Expected> messages;
  const std::string text = read_text(test::source_path("tests/golden/doctor/messages.tsv"));
  for (const std::string_view row : split(text, '\n')) {
    if (row.empty() || row.starts_with('#')) continue;
    const auto cells = split(row, '\t');
    if (cells.size() != 4) throw std::runtime_error("not four cells: " + std::string(row));
    messages[std::string(cells[3])] = {std::string(cells[0]), std::string(cells[1]), std::string(cells[2])};
  }
  return messages;
}

TEST(Messages, EachGivesExpectedFinding) {
  const auto messages = golden_messages();
  EXPECT_GE(messages.size(), 75U);
  for (const auto& [line, expected] : messages) {
    const Expected found = found_in(line);
    EXPECT_EQ(found.id, expected.id) << line;
    EXPECT_EQ(found.severity, expected.severity) << line;
    EXPECT_EQ(found.figures, expected.figures) << line;
  }
}

TEST(Messages, AreRecognizedWithPrefixAndColour) {
  for (const auto& [line, expected] : golden_messages()) {
    if (line == "MemoryError" || line == "Killed") continue;  // must begin their lines
    if (expected.id == "-") continue;
    for (const char* prefix : {"Nov 22 10:00:00 orin app[12]: ", "\x1b[31m"})
      EXPECT_EQ(found_in(prefix + line).id, expected.id) << prefix << line;
    const std::string quoted = Json(line).dump();
    EXPECT_EQ(found_in("{\"log\":" + quoted + ",\"stream\":\"stderr\"}").id, expected.id) << quoted;
    EXPECT_EQ(found_in("{\"PRIORITY\" : \"3\", \"MESSAGE\" : " + quoted + " }").id, expected.id) << quoted;
    EXPECT_EQ(found_in("2026-11-23T10:00:00.123456789Z stderr F " + line).id, expected.id) << line;
  }
}

TEST(Messages, CoverEachRule) {
  std::map<std::string, int> seen;
  for (const auto& [line, expected] : golden_messages()) {
    doctor::LogMessage message;
    if (const doctor::LogRule* rule = doctor::rule_of(line, message)) ++seen[std::string(rule->name)];
  }
  for (const doctor::LogRule& rule : doctor::log_rules()) {
    EXPECT_GT(seen[std::string(rule.name)], 0) << rule.name;
    EXPECT_FALSE(rule.anchors.empty()) << rule.name;
    for (const std::string_view anchor : rule.anchors)
      EXPECT_GE(anchor.size(), doctor::AnchorSearch::kShortest) << rule.name << ": " << anchor;
  }
}

// A row may contain several messages, separated by " ; " or " | ".
TEST(Messages, IncludeAllSharedData) {
  const auto file = shared_data("logs/out_of_memory_messages.tsv");
  if (!file) GTEST_SKIP() << absent_message("logs/out_of_memory_messages.tsv");
  const auto messages = golden_messages();
  const std::string text = read_text(*file);
  int count = 0;
  for (const std::string_view row : split(text, '\n')) {
    const auto cells = split(row, '\t');
    if (row.starts_with('#') || cells.size() != 2) continue;
    std::string cell(cells[1]);
    for (const std::string divider : {" ; ", " | "})
      for (std::size_t at = 0; (at = cell.find(divider, at)) != cell.npos;) cell.replace(at, 3, "\n");
    for (const std::string_view part : split(cell, '\n')) {
      const std::string line(trim(part));
      if (line == "same") continue;  // same as the first of the row
      ++count;
      ASSERT_EQ(messages.count(line), 1U) << line;
      EXPECT_EQ(found_in(line).id, messages.at(line).id) << line;
      EXPECT_NE(messages.at(line).id, "-") << line;
    }
  }
  EXPECT_GE(count, 40);
}

}  // namespace
}  // namespace headroom::test
