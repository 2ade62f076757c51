// The driver hooks linked into the test program, in front of the fake driver, called by concurrent threads.
// So sanitizers can check them.
#include <gtest/gtest.h>

#include <map>

#include "preload/recording_start.h"
#include "preload/threads.h"
#include "recording/recording.h"
#include "support/hooked_cuda.h"
#include "support/test_support.h"

namespace headroom::preload {
namespace {

// One test only, because a process has one ledger and one recording.
TEST(TracerDeviceHooks, RandomCallsByThreadsStayWithinTheLimitAndAreRecorded) {
  constexpr std::uint64_t kLimit = std::uint64_t{1} << 30;
  const test::TemporaryFolder folder;
  const std::string path = (folder / "hooks.hrec").string();
  ::setenv("FAKE_CUDA_GRANULE", "2097152", 1);
  ::setenv("FAKE_CUDA_PREEMPT", "16", 1);
  cuda_program::install_hooks(path, kLimit);
  constexpr std::uint64_t kCalls = 500, kThreads = 3;
  for (std::uint64_t seed = 1; seed <= 4; ++seed)
    EXPECT_TRUE(cuda_program::run_random_calls(kLimit, seed, kCalls, kThreads)) << "seed " << seed;
  {
    const Guard guard(thread_local_state);
    finish_recording();
  }
  auto recording = recording::Recording::open(path);
  ASSERT_TRUE(recording) << recording.error().sentence();
  std::map<MemoryEventKind, int> count;
  std::map<std::pair<DeviceMemoryKind, std::uint64_t>, std::uint64_t> live;
  recording->for_each_event([&](const MemoryEvent& event) {
    ++count[event.kind];
    const std::pair key{event.device_kind, event.address};
    if (event.kind == MemoryEventKind::device_allocate) live[key] = event.size;
    if (event.kind == MemoryEventKind::device_release) live.erase(key);
  });
  EXPECT_GT(count[MemoryEventKind::device_allocate], 1000);
  EXPECT_GT(count[MemoryEventKind::device_refused], 10);
  EXPECT_TRUE(live.empty()) << live.size() << " allocations were never released";
}

}  // namespace
}  // namespace headroom::preload
