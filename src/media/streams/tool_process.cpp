#include "media/streams/tool_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "base/terminal.h"
#include "base/text.h"

namespace headroom::media {
namespace {

constexpr std::size_t kLongestMessage = 4096;
constexpr int kFramePipeBytes = 1 << 20;
constexpr Nanoseconds kToolExitTimeout{2'000'000'000};

// The number after `key` in a line such as "…, width=(int)768, height=(int)576".
int number_after(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return 0;
  line.remove_prefix(at + key.size());
  return parse_number<int>(line.substr(0, line.find_first_not_of("0123456789"))).value_or(0);
}

// Without the part before the message: "[mov,mp4,m4a @ 0x55d0c9b2] moov atom not found".
std::string_view ffmpeg_reason(std::string_view line) {
  if (line.starts_with("Last message repeated")) return {};
  while (line.starts_with('[') && line.find("] ") != std::string_view::npos)
    line.remove_prefix(line.find("] ") + 2);
  return line;
}

// "ERROR: from element /GstPipeline:pipeline0/GstFileSrc:filesrc0: Resource not found."
std::string_view gstreamer_reason(std::string_view line) {
  for (const std::string_view head : {"ERROR: from element ", "WARNING: erroneous pipeline"}) {
    if (!line.starts_with(head)) continue;
    const std::size_t colon = line.find(": ", head.size());
    return colon == std::string_view::npos ? std::string_view() : line.substr(colon + 2);
  }
  return {};
}

}  // namespace

bool is_installed(const char* program) {
  const char* path = std::getenv("PATH");
  for (const std::string_view folder : split(path != nullptr ? path : "/bin:/usr/bin", ':'))
    if (::access((std::filesystem::path(folder) / program).c_str(), X_OK) == 0) return true;
  return false;
}

void ToolMessages::add(std::string_view bytes) {
  for (const char byte : bytes) {
    if (byte == '\n')
      add_line(std::exchange(partial_, {}));
    else if (partial_.size() < kLongestMessage)
      partial_ += byte;
  }
}

void ToolMessages::add_line(std::string_view line) {
  line = trim(line);
  if (line.find(fmt::format(":{}.GstPad:sink: caps = ", kSinkName)) != std::string_view::npos) {
    size_ = PictureSize{number_after(line, "width=(int)"), number_after(line, "height=(int)")};
    return;
  }
  if (line.starts_with("Pipeline is PREROLLED") || line.starts_with("Pipeline is live")) is_prerolled_ = true;
  const std::string_view reason = tool_ == StreamTool::ffmpeg ? ffmpeg_reason(line) : gstreamer_reason(line);
  if (reason.empty()) return;
  last_ = without_terminal_control(reason);
  while (last_.ends_with('.')) last_.pop_back();
  if (first_.empty()) first_ = last_;
}

Result<ToolProcess> ToolProcess::start(StreamTool tool, const std::vector<std::string>& command, int input) {
  auto frames = Pipe::create();
  auto messages = Pipe::create();
  if (!frames) return forward_error(frames);
  if (!messages) return forward_error(messages);
  // Fewer switches between the processes. The pipe keeps its size if the user's pipes have all their memory.
  ::fcntl(frames->read_end.get(), F_SETPIPE_SZ, kFramePipeBytes);
  ::fcntl(messages->read_end.get(), F_SETFL, O_NONBLOCK);
  SpawnOptions options;
  options.command = command;
  options.environment = {{"LC_ALL", "C"}};  // untranslated messages
  options.stdin_fd = input;
  options.stdout_fd = options.stderr_fd = messages->write_end.get();
  options.inherited = {{frames->write_end.get(), kFramesFd}};
  auto process = Subprocess::spawn(options);
  if (!process) return forward_error(process);
  ToolProcess started(tool);
  started.frames_ = std::move(frames->read_end);
  started.messages_fd_ = std::move(messages->read_end);
  started.process_ = std::move(*process);
  return started;
}

void ToolProcess::read_messages() {
  std::array<char, 4096> buffer;
  while (messages_fd_) {
    const ssize_t got = ::read(messages_fd_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return messages_fd_.reset();
    messages_.add({buffer.data(), static_cast<std::size_t>(got)});
  }
}

void ToolProcess::pause() {
  if (paused_ || !process_.running()) return;
  process_.signal(SIGSTOP);
  siginfo_t info{};
  int waited = 0;
  do waited = ::waitid(P_PID, static_cast<id_t>(process_.pid()), &info, WSTOPPED | WEXITED | WNOWAIT);
  while (waited != 0 && errno == EINTR);
  paused_ = true;
}

void ToolProcess::resume() {
  if (!paused_) return;
  process_.signal(SIGCONT);
  paused_ = false;
}

Nanoseconds ToolProcess::cpu_time() const {
  clockid_t clock{};
  timespec time{};
  if (::clock_getcpuclockid(process_.pid(), &clock) != 0 || ::clock_gettime(clock, &time) != 0) return {};
  return {time.tv_sec * 1'000'000'000LL + time.tv_nsec};
}

std::optional<ExitStatus> ToolProcess::finish() {
  resume();
  const std::optional<ExitStatus> status = process_.wait_for(kToolExitTimeout);
  if (!status) {
    process_.signal(SIGKILL);
    process_.wait();
  }
  read_messages();
  return status;
}

}  // namespace headroom::media
