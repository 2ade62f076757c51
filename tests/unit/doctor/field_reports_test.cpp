// Reports from the field, each with the answer that it needs. A row of answers_*.tsv has: the input, the
// reports that it stands for, the findings, what the first finding says, what its first cure says, and what
// no finding says. Inputs of "shared/" are those of the shared data; the others were made after the reports.
#include <fmt/format.h>

#include <filesystem>

#include "base/text.h"
#include "doctor/inputs/examine.h"
#include "doctor/log/log_findings.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

struct FieldReport {
  std::string input, findings, says, first_cure, never;
};

std::vector<FieldReport> field_reports() {
  std::vector<FieldReport> reports;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("tests/golden/doctor/field"))) {
    if (entry.path().extension() != ".tsv") continue;
    const std::string text = read_text(entry.path());
    for (const std::string_view row : split(text, '\n')) {
      if (row.empty() || row.starts_with('#')) continue;
      const auto cells = split(row, '\t');
      if (cells.size() != 6) throw std::runtime_error("not six cells: " + std::string(row));
      reports.push_back({std::string(cells[0]), std::string(cells[2]), std::string(cells[3]),
                         std::string(cells[4]), std::string(cells[5])});
    }
  }
  return reports;
}

// "-" is none.
std::vector<std::string> words_of(std::string_view cell) {
  std::vector<std::string> words;
  for (std::size_t end = 0; cell != "-" && !cell.empty(); cell.remove_prefix(std::min(end, cell.size()))) {
    words.emplace_back(cell.substr(0, cell.find(" || ")));
    end = words.back().size() + 4;
  }
  return words;
}

// An input that is not read has the finding "error", whose cause is the error.
std::vector<Finding> examine_field(const std::filesystem::path& input) {
  doctor::Examined examined = std::filesystem::is_directory(input)
                                  ? doctor::examine({}, input)
                                  : doctor::examine({input.string()}, std::nullopt);
  std::vector<Finding> findings = std::move(examined.report.findings);
  doctor::sort_findings(findings);
  if (examined.first_error)
    findings.insert(findings.begin(), {.id = "error", .cause = examined.first_error->sentence()});
  return findings;
}

std::string words_of_finding(const Finding& finding) {
  std::string words = finding.title + "\n" + finding.cause;
  for (const Cure& cure : finding.cures) words += "\n" + cure.what + "\n" + cure.command;
  return words;
}

void expect_answer(const FieldReport& report, const std::filesystem::path& input) {
  const auto findings = examine_field(input);
  std::string found, all;
  for (const Finding& finding : findings) {
    found += (found.empty() ? "" : " ") + finding.id;
    if (finding.id != "error") found += fmt::format(":{}:{}", name_of(finding.severity), finding.times);
    all += words_of_finding(finding) + "\n";
  }
  EXPECT_EQ(found.empty() ? "-" : found, report.findings) << report.input << "\n" << all;
  for (const std::string& word : words_of(report.never))
    EXPECT_THAT(all, testing::Not(testing::HasSubstr(word))) << report.input;
  if (findings.empty()) return;
  const Finding& first = findings.front();
  for (const std::string& word : words_of(report.says))
    EXPECT_THAT(first.title + "\n" + first.cause, testing::HasSubstr(word)) << report.input;
  for (const std::string& word : words_of(report.first_cure)) {
    ASSERT_FALSE(first.cures.empty()) << report.input;
    EXPECT_THAT(first.cures[0].what + "\n" + first.cures[0].command, testing::HasSubstr(word))
        << report.input;
  }
}

TEST(FieldReports, EachMadeInputGivesItsAnswer) {
  for (const FieldReport& report : field_reports())
    if (!report.input.starts_with("shared/"))
      expect_answer(report, source_path("tests/golden/doctor/field/" + report.input));
}

TEST(FieldReports, EachGivenInputGivesItsAnswer) {
  for (const FieldReport& report : field_reports()) {
    if (!report.input.starts_with("shared/")) continue;
    const std::string name = "field_cases/" + report.input.substr(7);
    const auto file = shared_data(name);
    if (!file) GTEST_SKIP() << absent_message(name);
    expect_answer(report, *file);
  }
}

}  // namespace
}  // namespace headroom::test
