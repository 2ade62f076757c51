// The command lines of the programs that decode videos, cameras and network streams.
#pragma once

#include <string>
#include <vector>

#include "types/source.h"

namespace headroom::media {

enum class StreamTool { ffmpeg, gstreamer };
// "ffmpeg", "gst-launch-1.0".
const char* program_of(StreamTool tool);

// The descriptor on which the program writes the frames.
inline constexpr int kFramesFd = 3;
// The name of the pipeline's last element. gst-launch-1.0 prints the size of its frames with this name.
inline constexpr const char* kSinkName = "headroom";

// The programs that can read this kind of source, the preferred first.
std::vector<StreamTool> tools_for(SourceKind kind);

// The command that writes all frames as 8-bit BGR to kFramesFd: FFmpeg as BMP pictures, GStreamer as rows
// that are padded to 4 bytes. `path` is the video's file; for GStreamer the file is its standard input.
std::vector<std::string> stream_command(StreamTool tool, const SourceSpec& spec, const std::string& path);

// The command that prints the number of frames, the frame rate and the duration of a video, as `name=value`.
std::vector<std::string> frame_count_command(const std::string& path);

}  // namespace headroom::media
