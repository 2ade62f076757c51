#include "media/streams/stream_command.h"

#include <fmt/format.h>

#include <initializer_list>

#include "base/text.h"

namespace headroom::media {
namespace {

using Words = std::vector<std::string>;

void append(Words& words, std::initializer_list<const char*> more) {
  words.insert(words.end(), more.begin(), more.end());
}

bool is_rtsp(const std::string& address) {
  return address.starts_with("rtsp://") || address.starts_with("rtsps://");
}

std::string camera_device(const SourceSpec& spec) { return fmt::format("/dev/video{}", spec.camera_index); }

void append_input(Words& words, const SourceSpec& spec, const std::string& path) {
  if (spec.kind == SourceKind::camera) {
    append(words, {"-f", "v4l2", "-i"});
    words.push_back(camera_device(spec));
  } else if (spec.kind == SourceKind::stream) {
    // Over UDP, the packets that come while the program is stopped would be lost.
    if (is_rtsp(spec.path)) append(words, {"-rtsp_transport", "tcp"});
    append(words, {"-i"});
    words.push_back(spec.path);
  } else {
    append(words, {"-i"});
    words.push_back("file:" + path);  // otherwise the part before a colon is a protocol
  }
}

Words ffmpeg_command(const SourceSpec& spec, const std::string& path) {
  // With its default of one thread per core, FFmpeg decodes the following frames in the background.
  Words words{program_of(StreamTool::ffmpeg),
              "-nostdin",
              "-hide_banner",
              "-loglevel",
              "error",
              "-filter_threads",
              "1",
              "-flush_packets",
              "1",
              "-threads",
              "1"};
  append_input(words, spec, path);
  // Numbering the frames anew keeps FFmpeg from repeating or dropping some for a constant rate. The option
  // for this has another name in each of the versions 4 and 9.
  append(words, {"-map", "0:V:0", "-vf", "settb=1/25,setpts=N", "-r", "25", "-sws_flags", "bicubic",
                 "-pix_fmt", "bgr24", "-threads", "1", "-c:v", "bmp", "-f", "image2pipe"});
  words.push_back(fmt::format("pipe:{}", kFramesFd));
  return words;
}

Words gstreamer_input(const SourceSpec& spec) {
  switch (spec.kind) {
    case SourceKind::camera:
      return {"v4l2src", "device=" + camera_device(spec), "!", "decodebin"};
    case SourceKind::csi:
      return {"nvarguscamerasrc",       fmt::format("sensor-id={}", spec.camera_index), "!", "nvvidconv", "!",
              "video/x-raw,format=BGRx"};
    case SourceKind::stream:
      if (is_rtsp(spec.path))
        return {"rtspsrc", "protocols=tcp", fmt::format("location=\"{}\"", spec.path), "!", "decodebin"};
      return {"uridecodebin", fmt::format("uri=\"{}\"", spec.path)};
    case SourceKind::gst: {
      Words words;
      for (const std::string_view word : split_words(spec.path)) words.emplace_back(word);
      return words;
    }
    default:
      // A name with blanks or quotes would be read as a part of the pipeline.
      return {"filesrc", "location=/proc/self/fd/0", "!", "decodebin"};
  }
}

Words gstreamer_command(const SourceSpec& spec) {
  Words words{program_of(StreamTool::gstreamer), "-v"};
  const Words input = gstreamer_input(spec);
  words.insert(words.end(), input.begin(), input.end());
  if (spec.kind == SourceKind::video)
    append(words, {"!", "videoconvert", "!", "videoflip", "video-direction=auto"});
  append(words, {"!", "videoconvert", "!", "video/x-raw,format=BGR", "!", "fdsink", "sync=false"});
  words.push_back(fmt::format("name={}", kSinkName));
  words.push_back(fmt::format("fd={}", kFramesFd));
  return words;
}

}  // namespace

const char* program_of(StreamTool tool) { return tool == StreamTool::ffmpeg ? "ffmpeg" : "gst-launch-1.0"; }

std::vector<StreamTool> tools_for(SourceKind kind) {
  if (kind == SourceKind::csi || kind == SourceKind::gst) return {StreamTool::gstreamer};
  return {StreamTool::ffmpeg, StreamTool::gstreamer};
}

std::vector<std::string> stream_command(StreamTool tool, const SourceSpec& spec, const std::string& path) {
  return tool == StreamTool::ffmpeg ? ffmpeg_command(spec, path) : gstreamer_command(spec);
}

std::vector<std::string> frame_count_command(const std::string& path) {
  return {"ffprobe",
          "-v",
          "error",
          "-select_streams",
          "V:0",
          "-show_entries",
          "stream=nb_frames,avg_frame_rate:format=duration",
          "-of",
          "default=nw=1",
          "file:" + path};
}

}  // namespace headroom::media
