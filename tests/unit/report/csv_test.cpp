#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

using testing::HasSubstr;

TEST(FrameTimesCsv, ReadsBackWhatItWrote) {
  const std::vector<FrameTimes> frames{{{100}, {20}, {3000}, {5}, 2},
                                       {{0}, {0}, {2999}, {1}, 0, Nanoseconds{2500}}};
  std::string text(kFrameTimesHeader);
  append_csv(text, frames);
  EXPECT_EQ(text,
            "decode_ns,preprocess_ns,inference_ns,postprocess_ns,findings,device_ns\n"
            "100,20,3000,5,2,\n0,0,2999,1,0,2500\n");
  const auto read = read_frame_times(text, "m.csv");
  ASSERT_TRUE(read.has_value()) << read.error().sentence();
  EXPECT_EQ(*read, frames);
  EXPECT_TRUE(read_frame_times(std::string(kFrameTimesHeader), "m.csv")->empty());
}

TEST(FrameTimesCsv, ReportsTheErrorAndItsLine) {
  const std::string header(kFrameTimesHeader);
  const auto error = [](const std::string& text) {
    return read_frame_times(text, "m.csv").error().sentence();
  };
  EXPECT_THAT(error(""), HasSubstr("no frame times in m.csv"));
  EXPECT_THAT(error("time,value\n1,2\n"), HasSubstr("the first line is not decode_ns"));
  EXPECT_THAT(error(header + "1,2,3,4,5,\n1,2,3\n"), HasSubstr("invalid frame in m.csv:3"));
  EXPECT_THAT(error(header + "1,2,-3,4,5,\n"), HasSubstr("m.csv:2"));
  EXPECT_THAT(error(header + "1,2,9999999999999999999,4,5,\n"), HasSubstr("m.csv:2"));
  EXPECT_THAT(error(header + "1,2,3,4,5,x\n"), HasSubstr("m.csv:2"));
}

}  // namespace

}  // namespace headroom::report
