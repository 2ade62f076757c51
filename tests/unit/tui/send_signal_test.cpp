#include "tui/send_signal.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sources/process_memory.h"
#include "support/test_support.h"

namespace headroom::tui {
namespace {
using testing::HasSubstr;

TEST(SendSignal, SendsOnlyToTheProcessWithTheSameStartTime) {
  const pid_t child = ::fork();
  if (child == 0)
    for (;;) ::pause();
  ProcessSample process;
  process.pid = child;
  process.name = "any name";
  process.start_ticks = sources::read_process_start(child);
  ASSERT_TRUE(process.start_ticks);
  --*process.start_ticks;  // a process that had the same number before
  const auto other = send_signal(process, SIGKILL);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().sentence(), HasSubstr("another process has this number now"));
  EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), 0);
  process.start_ticks.reset();
  EXPECT_FALSE(send_signal(process, SIGKILL)) << "the start time is unknown";

  process.start_ticks = sources::read_process_start(child);
  EXPECT_TRUE(send_signal(process, SIGTERM));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
  const auto ended = send_signal(process, SIGTERM);
  ASSERT_FALSE(ended);
}

}  // namespace
}  // namespace headroom::tui
