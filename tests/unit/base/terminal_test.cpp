#include "base/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "base/display_width.h"
#include "base/files.h"
#include "base/log.h"
#include "base/subprocess.h"
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

}  // namespace
}  // namespace headroom
