#include <fmt/format.h>

#include <cstdlib>

#include "attribution/recording_analysis.h"
#include "base/text.h"
#include "export_fixture.h"

namespace headroom::exporters {
namespace {

bool heaptrack_is_installed() { return std::system("command -v heaptrack_print >/dev/null 2>&1") == 0; }

// heaptrack's own analysis of the export.
class Heaptrack {
 public:
  explicit Heaptrack(ExportFixture& fixture) : fixture_(fixture) {
    test::write_text(fixture_.path("heaptrack.txt"), fixture_.write("heaptrack"));
    printed_ = run("-a 0 -p 0 -T 0");
    problems_ = test::read_text(fixture_.path("err"));
  }

  // The exact sum in bytes over all stacks of its flame graph.
  std::int64_t sum(const std::string& cost) {
    run(fmt::format("-a 0 -p 0 -T 0 --flamegraph-cost-type {} -F {}", cost,
                    fixture_.path("flames").string()));
    const std::string flames = test::read_text(fixture_.path("flames"));
    std::int64_t total = 0;
    for (const std::string_view line : split(flames, '\n'))
      if (!line.empty()) total += std::stoll(std::string(line.substr(line.rfind(' ') + 1)));
    return total;
  }
  const std::string& printed() const { return printed_; }
  const std::string& problems() const { return problems_; }

 private:
  std::string run(const std::string& flags) {
    const std::string command =
        fmt::format("heaptrack_print {} {} >{} 2>{}", flags, fixture_.path("heaptrack.txt").string(),
                    fixture_.path("printed").string(), fixture_.path("err").string());
    EXPECT_EQ(std::system(command.c_str()), 0) << test::read_text(fixture_.path("err"));
    return test::read_text(fixture_.path("printed"));
  }
  ExportFixture& fixture_;
  std::string printed_, problems_;
};

TEST(HeaptrackExport, DefinesEverythingBeforeItsUse) {
  ExportFixture fixture([](test::RecordingBuilder& builder) {
    builder.allocate(0, 20, 0x1000, 1000, {2, 10});
    builder.allocate(0, 3'000'000, 0x2000, 1000, {2, 10});
    builder.release(0, 4'000'000, 0x1000);
    builder.allocate(0, 5'000'000, 0x3000, 16, {3, 10});
  });
  EXPECT_EQ(fixture.write("heaptrack"),
            "v 10400 3\n"
            "X /usr/bin/program --flag\n"
            "a 0 0\n"
            "s 3 0x9\ni a 0 1 0 0\nt 1 0\ns 3 0x1\ni 2 0 2 0 0\nt 2 1\n"
            "a 3e8 2\n+ 1\n"
            "c 3\n+ 1\nc 4\n- 1\nc 5\n"
            "s 3 0x2\ni 3 0 3 0 0\nt 3 1\na 10 3\n+ 2\n");
}

TEST(HeaptrackExport, HeaptrackReportsTheSameFigures) {
  if (!heaptrack_is_installed()) GTEST_SKIP() << test::absent_message("heaptrack_print");
  for (unsigned seed = 0; seed < 5; ++seed) {
    ExportFixture fixture([&](auto& builder) { fill_at_random(builder, seed, 5000); });
    const auto analysis = attribution::analyze_recording(fixture.recording(), {});
    Heaptrack heaptrack(fixture);
    EXPECT_EQ(heaptrack.problems().find("failed"), std::string::npos) << heaptrack.problems();
    EXPECT_THAT(heaptrack.printed(),
                testing::HasSubstr(fmt::format("calls to allocation functions: {} ", analysis.allocations)));
    EXPECT_EQ(heaptrack.sum("peak"), analysis.peak_bytes.value) << seed;
    EXPECT_EQ(heaptrack.sum("leaked"), analysis.leaked_bytes.value) << seed;
    EXPECT_EQ(heaptrack.sum("allocations"), analysis.allocations) << seed;
  }
}

// heaptrack compares a released block with the last allocation by size and stack, and after a release with
// info 0. Blocks with the first size and stack that are released later must not count as temporary.
TEST(HeaptrackExport, LaterReleasesAreNotTemporary) {
  if (!heaptrack_is_installed()) GTEST_SKIP() << test::absent_message("heaptrack_print");
  ExportFixture fixture([](test::RecordingBuilder& builder) {
    for (std::uint64_t i = 1; i <= 500; ++i) builder.allocate(0, i, 0x1000 * i, 1000, {2, 10});
    builder.allocate(0, 600, 0x900000, 8, {4, 10});
    for (std::uint64_t i = 1; i <= 500; ++i) builder.release(0, 1000 + i, 0x1000 * i);
    for (std::uint64_t i = 1; i <= 7; ++i) {
      builder.allocate(0, 2000 + 10 * i, 0xa00000, 64, {3, 10});
      builder.release(0, 2005 + 10 * i, 0xa00000);
    }
  });
  const auto analysis = attribution::analyze_recording(fixture.recording(), {});
  EXPECT_EQ(analysis.temporary, 7);
  Heaptrack heaptrack(fixture);
  EXPECT_EQ(heaptrack.sum("temporary"), 7);
  EXPECT_EQ(heaptrack.sum("allocations"), 508);
}

}  // namespace
}  // namespace headroom::exporters
