// Sources that cannot be opened, break off or stall. The sender of the network streams is this process.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "base/files.h"
#include "media/streams/open_stream.h"
#include "media/streams/stream_reader.h"
#include "support/scoped_environment.h"
#include "support/test_support.h"
#include "unit/inference/results.h"
#include "unit/media/stream_test_support.h"

namespace headroom::media {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

// Long enough for a program to start, also when the machine is busy. The tests of stalls take this long.
constexpr Nanoseconds kShortStall{2'000'000'000};

Error error_of(const SourceSpec& spec, Nanoseconds stall_time = kStallTime) {
  auto reader = open_stream(spec, spec.path, stall_time);
  EXPECT_FALSE(reader);
  return reader ? Error{} : reader.error();
}

// Listens on a free port of this machine, and sends `bytes` to the first that connects. Keeps the connection
// open until this object ends, unless `closes`.
class Sender {
 public:
  Sender(std::string bytes, bool closes) : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_.get(), any, size), 0);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener_.get(), any, &size), 0);
    port_ = ntohs(address.sin_port);
    ::signal(SIGPIPE, SIG_IGN);
    thread_ = std::thread([this, bytes = std::move(bytes), closes] {
      connection_.reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      [[maybe_unused]] const auto sent = write_all(connection_.get(), bytes);
      if (closes) connection_.reset();
    });
  }
  ~Sender() { thread_.join(); }
  SourceSpec source(const std::string& scheme) const {
    return {SourceKind::stream, fmt::format("{}://user:secret@127.0.0.1:{}/a", scheme, port_), 0};
  }

 private:
  UniqueFd listener_, connection_;
  int port_ = 0;
  std::thread thread_;
};

class StreamFailures : public testing::Test {
 protected:
  // An MPEG transport stream, as cameras send it.
  std::string transport_stream(int frames) const {
    write_video(folder_ / "a.mp4", frames, 64, 48);
    run_program({"ffmpeg", "-nostdin", "-loglevel", "error", "-i", folder_ / "a.mp4", "-c:v", "mpeg2video",
                 folder_ / "a.ts"});
    return test::read_text(folder_ / "a.ts");
  }
  SourceSpec video(const std::string& name) const {
    return {SourceKind::video, (folder_ / name).string(), 0};
  }
  test::TemporaryFolder folder_;
};

// --- sources that cannot be opened

TEST_F(StreamFailures, SayWhyAVideoCannotBeOpened) {
  const std::string what = "cannot open the video " + folder_.path().string();
  EXPECT_EQ(error_of(video("absent.mp4")).sentence(), what + "/absent.mp4: no such file; check the path");
  ASSERT_EQ(::mkfifo((folder_ / "fifo.mp4").c_str(), 0600), 0);
  EXPECT_EQ(error_of(video("fifo.mp4")).sentence(),
            what +
                "/fifo.mp4: it is not a regular file; give the path of a video, or use "
                "raw=FIFO,WIDTHxHEIGHT,FORMAT for a FIFO of raw frames");
  test::write_text(folder_ / "empty.mp4", "");
  EXPECT_EQ(error_of(video("empty.mp4")).sentence(), what + "/empty.mp4: the file is empty");
  write_video(folder_ / "whole.mp4", 30, 64, 48);
  const std::string whole = test::read_text(folder_ / "whole.mp4");
  test::write_text(folder_ / "cut.mp4", whole.substr(0, whole.size() / 2));
  EXPECT_EQ(error_of(video("cut.mp4")).sentence(),
            what + "/cut.mp4: moov atom not found; check that a video player opens it, or convert it to mp4");
  test::write_text(folder_ / "text.mp4", "this is not a video");
  EXPECT_THAT(error_of(video("text.mp4")).sentence(), StartsWith(what + "/text.mp4: "));
}

