// headroom top as users run it: with --once, on a terminal, and with a log.
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include <chrono>
#include <cstdlib>
#include <regex>

#include "base/files.h"
#include "base/text.h"
#include "cli/diff_matchers.h"
#include "command.h"

namespace headroom::test {
namespace {
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

// Runs headroom top on a pseudo-terminal.
class Terminal {
 public:
  explicit Terminal(std::vector<std::string> arguments, const char* term = "xterm-256color") {
    winsize size{rows_, columns_, 0, 0};
    int slave = -1;
    if (::openpty(&master_, &slave, nullptr, nullptr, &size) != 0) std::abort();
    ::tcgetattr(master_, &before_);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(master_);
      ::login_tty(slave);
      ::setenv("TERM", term, 1);
      ::setenv("LANG", "C.UTF-8", 1);
      ::unsetenv("NO_COLOR");
      const std::string binary = test::built_path("bin/headroom");
      std::vector<char*> words{const_cast<char*>("headroom"), const_cast<char*>("top")};
      for (std::string& argument : arguments) words.push_back(argument.data());
      words.push_back(nullptr);
      ::execv(binary.c_str(), words.data());
      ::_exit(127);
    }
    slave_ = slave;
  }
  ~Terminal() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(master_);
    ::close(slave_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Reads until `text` appears in the output since the last call. Returns false if it does not appear in 60
  // s. ncurses sends only changed cells, so words arrive in pieces; changing the size makes it send the whole
  // screen.
  bool shows(const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < deadline) {
      const std::size_t at = all_.find(text, seen_);
      if (at != std::string::npos) {
        seen_ = at + text.size();
        return true;
      }
      if (!read_some()) break;
      if (std::chrono::steady_clock::now() < redrawn_ + std::chrono::milliseconds(500)) continue;
      redrawn_ = std::chrono::steady_clock::now();
      is_wider_ = !is_wider_;
      set_size();
    }
    return all_.find(text, seen_) != std::string::npos;
  }
  void type(std::string_view keys) {
    ASSERT_EQ(::write(master_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  void resize(unsigned short columns, unsigned short rows) {
    columns_ = columns;
    rows_ = rows;
    set_size();
  }
  void signal(int number) { ::kill(pid_, number); }
  // The status from waitpid().
  int wait() {
    int status = -1;
    while (::waitpid(pid_, &status, WNOHANG) == 0) read_some();
    pid_ = -1;
    while (read_some()) {
    }
    return status;
  }
  bool has_original_settings() const {
    termios now{};
    ::tcgetattr(master_, &now);
    return now.c_lflag == before_.c_lflag && now.c_iflag == before_.c_iflag && now.c_oflag == before_.c_oflag;
  }
  const std::string& all() const { return all_; }

 private:
  bool read_some() {
    pollfd polled{master_, POLLIN, 0};
    if (::poll(&polled, 1, 200) <= 0) return pid_ > 0;
    char buffer[4096];
    const ssize_t got = ::read(master_, buffer, sizeof buffer);
    if (got <= 0) return false;
    all_.append(buffer, static_cast<std::size_t>(got));
    return true;
  }

  void set_size() {
    const winsize size{rows_, static_cast<unsigned short>(columns_ + (is_wider_ ? 1 : 0)), 0, 0};
    ::ioctl(master_, TIOCSWINSZ, &size);  // the kernel sends SIGWINCH
  }

  unsigned short columns_ = 80, rows_ = 24;
  bool is_wider_ = false;
  std::chrono::steady_clock::time_point redrawn_ = std::chrono::steady_clock::now();
  int master_ = -1, slave_ = -1;
  pid_t pid_ = -1;
  termios before_{};
  std::string all_;
  std::size_t seen_ = 0;
};

constexpr const char* kAlternateScreen = "\033[?1049h";
constexpr const char* kNormalScreen = "\033[?1049l";

void expect_restored(const Terminal& terminal) {
  EXPECT_TRUE(terminal.has_original_settings());
  const auto left = terminal.all().rfind(kNormalScreen);
  ASSERT_NE(left, std::string::npos);
  EXPECT_EQ(terminal.all().find(kAlternateScreen, left), std::string::npos);
  EXPECT_THAT(terminal.all(), HasSubstr("\033[?25h"));  // the cursor
}

std::string log_of(int samples) {
  std::string log;
  for (int i = 1; i <= samples; ++i)
    log += "{\"time_ns\":" + std::to_string(i) +
           "00000000,\"ram_total_bytes\":8589934592,\"ram_used_bytes\":" + std::to_string(i) +
           "073741824,\"process_table\":[{\"pid\":" + std::to_string(100 + i) + ",\"name\":\"step" +
           std::to_string(i) + "\",\"rss_bytes\":1048576}]}\n";
  return log;
}

TEST(Top, OncePrintsWithoutATerminal) {
  EXPECT_THAT(run_headroom({"top", "--once", "--processes", "3"}, {.environment = {{"COLUMNS", "100"}}}),
              Ends(0, AllOf(HasSubstr("Memory "), HasSubstr("processes"), Not(HasSubstr("\033")))));
  const auto coloured = run_headroom({"top", "--once", "--color", "always", "--width", "60"});
  EXPECT_THAT(coloured.out, HasSubstr("\033["));
}

TEST(Top, OncePrintsJson) {
  const Json sample = json_of(run_headroom({"top", "--json"}));
  EXPECT_GT(get_integer(sample, "ram_total_bytes").value_or(0), 0);
  EXPECT_FALSE(get_member(sample, "process_table").empty());
}

TEST(Top, ReadsAnotherSysroot) {
  TemporaryFolder root;
  std::filesystem::create_directories(root / "proc");
  write_text(root / "proc/meminfo",
             "MemTotal: 4096 kB\nMemFree: 1024 kB\nBuffers: 0 kB\nCached: 0 kB\nAnonPages: 2048 kB\n");
  EXPECT_THAT(run_headroom({"top", "--once", "--sysroot", root.path().string()}),
              Ends(0, HasSubstr("3.00 MiB of 4.00 MiB used (75 %)")));
  EXPECT_THAT(run_headroom({"top", "--once", "--sysroot", (root / "none").string()}),
              IsRefused(HasSubstr("has neither proc nor sys")));
}

TEST(Top, ExplainsTheFixWithoutATerminal) {
  EXPECT_THAT(run_headroom({"top"}), IsRefused(HasSubstr("add --once")));
}

TEST(Top, RunsOnAnUnknownTerminal) {
  Terminal terminal({}, "no-such-terminal");
  EXPECT_TRUE(terminal.shows("set TERM=xterm-256color"));
  EXPECT_EQ(WEXITSTATUS(terminal.wait()), 2);
  EXPECT_TRUE(terminal.has_original_settings());
}

TEST(Top, HandlesKeysAndRestoresTheTerminal) {
  Terminal terminal({"--interval", "100ms"});
  ASSERT_TRUE(terminal.shows(kAlternateScreen));
  ASSERT_TRUE(terminal.shows("Memory "));
  ASSERT_TRUE(terminal.shows("quit"));
  terminal.type("?");
  ASSERT_TRUE(terminal.shows("headroom top: keys"));
  terminal.type("?");
  ASSERT_TRUE(terminal.shows("Memory "));
  terminal.type("s");
  ASSERT_TRUE(terminal.shows("gpu"));
  terminal.type("/no_such_process\n");
  ASSERT_TRUE(terminal.shows("No process matches the filter."));
  terminal.type("u");
  ASSERT_TRUE(terminal.shows("paused"));
  terminal.type("q");
  const int status = terminal.wait();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  expect_restored(terminal);
}

// Overwrites in place and with one write, because the sources keep their files open.
void overwrite(const std::filesystem::path& path, std::string_view text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(::pwrite(fd.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
}

// Each sample contains the counts since the previous one, so a pause must not drop samples.
TEST(Top, ReportsAKillDuringAPauseAfterwards) {
  TemporaryFolder root;
  std::filesystem::create_directories(root / "proc");
  write_text(root / "proc/meminfo", "MemTotal: 4096 kB\nMemFree: 3072 kB\nBuffers: 0 kB\nCached: 0 kB\n");
  write_text(root / "proc/vmstat", "oom_kill 3\n");
  write_text(root / "rules.toml", "[[rule]]\nname = \"oom_kill\"\nclear_for = \"1h\"\n");
  Terminal terminal(
      {"--interval", "50ms", "--sysroot", root.path().string(), "--alerts", (root / "rules.toml").string()});
  ASSERT_TRUE(terminal.shows("quit"));
  ASSERT_TRUE(terminal.shows("(25 %)"));
  terminal.type("u");
  ASSERT_TRUE(terminal.shows("paused"));
  overwrite(root / "proc/vmstat", "oom_kill 4\n");
  overwrite(root / "proc/meminfo", "MemTotal: 4096 kB\nMemFree: 1024 kB\nBuffers: 0 kB\nCached: 0 kB\n");
  ::usleep(1'000'000);  // some samples
  ASSERT_TRUE(terminal.shows("(25 %)")) << "the picture does not change";
  terminal.type("u");
  ASSERT_TRUE(terminal.shows("oom_kill"));
  ASSERT_TRUE(terminal.shows("(75 %)"));
  terminal.type("q");
  EXPECT_EQ(terminal.wait(), 0);
}

TEST(Top, FollowsTheSizeOfTheTerminal) {
  Terminal terminal({"--interval", "100ms"});
  ASSERT_TRUE(terminal.shows("quit"));
  EXPECT_EQ(terminal.all().find("THR"), std::string::npos);
  terminal.resize(120, 40);
  ASSERT_TRUE(terminal.shows("THR"));  // a column that fits now
  terminal.resize(10, 3);
  terminal.resize(1, 1);
  terminal.resize(80, 24);
  ASSERT_TRUE(terminal.shows("quit"));
  terminal.type("q");
  EXPECT_EQ(terminal.wait(), 0);
  expect_restored(terminal);
}

TEST(Top, RestoresTheTerminalOnEverySignal) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGABRT}) {
    Terminal terminal({"--interval", "100ms"});
    ASSERT_TRUE(terminal.shows("quit"));
    terminal.signal(number);
    terminal.wait();
    SCOPED_TRACE(number);
    expect_restored(terminal);
  }
}

TEST(Top, PrintsWithoutColours) {
  for (const char* term : {"vt100", "xterm", "linux", "screen"}) {
    Terminal terminal({"--color", "never"}, term);
    ASSERT_TRUE(terminal.shows("Memory")) << term;
    terminal.type("q");
    EXPECT_EQ(terminal.wait(), 0);
    const std::regex color("\033\\[([0-9]+;)*[34][0-8](;[0-9]+)*m");
    EXPECT_FALSE(std::regex_search(terminal.all(), color)) << term;
  }
}

TEST(TopReplay, StepsThroughALog) {
  TemporaryFolder folder;
  write_text(folder / "run.jsonl", log_of(7) + "{\"time_ns\":9,\"cut");
  Terminal terminal({"--replay", (folder / "run.jsonl").string(), "--alerts", "off"});
  ASSERT_TRUE(terminal.shows("run.jsonl"));
  ASSERT_TRUE(terminal.shows("step7"));
  terminal.type("\177");  // from the beginning
  ASSERT_TRUE(terminal.shows("step"));
  terminal.type("u");
  ASSERT_TRUE(terminal.shows("paused"));
  terminal.type("]]");
  ASSERT_TRUE(terminal.shows("×4"));
  terminal.type("x");
  ASSERT_TRUE(terminal.shows("cannot send signals"));
  terminal.type("q");
  EXPECT_EQ(terminal.wait(), 0);
  expect_restored(terminal);
}

TEST(TopReplay, OncePrintsTheLastSample) {
  TemporaryFolder folder;
  write_text(folder / "run.jsonl", log_of(3));
  EXPECT_THAT(run_headroom({"top", "--once", "--replay", (folder / "run.jsonl").string()}),
              Ends(0, AllOf(HasSubstr("sample 3 of 3"), HasSubstr("step3"))));
  EXPECT_THAT(run_headroom({"top", "--once", "--replay", (folder / "none").string()}),
              IsRefused(HasSubstr("cannot open")));
}

}  // namespace
}  // namespace headroom::test
