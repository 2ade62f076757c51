#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <array>
#include <cstdlib>
#include <string>

#include "base/background_writer.h"
#include "base/files.h"
#include "base/log.h"
#include "base/subprocess.h"
#include "base/terminal.h"
#include "base/utf8.h"
#include "support/test_support.h"

namespace headroom {
namespace {

TEST(TerminalControl, IsRemoved) {
  EXPECT_EQ(without_terminal_control("\033[0;93m2026 [W:onnxruntime]\033[m said\033[1A"),
            "2026 [W:onnxruntime] said");
  EXPECT_EQ(without_terminal_control("\033]0;title\aa\033]8;;link\033\\b"), "ab");
  EXPECT_EQ(without_terminal_control("a\033(Bb\0337c\rd\be\x7f"), "abcde");
  EXPECT_EQ(without_terminal_control("tab\tand µ, 顔\n"), "tab\tand µ, 顔\n");
  EXPECT_EQ(without_terminal_control("py\u009b2J\u0080x \u00a0\u00a9\xc2"), "py2Jx \u00a0\u00a9\uFFFD")
      << "U+009B also begins a sequence";
}

TEST(TerminalControl, ReplacesInvalidUtf8) {
  EXPECT_EQ(without_terminal_control("CPU-th\xed\xa0\x80rm"), "CPU-th\uFFFD\uFFFD\uFFFDrm");
}

TEST(TerminalControl, AnIncompleteSequenceEndsWithTheText) {
  for (const char* cut : {"a\033", "a\033[", "a\033[31", "a\033]0;title", "a\033]0;x\033", "a\033("})
    EXPECT_EQ(without_terminal_control(cut), "a");
}

// A line that wraps would leave its first part on screen at each redraw.
TEST(ProgressLine, IsNeverWiderThanTheTerminal) {
  const UniqueFd screen(::posix_openpt(O_RDWR | O_NOCTTY));
  if (!screen || ::grantpt(screen.get()) != 0 || ::unlockpt(screen.get()) != 0)
    GTEST_SKIP() << test::absent_message("a pseudo-terminal");
  const winsize size{24, 40, 0, 0};
  const std::string name = ::ptsname(screen.get());
  const UniqueFd terminal(::open(name.c_str(), O_RDWR | O_NOCTTY));
  ASSERT_TRUE(terminal && ::ioctl(terminal.get(), TIOCSWINSZ, &size) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(terminal.get(), STDERR_FILENO);
    ProgressLine line;
    line.update("模型 of a very long name, and longer still", 0.5, "frame 100 of 200\033[1A");
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  std::string text(4096, '\0');
  const ssize_t got = ::read(screen.get(), text.data(), text.size());
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  const std::string start = "\r\033[K";
  ASSERT_TRUE(text.starts_with(start)) << text;
  EXPECT_EQ(display_width(text.substr(start.size(), text.rfind("…") - start.size())) + 1, 39);
  EXPECT_EQ(text.find("\033[1A"), std::string::npos);
}

TEST(Log, WritesNoEscapesToTheFile) {
  const test::TemporaryFolder folder;
  ASSERT_TRUE(log::open_file(folder / "run.log"));
  log::debug("[_worker] {}", "\033[0;93mwarning from a runtime\033[m");
  log::close_file();
  const std::string text = test::read_text(folder / "run.log");
  EXPECT_THAT(text, testing::HasSubstr("[_worker] warning from a runtime\n"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("\033")));
}

std::string drain(int fd) {
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t got = 0; (got = ::read(fd, buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(got));
  return text;
}

TEST(Subprocess, ReturnsOutputAndExitCode) {
  auto pipe = Pipe::create();
  SpawnOptions options;
  options.command = {"sh", "-c", "echo \"$GREETING\"; exit 3"};
  options.environment = {{"GREETING", "hello"}};
  options.stdout_fd = pipe->write_end.get();
  auto child = Subprocess::spawn(options);
  ASSERT_TRUE(child);
  pipe->write_end.reset();
  EXPECT_EQ(drain(pipe->read_end.get()), "hello\n");
  const ExitStatus status = child->wait();
  EXPECT_EQ(status.exit_code, 3);
  EXPECT_EQ(status.describe(), "exit code 3");
  EXPECT_GT(status.peak_rss.count, 0);
}

TEST(Subprocess, SpawnFailsForAMissingProgram) {
  SpawnOptions options;
  options.command = {"/nonexistent/program"};
  const auto child = Subprocess::spawn(options);
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error().sentence(),
            "cannot start /nonexistent/program: No such file or directory; check the name and PATH");
}

TEST(Subprocess, SpawnFailsWhenTheHookFails) {
  SpawnOptions options;
  options.command = {"true"};
  options.before_exec = [] { return EPERM; };
  const auto child = Subprocess::spawn(options);
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error().why, "Operation not permitted");
}

TEST(Subprocess, KillsTheProcessGroupAndDescribesTheSignal) {
  SpawnOptions options;
  options.command = {"sh", "-c", "sleep 100 & wait"};
  auto child = Subprocess::spawn(options);
  ASSERT_TRUE(child);
  EXPECT_FALSE(child->wait_for(Nanoseconds{20'000'000}));
  child->signal(SIGKILL);
  EXPECT_EQ(child->wait().describe(), "SIGKILL (signal 9)");
}

TEST(Subprocess, DestructorKillsAndReaps) {
  pid_t pid = 0;
  {
    SpawnOptions options;
    options.command = {"sleep", "100"};
    auto child = Subprocess::spawn(options);
    ASSERT_TRUE(child);
    pid = child->pid();
  }
  EXPECT_EQ(::kill(pid, 0), -1);
}

constexpr Nanoseconds kLong{60'000'000'000};  // only reached if the test hangs

TEST(BackgroundWriter, WritesAllInOrder) {
  std::string written;
  BackgroundWriter writer([&](std::string_view text) { written += text; });
  std::string expected;
  for (int i = 0; i < 1000; ++i) {
    const std::string text = std::to_string(i) + "\n";
    ASSERT_TRUE(writer.offer(text, kLong));
    expected += text;
  }
  ASSERT_TRUE(writer.flush(kLong));
  EXPECT_TRUE(
      writer.offer(std::string(2 * BackgroundWriter::kCapacity, 'x')));  // longer than the queue, but alone
  expected += std::string(2 * BackgroundWriter::kCapacity, 'x');
  ASSERT_TRUE(writer.flush(kLong));
  EXPECT_EQ(written, expected);
}

}  // namespace

}  // namespace headroom
