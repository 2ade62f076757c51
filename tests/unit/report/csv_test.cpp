#include "base/text.h"
#include "report/run/views.h"
#include "sample_results.h"
#include "support/test_support.h"

namespace headroom::report {
namespace {

// A CSV reader that follows RFC 4180, independent of the writer under test.
std::vector<std::vector<std::string>> parse(const std::string& text) {
  std::vector<std::vector<std::string>> records;
  std::vector<std::string> record{""};
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c != '"') {
        record.back() += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        record.back() += text[++i];
      } else {
        quoted = false;
      }
    } else if (c == '"') {
      EXPECT_TRUE(record.back().empty()) << "a quote inside a plain field";
      quoted = true;
    } else if (c == ',') {
      record.emplace_back();
    } else if (c == '\r') {
      EXPECT_EQ(text.substr(i, 2), "\r\n");
      ++i;
      records.push_back(std::move(record));
      record = {""};
    } else {
      EXPECT_NE(c, '\n') << "a line break outside quotes";
      record.back() += c;
    }
  }
  EXPECT_FALSE(quoted);
  EXPECT_EQ(record, std::vector<std::string>{""}) << "the last record has no CRLF";
  return records;
}

std::string field(const std::vector<std::vector<std::string>>& records, std::size_t row,
                  const std::string& column) {
  for (std::size_t i = 0; i < records[0].size(); ++i)
    if (records[0][i] == column) return records[row][i];
  ADD_FAILURE() << "no column " << column;
  return {};
}

TEST(Csv, HasOneRowPerModelWithAsManyFieldsAsTheHeader) {
  for (const auto& [name, run] : test::sample_runs()) {
    const auto records = parse(to_csv(run));
    ASSERT_EQ(records.size(), run.models.size() + 1) << name;
    for (const auto& record : records) EXPECT_EQ(record.size(), records[0].size()) << name;
  }
}

TEST(Csv, QuotesFieldsThatNeedQuotes) {
  const BenchResult run = test::fallen_run();
  const auto records = parse(to_csv(run));
  EXPECT_EQ(field(records, 1, "name"), run.models[0].name);  // a comma, quotes and a line break
  EXPECT_EQ(field(records, 5, "error"), run.models[4].error);
}

TEST(Csv, WritesBaseUnitsAndEmptyFieldsForAbsentFigures) {
  const auto records = parse(to_csv(test::fallen_run()));
  EXPECT_EQ(field(records, 1, "inference_p50_ns"), "880000");
  EXPECT_EQ(field(records, 1, "inference_p90_bound_ns"), "");  // 48 frames are too few
  EXPECT_EQ(field(records, 1, "limit_bytes"), "134217728");
  EXPECT_EQ(field(records, 2, "within_limit"), "false");
  EXPECT_EQ(field(records, 2, "violations"), "7");
  EXPECT_EQ(field(records, 3, "fps"), "");
  EXPECT_EQ(field(records, 3, "run_peak_bytes"), "");
  EXPECT_EQ(field(records, 3, "died_in"), "model_loaded");
}

TEST(Csv, ListsSkippedModelsLast) {
  const auto records = parse(to_csv(test::charged_run()));
  EXPECT_EQ(field(records, 1, "name"), "text");
  EXPECT_EQ(field(records, 3, "name"), "yolo11s_rgb");
  EXPECT_EQ(field(records, 1, "limit_peak_bytes"), field(records, 1, "cgroup_peak_bytes"));
}

}  // namespace
}  // namespace headroom::report
