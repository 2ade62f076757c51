#include "report/markdown_text.h"
#include "report/views.h"
#include "sample_results.h"
#include "support/test_support.h"

namespace headroom::report {
namespace {
using testing::HasSubstr;
using testing::Not;

TEST(MarkdownText, NothingInANameIsMarkup) {
  EXPECT_EQ(escaped("yolox_nano_416"), "yolox_nano_416");
  EXPECT_EQ(escaped("_private_"), "\\_private\\_");
  EXPECT_EQ(escaped("a|b*c*\nd"), "a\\|b\\*c\\* d");
  EXPECT_EQ(escaped("<img src=x>"), "&lt;img src=x>");
  EXPECT_EQ(escaped("[x](http://y)"), "\\[x\\](http://y)");
  EXPECT_EQ(escaped("&amp;"), "&amp;amp;");
}

TEST(MarkdownText, CodeHoldsBackticksAndPipes) {
  EXPECT_EQ(code("/data/a.onnx"), "`/data/a.onnx`");
  EXPECT_EQ(code("a|b"), "`a|b`");
  EXPECT_EQ(code("a`b"), "`` a`b ``");
  EXPECT_EQ(code("a``b"), "``` a``b ```");
  EXPECT_EQ(code("a\nb"), "`a b`");
  EXPECT_EQ(code(""), "");
}

TEST(MarkdownText, ABarInACellDoesNotEndIt) {
  MarkdownTable table(1, {"Name", "n"});
  EXPECT_TRUE(table.empty());
  table.add({code("a|b"), escaped("c|d")});
  EXPECT_EQ(table.text(),
            "| Name   |    n |\n"
            "|--------|-----:|\n"
            "| `a\\|b` | c\\|d |\n\n");
}

// Cells of a table's row: '|' that are not escaped, less the outer two.
std::size_t cells_in(const std::string& line) {
  std::size_t bars = 0;
  for (std::size_t i = 0; i < line.size(); ++i)
    bars += line[i] == '|' && (i == 0 || line[i - 1] != '\\') ? 1U : 0U;
  return bars - 1;
}

TEST(Markdown, EveryTableKeepsItsShapeWhateverTheNames) {
  for (const auto& [name, run] : test::sample_runs()) {
    std::istringstream text(to_markdown(run));
    std::size_t expected = 0;
    for (std::string line; std::getline(text, line);) {
      if (!line.starts_with('|')) {
        expected = 0;
        continue;
      }
      if (expected == 0) expected = cells_in(line);
      EXPECT_EQ(cells_in(line), expected) << name << ": " << line;
    }
  }
}

TEST(Markdown, HasTheSectionsInOrder) {
  const std::string text = to_markdown(test::rich_run());
  std::size_t at = 0;
  for (const char* heading :
       {"## 🔒 Memory Safety Summary", "## Metadata", "## Input Source", "## Model Performance",
        "## All Models at Once", "## Full Pipeline", "## System Metrics", "## Warnings", "## Left Out"}) {
    const std::size_t found = text.find(heading);
    ASSERT_NE(found, std::string::npos) << heading;
    EXPECT_GE(found, at) << heading;
    at = found;
  }
  for (const char* fact :
       {"hard", "Total Violations", "Models closest to the limit", "% of the limit", "Tuning trials"})
    EXPECT_THAT(text, HasSubstr(fact));
}

TEST(Markdown, ABoundThatNSamplesCannotGiveIsNotMadeUp) {
  EXPECT_THAT(to_markdown(test::incomplete_run()), HasSubstr("n too small"));
  EXPECT_THAT(to_markdown(test::typical_run()), Not(HasSubstr("n too small")));
}

TEST(Markdown, AnIncompleteRunSaysSoBeforeAnythingElse) {
  const std::string text = to_markdown(test::incomplete_run());
  ASSERT_NE(text.find("incomplete"), std::string::npos);
  EXPECT_LT(text.find("incomplete"), text.find("Memory Safety"));
  EXPECT_THAT(to_markdown(test::typical_run()), Not(HasSubstr("incomplete")));
}

TEST(Markdown, OfManySkippedFramesOnlyTheFirstAreListed) {
  BenchResult run = test::fallen_run();
  run.source->skipped.assign(1000, {"x.jpg", "truncated JPEG"});
  const std::string text = to_markdown(run);
  EXPECT_THAT(text, HasSubstr("1000 items of the source"));
  EXPECT_THAT(text, HasSubstr("and 980 more"));
}

}  // namespace
}  // namespace headroom::report
