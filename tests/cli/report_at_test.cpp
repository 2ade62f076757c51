// `headroom report FILE.hrec --at TIME` as a user runs it.
#include "cli/command.h"
#include "support/recording_builder.h"

namespace headroom::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Words = std::vector<std::string>;

constexpr std::uint64_t kLibrary = 0x7f0000000000, kSecond = 1'000'000'000;

class ReportAt : public testing::Test {
 protected:
  // A megabyte in the first second; three more in the layer "conv" in the second one, by another thread. At
  // the end only the first megabyte is live.
  ReportAt() {
    RecordingBuilder builder(folder_ / "a.hrec");
    builder.module("/absent/libengine.so", std::string(20, '\x11'), kLibrary, kLibrary + 0x10000, kLibrary);
    builder.thread(0, 41, "main");
    builder.thread(1, 42, "worker");
    builder.allocate(0, kSecond, 0x90000, 1 << 20, {kLibrary + 0x2001});
    builder.enter_scope(1, 2 * kSecond - 5, builder.scope("conv"));
    builder.allocate(1, 2 * kSecond, 0x1000, 3 << 20, {kLibrary + 0x1001});
    builder.release(1, 3 * kSecond, 0x1000);
    builder.finish();
  }
  CommandResult run(Words words) {
    words.insert(words.begin(), {"report", (folder_ / "a.hrec").string()});
    return run_headroom(words);
  }
  Json json(const std::string& time) {
    const CommandResult result = run({"--at", time, "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    auto document = parse_json(result.out);
    EXPECT_TRUE(document.has_value()) << result.out;
    return document ? *document : Json();
  }
  TemporaryFolder folder_;
};

TEST_F(ReportAt, ShowsAMomentByLayerPlaceModuleSizeAndThread) {
  const CommandResult result = run({"--at", "2.5s"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("Live at 2.500 s of 3.000 s: 4.0 MiB in 2 blocks"),
                                HasSubstr("    3.0 MiB  75 %  conv\n"), HasSubstr("libengine.so+0x1000"),
                                HasSubstr("    4.0 MiB 100 %  libengine.so\n"),
                                HasSubstr("    3.0 MiB  75 %  2.0 MiB to 4.0 MiB\n"),
                                HasSubstr("    3.0 MiB  75 %  worker (tid 42)\n")));
  EXPECT_THAT(run({"--at", "1.5"}).out, AllOf(HasSubstr("1.0 MiB in 1 block\n"), Not(HasSubstr("conv"))))
      << "a bare number is seconds";
}

TEST_F(ReportAt, JsonHasTheSameFigures) {
  const Json at = json("2500ms");
  EXPECT_EQ(at["time_seconds"], 2.5);
  EXPECT_EQ(at["live_bytes"], 4 << 20);
  EXPECT_EQ(at["live_blocks"], 2);
  EXPECT_EQ(at["layers"][0]["layer_name"], "conv");
  EXPECT_EQ(at["threads"][0]["name"], "worker");
  EXPECT_EQ(json("peak")["live_bytes"], 4 << 20);
  EXPECT_EQ(json("end")["live_bytes"], 1 << 20);
  EXPECT_EQ(json("0s")["live_bytes"], 0);
  EXPECT_TRUE(json("0s")["layers"].empty());
}

// A recording that lacks events is marked as incomplete, both at a moment and in an export.
TEST_F(ReportAt, ReportsMissingParts) {
  const auto file = folder_ / "part.hrec";
  RecordingOptions options;
  options.segment_bytes = 4096;
  options.segments_limit = 1;
  options.closed = false;
  RecordingBuilder builder(file, options);
  for (std::uint64_t i = 1; i < 4000; ++i) builder.allocate(0, i * 1000, 0x1000 * i, 64, {kLibrary + i});
  builder.finish();
  const CommandResult moment = run_headroom({"report", file.string(), "--at", "end"});
  EXPECT_THAT(moment.out,
              AllOf(HasSubstr("was killed or is still running"), HasSubstr("events were not recorded")));
  auto json = parse_json(run_headroom({"report", file.string(), "--at", "end", "--json"}).out);
  ASSERT_TRUE(json.has_value());
  EXPECT_GT((*json)["dropped_events"].get<std::int64_t>(), 1000);
  EXPECT_EQ((*json)["complete"], false);
  const CommandResult collapsed = run_headroom({"export", file.string(), "--to", "collapsed", "--out", "-"});
  EXPECT_EQ(collapsed.exit_code, 0);
  EXPECT_THAT(collapsed.err,
              AllOf(HasSubstr("did not close its recording"), HasSubstr("events were not recorded")));
  const CommandResult whole =
      run_headroom({"export", (folder_ / "a.hrec").string(), "--to", "collapsed", "--out", "-"});
  EXPECT_THAT(whole.err, Not(HasSubstr("not recorded")));
}

TEST_F(ReportAt, RejectsMomentsThatCannotBeShown) {
  const CommandResult past = run({"--at", "9s"});
  EXPECT_EQ(past.exit_code, 2);
  EXPECT_THAT(past.err, AllOf(HasSubstr("--at 9s is after the end of the recording"),
                              HasSubstr("it lasts 3.000 s"), HasSubstr("use an earlier time, or end")));
  const CommandResult no_time = run({"--at", "noon"});
  EXPECT_EQ(no_time.exit_code, 2);
  EXPECT_THAT(no_time.err, HasSubstr("--at 'noon' is not a time; use 1.5s, 250ms, peak or end"));
  EXPECT_EQ(run({"--at", "-1s"}).exit_code, 2);
  const CommandResult page = run({"--at", "1s", "--html", (folder_ / "a.html").string()});
  EXPECT_EQ(page.exit_code, 2);
  EXPECT_THAT(page.err, HasSubstr("--at shows one moment"));
  EXPECT_EQ(run({"--at", "1s", "--all"}).exit_code, 2);
  write_text(folder_ / "report.json", "{}");
  const CommandResult no_recording = run_headroom({"report", folder_.path().string(), "--at", "1s"});
  EXPECT_EQ(no_recording.exit_code, 2);
  EXPECT_THAT(no_recording.err, HasSubstr("--at works with recordings only"));
}

}  // namespace
}  // namespace headroom::test
