// The command lines of cameras, which the tests cannot start: there is none.
#include "media/streams/stream_command.h"

#include "base/text.h"
#include "support/test_support.h"

namespace headroom::media {
namespace {

std::string line(StreamTool tool, const SourceSpec& spec) {
  return shell_command(stream_command(tool, spec, "/data/a b.mp4"));
}

constexpr const char* kFfmpegHead =
    "ffmpeg -nostdin -hide_banner -loglevel error -filter_threads 1 -flush_packets 1 -threads 1 ";
constexpr const char* kFfmpegTail =
    " -map 0:V:0 -vf settb=1/25,setpts=N -r 25 -sws_flags bicubic -pix_fmt bgr24 -threads 1 -c:v bmp -f "
    "image2pipe pipe:3";
constexpr const char* kTurned = " '!' videoconvert '!' videoflip video-direction=auto";
constexpr const char* kGstreamerTail =
    " '!' videoconvert '!' video/x-raw,format=BGR '!' fdsink sync=false name=headroom fd=3";

TEST(StreamCommand, StartsFfmpeg) {
  const auto ffmpeg = [](const SourceSpec& spec) { return line(StreamTool::ffmpeg, spec); };
  EXPECT_EQ(ffmpeg({SourceKind::video, "", 0}),
            std::string(kFfmpegHead) + "-i 'file:/data/a b.mp4'" + kFfmpegTail);
  EXPECT_EQ(ffmpeg({SourceKind::camera, "", 2}),
            std::string(kFfmpegHead) + "-f v4l2 -i /dev/video2" + kFfmpegTail);
  EXPECT_EQ(ffmpeg({SourceKind::stream, "rtsp://u:p@host/a", 0}),
            std::string(kFfmpegHead) + "-rtsp_transport tcp -i rtsp://u:p@host/a" + kFfmpegTail);
  EXPECT_EQ(ffmpeg({SourceKind::stream, "http://host/a.mp4", 0}),
            std::string(kFfmpegHead) + "-i http://host/a.mp4" + kFfmpegTail);
}

TEST(StreamCommand, StartsGstreamer) {
  const auto gstreamer = [](const SourceSpec& spec) { return line(StreamTool::gstreamer, spec); };
  EXPECT_EQ(gstreamer({SourceKind::video, "", 0}),
            std::string("gst-launch-1.0 -v filesrc location=/proc/self/fd/0 '!' decodebin") + kTurned +
                kGstreamerTail);
  EXPECT_EQ(gstreamer({SourceKind::camera, "", 2}),
            std::string("gst-launch-1.0 -v v4l2src device=/dev/video2 '!' decodebin") + kGstreamerTail);
  EXPECT_EQ(gstreamer({SourceKind::csi, "", 1}),
            std::string("gst-launch-1.0 -v nvarguscamerasrc sensor-id=1 '!' nvvidconv '!' "
                        "video/x-raw,format=BGRx") +
                kGstreamerTail);
  EXPECT_EQ(
      gstreamer({SourceKind::stream, "rtsp://host/a", 0}),
      std::string("gst-launch-1.0 -v rtspsrc protocols=tcp 'location=\"rtsp://host/a\"' '!' decodebin") +
          kGstreamerTail);
  EXPECT_EQ(gstreamer({SourceKind::stream, "http://host/a.mp4", 0}),
            std::string("gst-launch-1.0 -v uridecodebin 'uri=\"http://host/a.mp4\"'") + kGstreamerTail);
  EXPECT_EQ(gstreamer({SourceKind::gst, "realsensesrc stream-type=2  ! rsdemux", 0}),
            std::string("gst-launch-1.0 -v realsensesrc stream-type=2 '!' rsdemux") + kGstreamerTail);
}

TEST(StreamCommand, TriesFfmpegFirst) {
  EXPECT_THAT(tools_for(SourceKind::video), testing::ElementsAre(StreamTool::ffmpeg, StreamTool::gstreamer));
  EXPECT_THAT(tools_for(SourceKind::csi), testing::ElementsAre(StreamTool::gstreamer));
}

}  // namespace
}  // namespace headroom::media
