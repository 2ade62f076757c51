// Opens videos, cameras, network streams, GStreamer pipelines and raw frames. All but raw frames are decoded
// by a child process: ffmpeg or gst-launch-1.0.
#pragma once

#include <memory>

#include "base/result.h"
#include "media/streams/stream_input.h"
#include "media/video_reader.h"
#include "types/source.h"

namespace headroom::media {

// The frames come once only, and their number is unknown: cameras, streams, pipelines, and a FIFO.
bool is_live(const SourceSpec& spec);
// Two processes cannot read it at the same time.
bool is_exclusive(const SourceSpec& spec);

// An error if no program that reads this source is installed.
Status check_stream_tools(const SourceSpec& spec);

// `path`: the file, for a video. Waits for the first frame, except from a FIFO of raw frames.
Result<std::unique_ptr<VideoReader>> open_stream(const SourceSpec& spec, const std::string& path,
                                                 Nanoseconds stall_time = kStallTime);

}  // namespace headroom::media
