#include "base/text.h"
#include "export_fixture.h"

namespace headroom::exporters {
namespace {

TEST(Collapsed, WritesOneLinePerStack) {
  ExportFixture fixture(fill_two_layers);
  EXPECT_EQ(fixture.write("collapsed"), "model;0x9;0x1 1000\nmodel;conv;0x9;0x2 4000\n");
  EXPECT_EQ(fixture.write("collapsed", Metric::leaked), "model;0x9;0x1 1000\n");
  EXPECT_EQ(fixture.write("collapsed", Metric::temporary), "(no stack) 500\n");
  EXPECT_EQ(fixture.write("collapsed", Metric::allocated),
            "(no stack) 500\nmodel;0x9;0x1 1000\nmodel;conv;0x9;0x2 4000\n");
}

TEST(Collapsed, ReplacesSeparatorsInNames) {
  ExportFixture fixture([](test::RecordingBuilder& builder) {
    builder.enter_scope(0, 1, builder.scope("a;b\nc d"));
    builder.allocate(0, 10, 0x1000, 100, {2});
  });
  EXPECT_EQ(fixture.write("collapsed"), "a:b c d;0x1 100\n");
}

TEST(Collapsed, MarksTruncatedStacks) {
  ExportFixture fixture([](test::RecordingBuilder& builder) {
    builder.allocate(0, 10, 0x1000, 100, test::RecordingBuilder::Frames(recording::kMaxFrames, 2));
    builder.allocate(0, 20, 0x2000, 100, test::RecordingBuilder::Frames(recording::kMaxFrames - 1, 2));
  });
  const std::string text = fixture.write("collapsed");
  const auto lines = split(trim(text), '\n');
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0], testing::StartsWith("(callers left out);0x1;0x1"));
  EXPECT_THAT(lines[1], testing::StartsWith("0x1;0x1"));
}

TEST(Collapsed, MergesEqualStacks) {
  ExportFixture fixture([](test::RecordingBuilder& builder) { fill_at_random(builder, 1, 5000); });
  const std::string text = fixture.write("collapsed", Metric::allocated);
  std::vector<std::string_view> stacks;
  for (const std::string_view line : split(trim(text), '\n'))
    stacks.push_back(line.substr(0, line.rfind(' ')));
  EXPECT_GT(stacks.size(), 50U);
  EXPECT_EQ(std::adjacent_find(stacks.begin(), stacks.end()), stacks.end());
}

}  // namespace
}  // namespace headroom::exporters
