// Reads videos and raw frames with the real ffmpeg and gst-launch-1.0.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <thread>

#include "base/files.h"
#include "media/streams/open_stream.h"
#include "support/scoped_environment.h"
#include "support/test_support.h"
#include "unit/inference/results.h"
#include "unit/media/stream_test_support.h"

namespace headroom::media {
namespace {
namespace fs = std::filesystem;

std::unique_ptr<VideoReader> opened(const SourceSpec& spec) {
  auto reader = open_stream(spec, spec.path);
  EXPECT_TRUE(reader) << reader.error().sentence();
  return reader ? std::move(*reader) : nullptr;
}

std::string bytes_of(const Picture& picture) { return {picture.bgr.begin(), picture.bgr.end()}; }

std::vector<std::string> frames_of(const SourceSpec& spec) {
  std::vector<std::string> frames;
  const auto reader = opened(spec);
  Picture picture;
  while (reader && test::value_of(reader->next(picture))) frames.push_back(bytes_of(picture));
  return frames;
}

// A PATH with one of the programs only.
class OnlyThisProgram {
 public:
  explicit OnlyThisProgram(const char* program) : path_("PATH", folder_.path().string()) {
    fs::create_symlink(fs::path("/usr/bin") / program, folder_ / program);
  }

 private:
  test::TemporaryFolder folder_;
  test::ScopedEnvironment path_;
};

class Streams : public testing::Test {
 protected:
  SourceSpec video(const std::string& name) const {
    return {SourceKind::video, (folder_ / name).string(), 0};
  }
  SourceSpec raw(const std::string& content, const std::string& format) const {
    test::write_text(folder_ / "a.raw", content);
    return {SourceKind::raw, (folder_ / "a.raw").string() + format, 0};
  }
  // The frames as FFmpeg writes them without a picture format.
  std::string raw_video(const std::string& name) const {
    run_program({"ffmpeg", "-nostdin", "-loglevel", "error", "-y", "-i", folder_ / name, "-sws_flags",
                 "bicubic", "-pix_fmt", "bgr24", "-f", "rawvideo", folder_ / "all.bgr"});
    return test::read_text(folder_ / "all.bgr");
  }
  test::TemporaryFolder folder_;
};

// Also with rows that need padding, a rate that is not constant, and 10 bits per channel.
TEST_F(Streams, DeliverTheFramesOfFfmpeg) {
  write_video(folder_ / "even.mp4", 12, 64, 48);
  write_video(folder_ / "odd.mov", 5, 65, 47);
  run_program({"ffmpeg", "-nostdin", "-loglevel", "error", "-i", folder_ / "even.mp4", "-vf",
               "setpts=N*N/25/TB", "-vsync", "passthrough", "-pix_fmt", "yuv420p10le", "-c:v", "ffv1",
               folder_ / "uneven.mkv"});
  for (const auto& [name, frames] : {std::pair("even.mp4", 12), {"odd.mov", 5}}) {
    std::string all;
    const std::vector<std::string> read = frames_of(video(name));
    for (const std::string& frame : read) all += frame;
    EXPECT_EQ(read.size(), static_cast<std::size_t>(frames)) << name;
    EXPECT_TRUE(all == raw_video(name)) << name;
  }
  EXPECT_EQ(frames_of(video("uneven.mkv")).size(), 12U);
}

TEST_F(Streams, GstreamerDeliversTheSameFrames) {
  write_video(folder_ / "odd 'name.mov", 5, 65, 47);  // PNG frames: no conversion of colours
  const std::vector<std::string> expected = frames_of(video("odd 'name.mov"));
  const OnlyThisProgram gstreamer("gst-launch-1.0");
  EXPECT_EQ(expected.size(), 5U);
  EXPECT_TRUE(frames_of(video("odd 'name.mov")) == expected);
  EXPECT_EQ(opened(video("odd 'name.mov"))->frame_count(), 0) << "without ffprobe it is unknown";
}

TEST_F(Streams, TurnAsTheContainerSays) {
  write_video(folder_ / "wide.mp4", 3, 64, 32);
  run_program({"ffmpeg", "-nostdin", "-loglevel", "error", "-i", folder_ / "wide.mp4", "-c", "copy",
               "-metadata:s:v", "rotate=90", folder_ / "turned.mp4"});
  EXPECT_EQ(opened(video("turned.mp4"))->size(), (PictureSize{32, 64}));
  const OnlyThisProgram gstreamer("gst-launch-1.0");
  EXPECT_EQ(opened(video("turned.mp4"))->size(), (PictureSize{32, 64}));
}

TEST_F(Streams, CountTheFramesOfTheContainer) {
  write_video(folder_ / "a.mp4", 7, 64, 48);
  write_video(folder_ / "a.mkv", 50, 64, 48);  // without a number: 2 s of 25 frames/s
  EXPECT_EQ(opened(video("a.mp4"))->frame_count(), 7);
  EXPECT_EQ(opened(video("a.mkv"))->frame_count(), 50);
}

TEST_F(Streams, DeliverAFrameAgainUntilItFitsOrIsSkipped) {
  write_video(folder_ / "a.mov", 3, 65, 47);
  const std::vector<std::string> frames = frames_of(video("a.mov"));
  ASSERT_EQ(frames.size(), 3U);
  const auto reader = opened(video("a.mov"));
  const auto refuse = [](PictureSize size) -> std::uint8_t* {
    EXPECT_EQ(size, (PictureSize{65, 47}));
    return nullptr;
  };
  for (int i = 0; i < 2; ++i) EXPECT_EQ(test::value_of(reader->next_into(refuse)), Decoded::no_space);
  Picture picture;
  EXPECT_TRUE(test::value_of(reader->next(picture)));
  EXPECT_TRUE(bytes_of(picture) == frames[0]);
  EXPECT_EQ(test::value_of(reader->next_into(refuse)), Decoded::no_space);
  reader->skip_frame();
  EXPECT_TRUE(test::value_of(reader->next(picture)));
  EXPECT_TRUE(bytes_of(picture) == frames[2]);
  EXPECT_FALSE(test::value_of(reader->next(picture)));
  EXPECT_FALSE(test::value_of(reader->next(picture)));
}

TEST_F(Streams, ContinueAfterAPause) {
  write_video(folder_ / "a.mp4", 40, 320, 240);
  const std::vector<std::string> frames = frames_of(video("a.mp4"));
  ASSERT_EQ(frames.size(), 40U);
  const auto reader = opened(video("a.mp4"));
  const std::vector<pid_t> programs = children_of(::getpid());
  ASSERT_EQ(programs.size(), 1U);
  Picture picture;
  for (std::size_t i = 0; i < 40; ++i) {
    reader->pause();
    reader->pause();
    if (i < 30) {  // the pipe has room for the last frames
      EXPECT_EQ(state_of(programs[0]), 'T');
    }
    ASSERT_TRUE(test::value_of(reader->next(picture)));
    EXPECT_TRUE(bytes_of(picture) == frames[i]) << i;
  }
  EXPECT_EQ(reader->sensor_wait().count, 0) << "reading a file is decoding";
}

TEST_F(Streams, RunTheUsersPipeline) {
  for (const char* pipeline :
       {"videotestsrc num-buffers=3 pattern=red ! video/x-raw,width=30,height=20",
        "videotestsrc num-buffers=3 pattern=red ! capsfilter caps=\"video/x-raw, width=30, height=20\""}) {
    const std::vector<std::string> frames = frames_of({SourceKind::gst, pipeline, 0});
    ASSERT_EQ(frames.size(), 3U) << pipeline;
    ASSERT_EQ(frames[0].size(), 30U * 20 * 3) << pipeline;
    EXPECT_LT(static_cast<unsigned char>(frames[0][0]), 10) << "blue";
    EXPECT_GT(static_cast<unsigned char>(frames[0][2]), 245) << "red";
  }
}

// --- raw frames

TEST_F(Streams, ConvertRawFrames) {
  using testing::ElementsAre;
  EXPECT_THAT(frames_of(raw("abcdefghijkl", ",2x1,bgr")), ElementsAre("abcdef", "ghijkl"));
  EXPECT_THAT(frames_of(raw("abcdefghijkl", ",1x2,rgb")), ElementsAre("cbafed", "ihglkj"));
  EXPECT_THAT(frames_of(raw("abcdef", ",3x1,gray")), ElementsAre("aaabbbccc", "dddeeefff"));
  EXPECT_EQ(opened(raw("abcdefghijkl", ",2x2,gray"))->frame_count(), 3);
}

TEST_F(Streams, ReadRawFramesFromAFifo) {
  const fs::path fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const std::string frame(640 * 480 * 3, 'x');
  std::thread writer([&] {
    const UniqueFd fd(::open(fifo.c_str(), O_WRONLY | O_CLOEXEC));
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(write_all(fd.get(), frame));
  });
  const SourceSpec spec{SourceKind::raw, fifo.string() + ",640x480,rgb", 0};
  EXPECT_TRUE(is_live(spec) && is_exclusive(spec));
  const std::vector<std::string> frames = frames_of(spec);
  writer.join();
  EXPECT_EQ(frames.size(), 3U);
  for (const std::string& each : frames) EXPECT_TRUE(each == frame);
}

}  // namespace
}  // namespace headroom::media
