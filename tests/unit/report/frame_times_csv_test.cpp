#include "report/run/frame_times_csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom::report {
namespace {

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
