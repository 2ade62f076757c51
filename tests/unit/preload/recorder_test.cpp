// The recorder without the hooks: concurrent threads record, and a reader checks the result. ThreadSanitizer
// runs this test.
#include "preload/recorder.h"
#include "preload/recording_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <thread>
#include <vector>

#include "preload/scopes.h"
#include "recording/recording.h"
#include "support/test_support.h"

namespace headroom::preload {
namespace {

const CallFrame kNowhere{};

void allocate(std::uint64_t address, std::uint64_t size) {
  ThreadLocal& thread = thread_local_state;
  const Guard guard(thread);
  on_allocation(thread, reinterpret_cast<void*>(address), size, kNowhere);
}
void release(std::uint64_t address) {
  ThreadLocal& thread = thread_local_state;
  const Guard guard(thread);
  finish_release(thread, begin_release(reinterpret_cast<void*>(address)));
}

// A process has one recording, so this is one test.
TEST(TracerRecorder, ConcurrentThreadsLoseNothing) {
  const test::TemporaryFolder folder;
  const std::string path = (folder / "core.hrec").string();
  ::setenv("HEADROOM_TRACE_FILE", path.c_str(), 1);
  ::setenv("HEADROOM_TRACE_OPTIONS", "full=1,stacks=off", 1);
  ASSERT_TRUE(is_recording(thread_local_state));
  constexpr std::uint64_t kThreads = 8, kRounds = 4, kBlocks = 10'000;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < kThreads; ++t)
      threads.emplace_back([t] {
        const char name[] = {'l', 'a', 'y', 'e', 'r', static_cast<char>('0' + t)};
        const std::uint32_t scope = intern_scope(0, recording::ScopeSource::node, name, sizeof name);
        set_scope(scope);
        for (std::uint64_t i = 1; i <= kBlocks; ++i) {
          const std::uint64_t address = (t << 32) + i * 64;
          allocate(address, t * 1000 + i % 1000);
          if (i % 2 == 0) release(address);
        }
        set_scope(0);
      });
    // The process ends its recording while the threads write, and then continues, as after a failed exec.
    {
      const Guard guard(thread_local_state);
      finish_recording();
      if (auto ended = recording::Recording::open(path)) {
        ended->for_each_event([](const MemoryEvent&) {});
        EXPECT_THAT(ended->problems(), testing::Not(testing::Contains(testing::HasSubstr("was changed"))));
      }
      resume_recording();
    }
    for (auto& thread : threads) thread.join();
  }
  {
    const Guard guard(thread_local_state);
    finish_recording();
  }
  auto opened = recording::Recording::open(path);
  ASSERT_TRUE(opened) << opened.error().sentence();
  EXPECT_TRUE(opened->info().closed);
  EXPECT_EQ(opened->info().events_dropped, 0u);
  std::vector<std::uint64_t> allocations(kThreads, 0), releases(kThreads, 0);
  std::uint64_t in_wrong_scope = 0;
  opened->for_each_event([&](const MemoryEvent& event) {
    const std::uint64_t t = event.address >> 32;
    if (event.kind == MemoryEventKind::allocate) {
      ++allocations[t];
      if (opened->path_of(event.scope) != "layer" + std::to_string(t)) ++in_wrong_scope;
      EXPECT_EQ(event.size / 1000, t);
    }
    if (event.kind == MemoryEventKind::release) ++releases[t];
  });
  EXPECT_THAT(opened->problems(), testing::IsEmpty());
  EXPECT_EQ(in_wrong_scope, 0u);
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    EXPECT_EQ(allocations[t], kRounds * kBlocks);
    EXPECT_EQ(releases[t], kRounds * kBlocks / 2);
  }
  // Later threads continue the segments of ended ones.
  EXPECT_LE(opened->info().segments, kThreads * 2);
}

}  // namespace
}  // namespace headroom::preload
