// Every cure with a headroom command uses an existing verb and existing flags.
#include "base/files.h"
#include "base/text.h"
#include "cli/verbs.h"
#include "doctor/log/log_findings.h"
#include "doctor/run/run_findings.h"
#include "report/run/report_json.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

void expect_known(std::string_view command) {
  // Extracts the headroom part of "dmesg | headroom doctor -" or "sudo headroom bench …".
  const std::size_t at = command.find("headroom ");
  if (at == command.npos || (at > 0 && command[at - 1] != ' ')) return;
  const auto words = split_words(command.substr(at));
  ASSERT_GT(words.size(), 1U) << command;
  const auto verb = std::ranges::find(cli::verb_list(), words[1], &cli::Verb::name);
  ASSERT_NE(verb, cli::verb_list().end()) << command;
  for (std::size_t i = 2; i < words.size() && words[i] != "--"; ++i)
    EXPECT_TRUE(!words[i].starts_with("--") || cli::find_flag(**verb, words[i].substr(2))) << command;
}

TEST(DoctorCures, NameExistingVerbsAndFlags) {
  const std::string text =
      read_text(std::filesystem::path(test::source_path("tests/golden/doctor/messages.tsv")));
  int commands = 0;
  for (const std::string_view row : split(text, '\n')) {
    const auto cells = split(row, '\t');
    doctor::LogMessage message;
    const doctor::LogRule* rule = cells.size() == 4 ? doctor::rule_of(cells[3], message) : nullptr;
    if (!rule) continue;
    for (const Cure& cure : rule->explain(message).cures) {
      expect_known(cure.command);
      ++commands;
    }
  }
  EXPECT_GT(commands, 100);
}

// Also with the run's settings, as in a report that stores them.
TEST(DoctorCures, OfRunsNameExistingVerbsAndFlags) {
  int commands = 0;
  for (const auto& folder :
       std::filesystem::directory_iterator(std::filesystem::path(test::source_path("tests/golden/report")))) {
    auto result = report::read_report(read_text(folder.path() / "report.json"), folder.path().string());
    if (!result) continue;  // a golden report of another version
    for (const bool keeps_settings : {true, false}) {
      result->options.reset();
      if (keeps_settings) result->options.emplace().memory_limit = mebibytes(150);
      for (const Finding& finding : doctor::run_findings(*result, "report.json"))
        for (const Cure& cure : finding.cures) {
          if (cure.command.starts_with("--")) continue;  // words for a command that the report did not keep
          expect_known(cure.command);
          commands += cure.command.empty() ? 0 : 1;
        }
    }
  }
  EXPECT_GT(commands, 20);
}

}  // namespace
}  // namespace headroom::test