TEST_F(StreamFailures, SayWhyALiveSourceCannotBeOpened) {
  const Error refused = error_of({SourceKind::stream, "tcp://user:secret@127.0.0.1:1/a", 0});
  EXPECT_EQ(refused.kind, ErrorKind::input);
  EXPECT_THAT(refused.sentence(), StartsWith("cannot open the stream tcp://127.0.0.1:1/a: "));
  EXPECT_THAT(refused.sentence(), HasSubstr("Connection refused"));
  EXPECT_THAT(refused.sentence(), testing::Not(HasSubstr("secret")));
  EXPECT_THAT(error_of({SourceKind::csi, "", 0}).sentence(),
              StartsWith("cannot open CSI camera 0: no element \"nvarguscamerasrc\"; check that "));
  EXPECT_EQ(error_of({SourceKind::gst, "filesrc location=/no/such ! decodebin", 0}).sentence(),
            "cannot open the pipeline gst=filesrc location=/no/such ! decodebin: Resource not found; try it "
            "with gst-launch-1.0");
  const Error pipeline =
      error_of({SourceKind::gst, "filesrc location=http://user:secret@host/a ! decodebin", 0});
  EXPECT_THAT(pipeline.sentence(),
              StartsWith("cannot open the pipeline gst=filesrc location=http://host/a ! decodebin: "));
  EXPECT_THAT(pipeline.sentence(), testing::Not(HasSubstr("secret")));
}

TEST_F(StreamFailures, NameAMissingCamera) {
  if (fs::exists("/dev/video57")) GTEST_SKIP() << "this machine has a camera 57";
  EXPECT_EQ(error_of({SourceKind::camera, "", 57}).sentence(),
            "cannot open camera 57: no device /dev/video57; connect the camera, or use another number (ls "
            "/dev/video*)");
}

// --- sources that break off

TEST_F(StreamFailures, KeepTheFramesBeforeTheSenderCloses) {
  const Sender sender("HTTP/1.0 200 OK\r\nContent-Length: 10000000\r\n\r\n" + transport_stream(20), true);
  const SourceSpec spec = sender.source("http");
  auto reader = test::value_of(open_stream(spec, spec.path));
  Picture picture;
  int frames = 0;
  testing::internal::CaptureStderr();
  while (test::value_of(reader->next(picture))) ++frames;
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_EQ(frames, 20);
  EXPECT_THAT(warning, HasSubstr("the stream http://127.0.0.1:"));
  EXPECT_THAT(warning, HasSubstr("/a ended before frame 20"));
  EXPECT_THAT(warning, testing::Not(HasSubstr("secret")));
}

TEST_F(StreamFailures, NameAKilledProgram) {
  write_video(folder_ / "a.mp4", 500, 320, 240);
  const SourceSpec spec = video("a.mp4");
  auto reader = test::value_of(open_stream(spec, spec.path));
  Picture picture;
  ASSERT_TRUE(test::value_of(reader->next(picture)));
  reader->pause();
  const std::vector<pid_t> programs = children_of(::getpid());
  ASSERT_EQ(programs.size(), 1U);
  ASSERT_EQ(::kill(programs[0], SIGKILL), 0);
  Result<bool> more = true;
  while (more && *more) more = reader->next(picture);
  ASSERT_FALSE(more);
  EXPECT_THAT(more.error().sentence(), StartsWith("the video " + spec.path + " broke off at frame "));
  EXPECT_THAT(more.error().sentence(), HasSubstr("ffmpeg ended with SIGKILL (signal 9)"));
  EXPECT_FALSE(test::value_of(reader->next(picture))) << "the error is reported once";
}

// The program writes all frames and closes the pipe, but does not exit by itself.
TEST_F(StreamFailures, CountAllFramesOfAProgramThatDoesNotExit) {
  write_video(folder_ / "a.mp4", 3, 64, 48);
  test::write_text(folder_ / "ffmpeg", "#!/bin/sh\n/usr/bin/ffmpeg \"$@\"\nexec 3>&-\nexec /bin/sleep 600\n");
  fs::permissions(folder_ / "ffmpeg", fs::perms::owner_all);
  const test::ScopedEnvironment path("PATH", folder_.path().string());
  const SourceSpec spec = video("a.mp4");
  auto reader = test::value_of(open_stream(spec, spec.path));
  Picture picture;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(test::value_of(reader->next(picture))) << i;
  const auto more = reader->next(picture);
  ASSERT_TRUE(more) << more.error().sentence();
  EXPECT_FALSE(*more);
}

