// Serves the decoder over a real socket to another process, as in a run.
#include "media/decoder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/log.h"
#include "media/source_scan.h"
#include "media/streams/open_stream.h"
#include "support/test_support.h"
#include "unit/media/media_test_support.h"
#include "unit/media/stream_test_support.h"

namespace headroom::media {
namespace {
namespace fs = std::filesystem;

// A decoder in a forked child process, and the worker's end of the socket.
class DecoderChild {
 public:
  DecoderChild(const SourceMetadata& source, Bytes arena, const fs::path& log)
      : ring_(*FrameRing::create(arena)) {
    int sockets[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    engine();  // loaded before the fork, so that the child starts no threads
    child_ = ::fork();
    if (child_ == 0) {
      ::close(sockets[0]);
      log::set_console_level(log::Level::error);
      const bool logging = log::open_file(log).has_value();
      auto ring = FrameRing::attach(UniqueFd(ring_.fd()));
      const bool served = ring && serve_decoder(engine(), source, *ring, sockets[1]);
      log::close_file();
      ::_exit(logging && served ? 0 : 1);
    }
    ::close(sockets[1]);
    socket_.reset(sockets[0]);
  }
  ~DecoderChild() {
    if (child_ > 0) finish();
  }
  // Closes the socket and returns the child's exit code.
  int finish() {
    socket_.reset();
    int status = -1;
    EXPECT_EQ(::waitpid(child_, &status, 0), child_);
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  pid_t pid() const { return child_; }
  int socket() const { return socket_.get(); }

  DecoderAnswer start(std::int32_t sequence) { return ask({DecoderVerb::start_sequence, sequence, 0}); }
  DecoderAnswer window(std::int64_t frames) { return ask({DecoderVerb::next_window, 0, frames}); }
  FrameSlot slot(std::size_t i) const {
    const auto slot = ring_.slot(i);
    EXPECT_TRUE(slot) << slot.error().sentence();
    return slot ? *slot : FrameSlot{};
  }
  cv::Mat pixels(std::size_t i) {
    const FrameSlot at = slot(i);
    return cv::Mat(at.height, at.width, CV_8UC3, ring_.pixels(at)).clone();
  }

 private:
  DecoderAnswer ask(const DecoderRequest& request) {
    const auto answer = ask_decoder(socket_.get(), request);
    EXPECT_TRUE(answer) << answer.error().sentence();
    return answer ? *answer : DecoderAnswer{};
  }
  FrameRing ring_;
  pid_t child_ = -1;
  UniqueFd socket_;
};

class Decoder : public testing::Test {
 protected:
  SourceMetadata listed(SourceKind kind, const std::string& path) const {
    SourceMetadata source;
    source.spec = {kind, path, 0};
    source.sequences = *list_source(source.spec, {});
    return source;
  }
  SourceMetadata images() const { return listed(SourceKind::image_dir, (folder_ / "images").string()); }
  std::string log() const { return test::read_text(folder_ / "log"); }
  test::TemporaryFolder folder_;
};

constexpr std::int64_t kFrameBytes = 40 * 30 * 3;

TEST_F(Decoder, DeliversFramesInOrderOneWindowAtATime) {
  std::vector<cv::Mat> pictures;
  for (int i = 0; i < 5; ++i) {
    pictures.push_back(test_picture(40, 30) + cv::Scalar::all(10 * i));
    write_image(folder_ / fmt::format("images/{}.png", i), pictures.back());
  }
  DecoderChild decoder(images(), Bytes{2 * kFrameBytes + 100}, folder_ / "log");
  EXPECT_EQ(decoder.start(0).ok, 1);
  std::size_t frame = 0;
  for (const std::uint32_t expected : {2U, 2U, 1U, 0U, 0U}) {
    const DecoderAnswer answer = decoder.window(100);
    EXPECT_EQ(answer.ok, 1);
    ASSERT_EQ(answer.frames, expected);
    for (std::size_t i = 0; i < answer.frames; ++i, ++frame) {
      EXPECT_EQ(decoder.slot(i).index, static_cast<std::int64_t>(frame));
      EXPECT_EQ(decoder.slot(i).name, fmt::format("{}.png", frame));
      EXPECT_GT(decoder.slot(i).decode_ns, 0);
      EXPECT_EQ(largest_difference(decoder.pixels(i), pictures[frame]), 0);
    }
  }
  EXPECT_EQ(decoder.start(0).ok, 1);  // starts again from the first frame
  EXPECT_EQ(decoder.window(1).frames, 1U);
  EXPECT_EQ(decoder.slot(0).index, 0);
  EXPECT_EQ(decoder.finish(), 0);
}

TEST_F(Decoder, SkipsLogsAndCountsUndecodableFrames) {
  for (const char* name : {"1.jpg", "2.jpg", "3.jpg"})
    write_image(folder_ / "images" / name, test_picture(40, 30));
  const std::string whole = test::read_text(folder_ / "images/2.jpg");
  test::write_text(folder_ / "images/2.jpg", whole.substr(0, whole.size() / 2));
  write_image(folder_ / "images/4.png", test_picture(400, 300));  // larger than the whole frame memory
  write_image(folder_ / "images/5.png", test_picture(30, 40));
  DecoderChild decoder(images(), Bytes{4 * kFrameBytes}, folder_ / "log");
  decoder.start(0);
  const DecoderAnswer answer = decoder.window(10);
  EXPECT_EQ(answer.frames, 3U);
  EXPECT_EQ(answer.newly_skipped, 2U);
  EXPECT_STREQ(decoder.slot(1).name, "3.jpg");
  EXPECT_EQ(decoder.slot(1).index, 2);
  EXPECT_STREQ(decoder.slot(2).name, "5.png");
  EXPECT_EQ(decoder.slot(2).height, 40);
  EXPECT_EQ(decoder.window(10).newly_skipped, 0U) << "each frame is counted once";
  EXPECT_EQ(decoder.finish(), 0);
  EXPECT_THAT(log(), testing::HasSubstr("skipped images 2.jpg: cannot decode"));
  EXPECT_THAT(log(),
              testing::HasSubstr("skipped images 4.png: the frame is too large: 400 x 300 pixels need 351.6 "
                                 "KiB, the frame memory has 14.1 KiB"));
}

TEST_F(Decoder, DecodesVideosAndSeveralSequences) {
  fs::create_directory(folder_ / "videos");
  write_video(folder_ / "videos/1.avi", 7, 64, 48);
  write_video(folder_ / "videos/2.avi", 4, 32, 32);
  DecoderChild decoder(listed(SourceKind::video, (folder_ / "videos").string()), Bytes{3 * 64 * 48 * 3},
                       folder_ / "log");
  decoder.start(0);
  for (const std::uint32_t expected : {3U, 3U, 1U, 0U}) EXPECT_EQ(decoder.window(10).frames, expected);
  decoder.start(1);
  EXPECT_EQ(decoder.window(3).frames, 3U);
  EXPECT_EQ(decoder.window(3).frames, 1U);
  EXPECT_EQ(decoder.slot(0).index, 3);
  EXPECT_EQ(decoder.slot(0).sequence, 1);
  EXPECT_STREQ(decoder.slot(0).name, "frame 3");
  EXPECT_EQ(decoder.finish(), 0);
}

TEST_F(Decoder, FrameThatDidNotFitComesFirstInTheNextWindow) {
  write_video(folder_ / "a.avi", 5, 64, 48);
  const SourceMetadata source = listed(SourceKind::video, (folder_ / "a.avi").string());
  auto video = open_stream(source.spec, source.spec.path);
  ASSERT_TRUE(video);
  std::vector<cv::Mat> expected;
  Picture picture;
  while (*(*video)->next(picture)) expected.push_back(as_mat(picture).clone());
  ASSERT_EQ(expected.size(), 5U);
  DecoderChild decoder(source, Bytes{2 * 64 * 48 * 3 + 7}, folder_ / "log");
  decoder.start(0);
  std::size_t frame = 0;
  while (const std::uint32_t frames = decoder.window(10).frames)
    for (std::size_t i = 0; i < frames; ++i) {
      ASSERT_LT(frame, expected.size());
      EXPECT_EQ(largest_difference(decoder.pixels(i), expected[frame++]), 0);
    }
  EXPECT_EQ(frame, 5U);
}

TEST_F(Decoder, SkipsAllFramesOfAVideoLargerThanTheMemory) {
  write_video(folder_ / "a.avi", 5, 64, 48);
  DecoderChild decoder(listed(SourceKind::video, (folder_ / "a.avi").string()), Bytes{1000}, folder_ / "log");
  decoder.start(0);
  const DecoderAnswer answer = decoder.window(10);
  EXPECT_EQ(answer.ok, 1);
  EXPECT_EQ(answer.frames, 0U);
  EXPECT_EQ(answer.newly_skipped, 5U);
}

TEST_F(Decoder, SkipsAMissingSequenceUnlessItIsTheOnlyOne) {
  fs::create_directory(folder_ / "videos");
  write_video(folder_ / "videos/1.avi", 3, 64, 48);
  write_video(folder_ / "videos/2.avi", 3, 64, 48);
  const SourceMetadata both = listed(SourceKind::video, (folder_ / "videos").string());
  const SourceMetadata one = listed(SourceKind::video, (folder_ / "videos/1.avi").string());
  fs::remove(folder_ / "videos/1.avi");

  DecoderChild decoder(both, Bytes{100000}, folder_ / "log");
  const DecoderAnswer answer = decoder.start(0);
  EXPECT_EQ(answer.ok, 1);
  EXPECT_EQ(answer.newly_skipped, 1U);
  EXPECT_EQ(decoder.window(10).frames, 0U);
  decoder.start(1);
  EXPECT_EQ(decoder.window(10).frames, 3U);

  DecoderChild alone(one, Bytes{100000}, folder_ / "log2");
  const DecoderAnswer refused = alone.start(0);
  EXPECT_EQ(refused.ok, 0);
  EXPECT_EQ(std::string(refused.error), fmt::format("cannot open the video {}: no such file; check the path",
                                                    (folder_ / "videos/1.avi").string()));
}

TEST_F(Decoder, RejectsInvalidRequests) {
  write_image(folder_ / "images/1.png", test_picture(40, 30));
  DecoderChild decoder(images(), Bytes{kFrameBytes}, folder_ / "log");
  EXPECT_EQ(decoder.window(5).frames, 0U) << "no sequence was started";
  EXPECT_EQ(decoder.start(1).ok, 0);
  EXPECT_EQ(decoder.start(-1).ok, 0);
  EXPECT_EQ(decoder.start(0).ok, 1);
  EXPECT_EQ(decoder.window(-5).frames, 0U);
  const auto unknown = ask_decoder(decoder.socket(), {static_cast<DecoderVerb>(99), 0, 0});
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->ok, 0);
  EXPECT_EQ(decoder.window(5).frames, 1U);
  ASSERT_EQ(::send(decoder.socket(), "x", 1, 0), 1);  // not a valid request: the decoder exits
  EXPECT_EQ(decoder.finish(), 1);
}

TEST_F(Decoder, ReportsAKilledDecoderInOneSentence) {
  write_image(folder_ / "images/1.png", test_picture(40, 30));
  DecoderChild decoder(images(), Bytes{kFrameBytes}, folder_ / "log");
  ASSERT_EQ(decoder.start(0).ok, 1);
  ::kill(decoder.pid(), SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(decoder.pid()), nullptr, WEXITED | WNOWAIT), 0);
  const auto answer = ask_decoder(decoder.socket(), {});
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().sentence(), testing::StartsWith("the decoder process ended"));
  EXPECT_EQ(decoder.finish(), -1) << status;
}

// The program would otherwise decode the following frames while the worker measures.
TEST_F(Decoder, StopsTheProgramUntilTheNextWindow) {
  write_video(folder_ / "a.mp4", 200, 320, 240);
  DecoderChild decoder(listed(SourceKind::video, (folder_ / "a.mp4").string()), Bytes{2 * 320 * 240 * 3},
                       folder_ / "log");
  ASSERT_EQ(decoder.start(0).ok, 1);
  const std::vector<pid_t> programs = children_of(decoder.pid());
  ASSERT_EQ(programs.size(), 1U);
  EXPECT_EQ(state_of(programs[0]), 'T');
  for (int window = 0; window < 5; ++window) {
    EXPECT_EQ(decoder.window(10).frames, 2U);
    EXPECT_EQ(state_of(programs[0]), 'T');
  }
  EXPECT_EQ(decoder.finish(), 0);
  EXPECT_NE(state_of(programs[0]), 'T') << "it must not outlive the decoder";
}

// A live source that breaks off is a warning; the frames before it were measured.
TEST_F(Decoder, KeepsTheFramesBeforeAStreamEnds) {
  SourceMetadata source;
  source.spec = {SourceKind::gst, "videotestsrc num-buffers=3 ! video/x-raw,width=64,height=48", 0};
  source.sequences = *list_source(source.spec, {});
  DecoderChild decoder(source, Bytes{10 * 64 * 48 * 3}, folder_ / "log");
  ASSERT_EQ(decoder.start(0).ok, 1);
  const DecoderAnswer answer = decoder.window(10);
  EXPECT_EQ(answer.ok, 1);
  EXPECT_EQ(answer.frames, 3U);
  EXPECT_EQ(answer.newly_skipped, 0U);
  EXPECT_EQ(decoder.window(10).frames, 0U);
  EXPECT_EQ(decoder.finish(), 0);
  EXPECT_THAT(log(), testing::HasSubstr("ended before frame 3"));
}

}  // namespace
}  // namespace headroom::media
