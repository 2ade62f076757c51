#include "base/json.h"
#include "export_fixture.h"

namespace headroom::exporters {
namespace {

// The requirements of speedscope's schema for a file of sampled profiles.
void expect_valid(const Json& file) {
  EXPECT_EQ(file.at("$schema"), "https://www.speedscope.app/file-format-schema.json");
  const std::size_t frames = file.at("shared").at("frames").size();
  for (const Json& frame : file["shared"]["frames"]) EXPECT_TRUE(frame.at("name").is_string());
  EXPECT_LT(file.at("activeProfileIndex").get<std::size_t>(), file.at("profiles").size());
  for (const Json& profile : file["profiles"]) {
    EXPECT_EQ(profile.at("type"), "sampled");
    EXPECT_EQ(profile.at("unit"), "bytes");
    EXPECT_TRUE(profile.at("name").is_string());
    std::int64_t total = 0;
    for (const Json& weight : profile.at("weights")) total += weight.get<std::int64_t>();
    EXPECT_EQ(profile.at("startValue"), 0);
    EXPECT_EQ(profile.at("endValue"), total);
    ASSERT_EQ(profile.at("samples").size(), profile.at("weights").size());
    for (const Json& sample : profile.at("samples"))
      for (const Json& frame : sample) EXPECT_LT(frame.get<std::size_t>(), frames);
  }
}

// "model;0x9;0x1 1000" for each sample.
std::vector<std::string> lines_of(const Json& file, std::size_t profile) {
  std::vector<std::string> lines;
  const Json& chosen = file["profiles"][profile];
  for (std::size_t i = 0; i < chosen["samples"].size(); ++i) {
    std::string line;
    for (const Json& frame : chosen["samples"][i])
      line += (line.empty() ? "" : ";") +
              file["shared"]["frames"][frame.get<std::size_t>()]["name"].get<std::string>();
    lines.push_back(line + " " + std::to_string(chosen["weights"][i].get<std::int64_t>()));
  }
  return lines;
}

Json parsed(const std::string& text) {
  auto json = parse_json(text);
  EXPECT_TRUE(json.has_value()) << text;
  return json.value_or(Json());
}

TEST(Speedscope, WritesAProfileForEachMetricWithLayersFirst) {
  ExportFixture fixture(fill_two_layers);
  const Json file = parsed(fixture.write("speedscope"));
  expect_valid(file);
  ASSERT_EQ(file["profiles"].size(), 4U);
  EXPECT_EQ(file["activeProfileIndex"], 0);
  EXPECT_EQ(file["name"], "a.hrec");
  EXPECT_EQ(lines_of(file, 0), (std::vector<std::string>{"model;0x9;0x1 1000", "model;conv;0x9;0x2 4000"}));
  EXPECT_EQ(lines_of(file, 1), std::vector<std::string>{"model;0x9;0x1 1000"});
  EXPECT_EQ(lines_of(file, 2), std::vector<std::string>{"(no stack) 500"});
  EXPECT_EQ(lines_of(file, 3).size(), 3U);
}

TEST(Speedscope, WritesTheRequestedMetricFirst) {
  ExportFixture fixture(fill_two_layers);
  EXPECT_EQ(parsed(fixture.write("speedscope", Metric::allocated))["activeProfileIndex"], 3);
  EXPECT_EQ(parsed(fixture.write("speedscope", Metric::leaked))["activeProfileIndex"], 1);
}

TEST(Speedscope, OmitsTemporaryAllocationsForSamples) {
  test::RecordingOptions sampled;
  sampled.full = false;
  ExportFixture fixture(
      [](auto& builder) {
        builder.sample(0, 10, 0x1000, 100, {1});
        builder.counters(0, 20, 0, 10'000, 1'000'000, 0);  // the allocations that the sample represents
      },
      sampled);
  const Json file = parsed(fixture.write("speedscope"));
  expect_valid(file);
  EXPECT_EQ(file["profiles"].size(), 3U);
  EXPECT_GT(file["profiles"][1]["endValue"], 400000) << "a sample stands for many";
  const Status refused = fixture.try_write("speedscope", Metric::temporary, fixture.path("refused"));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::input);
  EXPECT_FALSE(std::filesystem::exists(fixture.path("refused")));
}

TEST(Speedscope, WritesValidJsonForAnyName) {
  ExportFixture fixture([](test::RecordingBuilder& builder) {
    builder.enter_scope(0, 1, builder.scope("a\"b\\c\n\x01\xff"));
    builder.allocate(0, 10, 0x1000, 100);
  });
  const Json file = parsed(fixture.write("speedscope"));
  expect_valid(file);
  EXPECT_EQ(file["shared"]["frames"][0]["name"], "a\"b\\c\n\x01\xef\xbf\xbd");
}

TEST(Speedscope, WritesEmptyProfilesForAnEmptyRecording) {
  ExportFixture fixture([](auto&) {});
  expect_valid(parsed(fixture.write("speedscope")));
}

}  // namespace
}  // namespace headroom::exporters