// Reads this process's memory from /proc up to a page without memory, where the kernel reports EIO.
TEST_F(StreamFailures, NameAReadErrorBetweenFrames) {
  constexpr PictureSize kSize{8, 4};
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  auto* pages = static_cast<char*>(
      ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(::munmap(pages + page, page), 0);
  UniqueFd memory(::open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
  const auto start = reinterpret_cast<std::uintptr_t>(pages + page) - 2 * kSize.bytes();
  ASSERT_EQ(::lseek(memory.get(), static_cast<off_t>(start), SEEK_SET), static_cast<off_t>(start));
  StreamReader reader(StreamInput(std::move(memory), std::nullopt), Framing::packed,
                      {"the raw frames a", "check it", {}, false}, kSize);
  Picture picture;
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(test::value_of(reader.next(picture))) << i;
  const auto broken = reader.next(picture);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().sentence(), "the raw frames a broke off at frame 2: Input/output error; check it");
  EXPECT_FALSE(test::value_of(reader.next(picture))) << "the error is reported once";
  ::munmap(pages, page);
}

TEST_F(StreamFailures, NameRawFramesThatEndWithinAFrame) {
  test::write_text(folder_ / "a.rgb", std::string(2 * 8 * 4 * 3 + 7, 'x'));
  const SourceSpec spec{SourceKind::raw, (folder_ / "a.rgb").string() + ",8x4,rgb", 0};
  auto reader = test::value_of(open_stream(spec, spec.path));
  Picture picture;
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(test::value_of(reader->next(picture)));
  const auto broken = reader->next(picture);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().sentence(),
            "the raw frames " + spec.path +
                " broke off at frame 2: it ends 7 bytes after the start of frame 2: the size or the pixel "
                "format may be wrong; check the program that writes them");
  EXPECT_FALSE(test::value_of(reader->next(picture)));
}

// --- sources that stall

TEST_F(StreamFailures, NameAStreamThatStalls) {
  // More than the 5 s that FFmpeg reads before the first frame
  const Sender sender(transport_stream(300), false);
  const SourceSpec spec = sender.source("tcp");
  auto reader = test::value_of(open_stream(spec, spec.path, kShortStall));
  Picture picture;
  Result<bool> more = true;
  int frames = -1;
  for (; more && *more; ++frames) more = reader->next(picture);
  ASSERT_FALSE(more);
  EXPECT_GT(frames, 0);
  EXPECT_THAT(more.error().sentence(), StartsWith("the stream tcp://127.0.0.1:"));
  EXPECT_THAT(more.error().sentence(),
              HasSubstr(fmt::format("/a stalled at frame {}: no frame for 2", frames)));
  EXPECT_FALSE(test::value_of(reader->next(picture)));
}

TEST_F(StreamFailures, NameASenderThatSendsNothing) {
  const Sender sender("", false);
  EXPECT_THAT(error_of(sender.source("tcp"), kShortStall).sentence(),
              HasSubstr("/a stalled at frame 0: no frame for 2"));
}

TEST_F(StreamFailures, NameAFifoWithoutAWriter) {
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  const SourceSpec spec{SourceKind::raw, (folder_ / "fifo").string() + ",8x4,rgb", 0};
  auto reader = test::value_of(open_stream(spec, spec.path, {100'000'000}));
  Picture picture;
  const auto more = reader->next(picture);
  ASSERT_FALSE(more);
  EXPECT_THAT(more.error().sentence(), HasSubstr("stalled at frame 0: no frame for 100.00 ms"));
}

}  // namespace
}  // namespace headroom::media
