// Runs on sources that a child program decodes, and on raw frames.

#include "cli/bench_fixture.h"

namespace headroom::test {
namespace {
using testing::HasSubstr;
using testing::Not;
using BenchSources = BenchTest;

// The warning is the only sign that a camera or a sender ended before --max-frames.
TEST_F(BenchSources, MeasuresTheFramesOfAPipelineThatEnds) {
  const std::string pipeline = "videotestsrc num-buffers=20 ! video/x-raw,width=64,height=48";
  ASSERT_THAT(run_without_source(
                  {"--source", "gst=" + pipeline, "--imgsz", "64", "--model", model("m", "segment even 64")}),
              Ends(0));
  const Json report = bench_.report();
  const Json& source = get_member(report, "source");
  EXPECT_EQ(get_text(source, "kind"), "gst");
  EXPECT_EQ(get_text(source, "path"), pipeline);
  EXPECT_EQ(get_integer(source, "total_frames"), 0);
  EXPECT_EQ(get_integer(source, "largest_frame_bytes"), 64 * 48 * 3);
  EXPECT_EQ(get_integer(entry("m"), "frames"), 20);
  EXPECT_THAT(to_text(get_member(entry("m"), "warnings")), HasSubstr("ended before frame 20"));
}

TEST_F(BenchSources, KeepsTheRawFramesBeforeAnIncompleteOne) {
  const auto frames = bench_.path() / "frames.gray";
  write_text(frames, std::string(3 * 64 * 48 + 100, 'x'));
  ASSERT_THAT(run_without_source({"--source", "raw=" + frames.string() + ",64x48,gray", "--imgsz", "64",
                                  "--model", model("m", "segment even 64")}),
              Ends(0));
  EXPECT_EQ(get_integer(get_member(bench_.report(), "source"), "total_frames"), 3);
  EXPECT_EQ(get_integer(entry("m"), "frames"), 3);
  EXPECT_THAT(to_text(get_member(get_member(bench_.report(), "source"), "skipped")),
              HasSubstr("it ends 100 bytes after the start of frame 3"));
}

TEST_F(BenchSources, NamesThePackagesOfMissingPrograms) {
  const auto video = opencv_example("data/vtest.avi");
  if (!video) GTEST_SKIP() << absent_message("vtest.avi of opencv-doc");
  CommandOptions options;
  options.environment = {{"PATH", bench_.path().string()}};
  EXPECT_THAT(run_without_source({"--source", video->string(), "--model", model("m", "")}, options),
              Ends(2, testing::IsEmpty(),
                   HasSubstr("neither ffmpeg nor gst-launch-1.0 is installed; apt install ffmpeg, or apt "
                             "install gstreamer1.0-tools")));
}

TEST_F(BenchSources, HidesThePasswordOfAStream) {
  const CommandResult result =
      run_without_source({"--source", "tcp://user:secret@127.0.0.1:1/a", "--model", model("m", "")});
  EXPECT_THAT(result, Ends(2, testing::IsEmpty(), HasSubstr("cannot open the stream tcp://127.0.0.1:1/a: ")));
  EXPECT_THAT(result.err, HasSubstr("Connection refused"));
  EXPECT_THAT(result.err, Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace headroom::test
