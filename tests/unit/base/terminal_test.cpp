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

// The output_status() sentence of a process that prints to `fd`. Runs in a child, because standard output and
// its first error are global to the process.
std::string status_after_printing_to(int fd) {
  auto answer = Pipe::create();
  EXPECT_TRUE(answer);
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGPIPE, SIG_IGN);
    ::dup2(fd, STDOUT_FILENO);
    print_output("one line\n");
    print_output("another\n");
    const Status status = output_status();
    [[maybe_unused]] const auto sent =
        write_all(answer->write_end.get(), status ? "fine" : status.error().sentence());
    ::_exit(0);
  }
  answer->write_end.reset();
  std::string text(4096, '\0');
  const ssize_t got = ::read(answer->read_end.get(), text.data(), text.size());
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  ::waitpid(child, nullptr, 0);
  return text;
}

TEST(PrintOutput, ReportsAFullDiskAtTheEnd) {
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  if (!full) GTEST_SKIP() << test::absent_message("/dev/full");
  EXPECT_EQ(status_after_printing_to(full.get()),
            "cannot write to standard output: No space left on device; check where it is redirected to");
}

TEST(PrintOutput, IgnoresAClosedPipe) {
  auto pipe = Pipe::create();
  ASSERT_TRUE(pipe);
  pipe->read_end.reset();
  EXPECT_EQ(status_after_printing_to(pipe->write_end.get()), "fine");
}

TEST(PrintOutput, PrintsTheWholeText) {
  auto pipe = Pipe::create();
  ASSERT_TRUE(pipe);
  EXPECT_EQ(status_after_printing_to(pipe->write_end.get()), "fine");
  std::string text(4096, '\0');
  const ssize_t got = ::read(pipe->read_end.get(), text.data(), text.size());
  ASSERT_GT(got, 0);
  EXPECT_EQ(text.substr(0, static_cast<std::size_t>(got)), "one line\nanother\n");
}

TEST(TerminalControl, IsRemoved) {
  EXPECT_EQ(without_terminal_control("\033[0;93m2026 [W:onnxruntime]\033[m said\033[1A"),
            "2026 [W:onnxruntime] said");
  EXPECT_EQ(without_terminal_control("\033]0;title\aa\033]8;;link\033\\b"), "ab");
  EXPECT_EQ(without_terminal_control("a\033(Bb\0337c\rd\be\x7f"), "abcde");
  EXPECT_EQ(without_terminal_control("tab\tand µ, 顔\n"), "tab\tand µ, 顔\n");
  EXPECT_EQ(without_terminal_control("py\u009b2J\u0080x \u00a0\u00a9\xc2"), "py2Jx \u00a0\u00a9\xc2")
      << "U+009B also begins a sequence";
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

TEST(Subprocess, PlacesInheritedDescriptorsAtTheirNumbers) {
  auto pipe = Pipe::create();
  SpawnOptions options;
  options.command = {"sh", "-c", "echo through >&3"};
  options.inherited = {{pipe->write_end.get(), 3}};
  auto child = Subprocess::spawn(options);
  ASSERT_TRUE(child);
  pipe->write_end.reset();
  EXPECT_EQ(drain(pipe->read_end.get()), "through\n");
  EXPECT_TRUE(child->wait().success());
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

TEST(BackgroundWriter, RejectsTextsWhileBlockedAndContinuesLater) {
  auto pipe = Pipe::create();
  ASSERT_TRUE(pipe);
  BackgroundWriter writer([fd = pipe->write_end.get()](std::string_view text) {
    [[maybe_unused]] const auto written = write_all(fd, text);
  });
  const std::string text(10'000, 'x');
  std::size_t taken = 0;
  for (int i = 0; i < 1000; ++i) taken += writer.offer(text) ? text.size() : 0;
  EXPECT_LT(taken, std::size_t{2} << 20);
  EXPECT_GE(taken, BackgroundWriter::kCapacity - text.size());
  EXPECT_FALSE(writer.flush({}));
  std::string buffer(64 << 10, ' ');
  for (std::size_t left = taken; left > 0;) {
    const ssize_t got = ::read(pipe->read_end.get(), buffer.data(), buffer.size());
    ASSERT_GT(got, 0);
    left -= static_cast<std::size_t>(got);
  }
  EXPECT_TRUE(writer.flush(kLong));
}

}  // namespace

}  // namespace headroom
