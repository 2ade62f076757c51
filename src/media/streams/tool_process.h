// A running ffmpeg or gst-launch-1.0 that writes frames to a pipe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/subprocess.h"
#include "media/streams/stream_command.h"
#include "media/video_reader.h"

namespace headroom::media {

// Whether PATH has this program.
bool is_installed(const char* program);

// What is kept of the program's messages: its reasons, in bounded memory, and the size of the frames.
class ToolMessages {
 public:
  explicit ToolMessages(StreamTool tool) : tool_(tool) {}
  void add(std::string_view bytes);
  // The first message tells best why a start failed, the last why a stream ended. Empty if there is none.
  const std::string& first_reason() const { return first_; }
  const std::string& last_reason() const { return last_; }
  // The size that gst-launch-1.0 printed last. It can change until the first frame is there (a turned video),
  // which is when the pipeline is prerolled. The pipeline of a live source has no such state.
  std::optional<PictureSize> frame_size() const { return is_prerolled_ ? size_ : std::nullopt; }

 private:
  void add_line(std::string_view line);
  StreamTool tool_;
  std::string partial_, first_, last_;
  std::optional<PictureSize> size_;
  bool is_prerolled_ = false;
};

class ToolProcess {
 public:
  // `input` becomes the program's standard input; without it, that is /dev/null.
  static Result<ToolProcess> start(StreamTool tool, const std::vector<std::string>& command, int input = -1);

  StreamTool tool() const { return tool_; }
  int frames_fd() const { return frames_.get(); }
  int messages_fd() const { return messages_fd_.get(); }  // -1 after their end
  const ToolMessages& messages() const { return messages_; }
  // Reads what is there, without waiting.
  void read_messages();

  // Stops the program with SIGSTOP. Returns when all its threads have stopped.
  void pause();
  void resume();
  // The time that all its threads have computed so far.
  Nanoseconds cpu_time() const;
  // Waits for the end of a program that has closed its pipe, and reads its last messages. Returns nothing if
  // the program still ran after 2 s and was killed: that says nothing about its frames.
  std::optional<ExitStatus> finish();

 private:
  explicit ToolProcess(StreamTool tool) : tool_(tool), messages_(tool) {}
  StreamTool tool_;
  ToolMessages messages_;
  UniqueFd frames_, messages_fd_;
  Subprocess process_;  // ends before the pipes close
  bool paused_ = false;
};

}  // namespace headroom::media
