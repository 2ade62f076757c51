#include "base/subprocess.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>

namespace headroom {
namespace {

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

}  // namespace
}  // namespace headroom
