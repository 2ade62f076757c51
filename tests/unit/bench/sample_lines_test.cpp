#include "bench/annotated_samples.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/files.h"
#include "base/json.h"
#include "support/test_support.h"

namespace headroom::bench {
namespace {

using test::TemporaryFolder;

FrameFindings some_of_each() {
  FrameFindings findings;
  Detection face{1, 2, 3.25F, 4, 0.5F, 7, {}, 2};
  face.landmarks[0] = 1.5F;
  face.landmarks[3] = 2.5F;
  findings.detections = {face, {9, 8, 7, 6, 0.125F, -1, {}, 0}};
  findings.quads = {{{0, 0, 4, 0, 4, 2, 0, 2}, 0.9F}};
  // NaN and infinity are written as 0.
  using Limits = std::numeric_limits<float>;
  findings.lines = {{0, 1, 2, 3, 0.25F}, {Limits::quiet_NaN(), Limits::infinity(), 1, 2, 3}};
  Mask mask;
  mask.width = 3;
  mask.height = 2;
  mask.values = {0, 0, 128, 128, 255, 1};
  mask.left = -2;
  mask.right = 20.5F;
  mask.class_id = 3;
  findings.masks = {mask, mask};
  findings.masks[1].values = {1, 1, 1, 1, 1, 1};
  return findings;
}

class SampleLines : public testing::Test {
 protected:
  void write(const FrameFindings& findings, const std::string& name = "a.jpg") {
    const UniqueFd file(::open(path().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    write_sample(file.get(), 2, 17, name, findings);
  }
  std::filesystem::path path() const { return folder_.path() / "found"; }
  std::string text() const { return test::read_text(path()); }
  TemporaryFolder folder_;
};

std::optional<SampleFrame> first_of(const std::string& text) {
  std::istringstream lines(text);
  return read_sample(lines);
}

TEST_F(SampleLines, ReadsBackAllFindings) {
  FrameFindings findings = some_of_each();
  write(findings, "a \"quoted\"\nname.jpg");
  const auto read = first_of(text());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->sequence, 2);
  EXPECT_EQ(read->frame, 17);
  EXPECT_EQ(read->name, "a \"quoted\"\nname.jpg");
  EXPECT_EQ(read->findings.lines.at(1).x0, 0);
  EXPECT_EQ(read->findings.lines.at(1).y0, 0);
  EXPECT_EQ(read->findings.lines.at(1).x1, 1);
  findings.lines[1] = read->findings.lines[1];
  EXPECT_EQ(to_line(to_json(read->findings)), to_line(to_json(findings)));
  ASSERT_EQ(read->findings.masks.size(), 2U);
  EXPECT_EQ(read->findings.masks[0].values, findings.masks[0].values);
  EXPECT_EQ(read->findings.masks[1].values, findings.masks[1].values);
  EXPECT_EQ(read->findings.masks[1].class_id, 3);
}

TEST_F(SampleLines, WritesSamplesInOrderWithShortLines) {
  FrameFindings many;
  many.detections.assign(5000, {0.123456789F, 1e-30F, -1234567.875F, 4, 0.5F, 79, {1, 2, 3, 4, 5, 6, 7}, 6});
  Mask noise;
  noise.width = noise.height = 256;
  for (int i = 0; i < 256 * 256; ++i) noise.values.push_back(static_cast<std::uint8_t>(i * 37));
  many.masks = {noise};
  write(many);
  write(some_of_each());
  std::ifstream lines(path());
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 4096U);
    EXPECT_TRUE(is_sample_line(line)) << line;
  }
  EXPECT_FALSE(is_sample_line(R"({"event":"frames","model":0,"times":[]})"));
  lines = std::ifstream(path());
  const auto first = read_sample(lines);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->findings.detections.size(), 5000U);
  EXPECT_EQ(first->findings.detections.back().left, 0.123456789F);
  EXPECT_EQ(first->findings.detections.back().landmarks, many.detections.back().landmarks);
  EXPECT_EQ(first->findings.masks.at(0).values, noise.values);
  EXPECT_TRUE(read_sample(lines));
  EXPECT_FALSE(read_sample(lines));
}

TEST_F(SampleLines, SkipsATruncatedSample) {
  write(some_of_each());
  const std::string whole = text();
  for (std::size_t length = 0; length + 1 < whole.size(); ++length)
    EXPECT_FALSE(first_of(whole.substr(0, length))) << length;
  EXPECT_TRUE(first_of(whole.substr(0, whole.size() / 2) + "\n" + whole));
}

TEST(SampleLinesReader, RejectsAMaskWithAWrongNumberOfPixels) {
  const auto with = [](const std::string& mask, const std::string& runs) {
    return first_of(R"({"part":"begin"})"
                    "\n"
                    R"({"part":"mask",)" +
                    mask +
                    "}\n"
                    R"({"part":"runs","list":)" +
                    runs +
                    "}\n"
                    R"({"part":"end"})"
                    "\n");
  };
  const char* const size = R"("width":4,"height":2)";
  EXPECT_TRUE(with(size, "[9,5,1,3]"));
  for (const char* runs : {"[9,5,1,2]", "[9,5,1,4]", "[9,5,1,18446744073709551615]", "[256,8]", "[9,8,1]"})
    EXPECT_FALSE(with(size, runs)) << runs;
  EXPECT_FALSE(with(R"("width":4,"height":-2)", "[]"));
  EXPECT_FALSE(with(R"("width":65536,"height":65536)", "[0,4294967296]"));
}

}  // namespace
}  // namespace headroom::bench
