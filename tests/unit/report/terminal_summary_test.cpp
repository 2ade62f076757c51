#include "base/text.h"
#include "report/display_width.h"
#include "report/views.h"
#include "sample_results.h"
#include "support/test_support.h"

namespace headroom::report {
namespace {
using testing::HasSubstr;
using testing::Not;

int widest_line(const std::string& text) {
  int widest = 0;
  for (const auto line : split(text, '\n')) widest = std::max(widest, display_width(line));
  return widest;
}

TEST(TerminalSummary, NeverIsWiderThanTheTerminal) {
  for (const auto& [name, run] : test::sample_runs())
    for (const int width : {40, 60, 72, 80, 100, 200})
      EXPECT_LE(widest_line(to_terminal(run, false, width)), width) << name << " at " << width;
  BenchResult run = test::typical_run();
  run.models[0].name = "模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型";
  EXPECT_LE(widest_line(to_terminal(run, false, 80)), 80);
  EXPECT_THAT(to_terminal(run, false, 80), HasSubstr("…"));
}

TEST(TerminalSummary, ColumnsAreInLine) {
  BenchResult run = test::typical_run();
  run.models[0].name = "模型";
  const std::string text = to_terminal(run, false, 80);
  const auto lines = split(text, '\n');
  const auto column_of = [&](std::size_t line, std::string_view word) {
    return display_width(lines[line].substr(0, lines[line].find(word)));
  };
  EXPECT_EQ(column_of(2, "STATUS"), column_of(3, "ok"));
  EXPECT_EQ(column_of(3, "ok"), column_of(4, "ok"));
}

TEST(TerminalSummary, ColoursOnlyWhenAsked) {
  EXPECT_THAT(to_terminal(test::fallen_run(), false, 80), Not(HasSubstr("\033")));
  EXPECT_THAT(to_terminal(test::fallen_run(), true, 80), HasSubstr("\033[31m"));
}

TEST(TerminalSummary, ColoursDoNotMoveColumns) {
  std::string coloured = to_terminal(test::fallen_run(), true, 80);
  for (std::size_t at; (at = coloured.find('\033')) != std::string::npos;)
    coloured.erase(at, coloured.find('m', at) - at + 1);
  EXPECT_EQ(coloured, to_terminal(test::fallen_run(), false, 80));
}

TEST(TerminalSummary, NarrowTerminalsKeepTheFiguresThatDecide) {
  const std::string narrow = to_terminal(test::typical_run(), false, 48);
  EXPECT_THAT(narrow, HasSubstr("RUN"));
  EXPECT_THAT(narrow, HasSubstr("P50"));
  EXPECT_THAT(narrow, Not(HasSubstr("LOAD")));
}

TEST(TerminalSummary, SaysThatARunIsIncomplete) {
  EXPECT_THAT(to_terminal(test::incomplete_run(), false, 80),
              testing::StartsWith("! This run was interrupted"));
  EXPECT_THAT(to_terminal(test::typical_run(), false, 80), Not(HasSubstr("interrupted")));
}

}  // namespace
}  // namespace headroom::report
