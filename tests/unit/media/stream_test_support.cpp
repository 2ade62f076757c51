#include "unit/media/stream_test_support.h"

#include <fmt/format.h>

#include <sstream>

#include "base/files.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "support/test_support.h"

namespace headroom::media {

void run_program(const std::vector<std::string>& command) {
  SpawnOptions options;
  options.command = command;
  auto process = Subprocess::spawn(options);
  ASSERT_TRUE(process) << process.error().sentence();
  const ExitStatus status = process->wait();
  EXPECT_TRUE(status.success()) << command.front() << ": " << status.describe();
}

void write_video(const std::filesystem::path& path, int frames, int width, int height) {
  const std::string extension = path.extension();
  const std::string codec = extension == ".avi" ? "mjpeg" : extension == ".mov" ? "png" : "mpeg4";
  run_program({"ffmpeg", "-nostdin", "-loglevel", "error", "-y", "-f", "lavfi", "-i",
               fmt::format("testsrc=size={}x{}:rate=25", width, height), "-frames:v", std::to_string(frames),
               "-c:v", codec, path});
}

namespace {

struct ProcessState {
  char state = '?';
  pid_t parent = 0;
};

ProcessState read_state(pid_t process) {
  const auto stat = read_small_file(fmt::format("/proc/{}/stat", process));
  ProcessState found;
  if (!stat) return found;
  std::istringstream fields(stat->substr(stat->rfind(") ") + 2));  // the name may have blanks
  fields >> found.state >> found.parent;
  return found;
}

}  // namespace

std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto number = parse_number<pid_t>(entry.path().filename().string());
    if (number && read_state(*number).parent == process) children.push_back(*number);
  }
  return children;
}

char state_of(pid_t process) { return read_state(process).state; }

}  // namespace headroom::media
