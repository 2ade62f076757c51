// Many threads, and the death of a process at any moment.
#include <unistd.h>

#include <random>
#include <set>
#include <sstream>

#include "unit/preload/traced_program.h"

namespace headroom::test {
namespace {

struct Account {
  std::uint64_t allocations = 0, releases = 0, bytes = 0;
};
// The last line that the program printed.
Account last_account(const std::string& output) {
  Account account;
  std::istringstream in(output);
  for (Account next; in >> next.allocations >> next.releases >> next.bytes;) account = next;
  return account;
}

// Counts the program's own blocks, and checks that an address is never live twice.
Account account_of(const SeenRecording& seen) {
  Account account;
  std::map<std::uint64_t, std::uint64_t> live;
  std::size_t live_twice = 0;
  for (const SeenEvent& event : seen.events) {
    if (event.event.kind == MemoryEventKind::allocate) {
      if (!live.emplace(event.event.address, event.event.size).second) ++live_twice;
      if (event.event.size % 10'000 != 1 || event.event.size < 100'000) continue;
      account.allocations += 1;
      account.bytes += event.event.size;
    }
    if (event.event.kind != MemoryEventKind::release) continue;
    const auto found = live.find(event.event.address);
    if (found == live.end()) continue;
    if (found->second % 10'000 == 1 && found->second > 100'000) account.releases += 1;
    live.erase(found);
  }
  EXPECT_EQ(live_twice, 0u);
  return account;
}

TEST(TraceThreads, ReleaseAfterTheLastDestructorsKeepsTheThread) {
  const SeenRecording seen = recording_of({"traced_late", "20"});
  EXPECT_THAT(seen.problems, testing::IsEmpty());
  EXPECT_EQ(seen.allocations_of(90'001), 20u);
  EXPECT_EQ(seen.info.threads.size(), 21u);
}

TEST(TraceThreads, AHundredThreadsLoseNothing) {
  for (const char* options : {"full=1", "full=0"}) {
    TracedProgram traced(options);
    const ProgramRun run = traced.run({program_path("traced_threads"), "100", "3"});
    ASSERT_TRUE(run.status.success());
    const Account truth = last_account(run.output);
    const SeenRecording seen = traced.root();
    EXPECT_THAT(seen.problems, testing::IsEmpty());
    EXPECT_EQ(seen.info.events_dropped, 0u);
    const Account account = account_of(seen);
    EXPECT_EQ(account.allocations, truth.allocations);
    EXPECT_EQ(account.releases, truth.releases);
    EXPECT_EQ(account.bytes, truth.bytes);
    // Threads of the second round continue the segments of the first.
    EXPECT_LE(seen.info.segments, 102u);
    std::set<std::string> names;
    for (const auto& thread : seen.info.threads) names.insert(thread.name);
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(names.contains("worker " + std::to_string(i))) << i;
  }
}

// Everything that a program reported before it was killed is in the recording.
TEST(TraceThreads, KillAtAnyMomentLosesNoEvent) {
  constexpr int kTimes = 20;
  std::mt19937 random(20261121);
  for (int i = 0; i < kTimes; ++i) {
    TracedProgram traced;
    auto pipe = Pipe::create();
    ASSERT_TRUE(pipe);
    auto process = traced.start({program_path("traced_threads"), "4", "1", "forever"}, pipe->write_end.get());
    ASSERT_TRUE(process);
    pipe->write_end = UniqueFd();
    std::string output;
    char buffer[4096];
    ssize_t size = 0;
    const std::size_t lines = 1 + random() % 8;
    while (static_cast<std::size_t>(std::count(output.begin(), output.end(), '\n')) < lines &&
           (size = ::read(pipe->read_end.get(), buffer, sizeof buffer)) > 0)
      output.append(buffer, static_cast<std::size_t>(size));
    ::usleep(static_cast<useconds_t>(random() % 3000));
    process->signal(SIGKILL);
    process->wait();
    while ((size = ::read(pipe->read_end.get(), buffer, sizeof buffer)) > 0)
      output.append(buffer, static_cast<std::size_t>(size));
    const Account truth = last_account(output);
    ASSERT_GT(truth.allocations, 0u);
    const SeenRecording seen = traced.root();
    EXPECT_FALSE(seen.info.closed);
    EXPECT_THAT(seen.problems, testing::IsEmpty());
    const Account account = account_of(seen);
    EXPECT_GE(account.allocations, truth.allocations);
    EXPECT_GE(account.releases, truth.releases);
    EXPECT_GE(account.bytes, truth.bytes);
  }
}

// All names together would not fit in the area for names and modules.
TEST(TraceThreads, NamesOfManyThreadsLeaveSpaceForScopes) {
  const SeenRecording seen = recording_of({"traced_crowd", "60000", "1", "0"});
  EXPECT_THAT(seen.problems, testing::IsEmpty());
  EXPECT_THAT(seen.scopes_of(77701), testing::ElementsAre("late"));
  EXPECT_THAT(seen.info.notes, testing::ElementsAre(testing::HasSubstr("have no names")));
  EXPECT_EQ(seen.allocations_of(1000), 60'000u);
  EXPECT_GT(seen.info.threads.size(), 20'000u);
  EXPECT_EQ(seen.info.threads[20'000].name.substr(0, 12), "traced_crowd");
}

TEST(TraceThreads, AllocatorsAndScopesAreNotCancellationPoints) {
  for (const char* options : {"", "full=1"}) {
    TracedProgram traced(options);
    EXPECT_EQ(traced.run({program_path("traced_cancel")}).status.exit_code, 0) << options;
    EXPECT_EQ(traced.root().info.events_dropped, 0u) << options;
  }
}

}  // namespace
}  // namespace headroom::test
