// Merges the events of many threads by time.
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "unit/recording/events.h"

namespace headroom::recording {
namespace {

using test::RecordingBuilder;
using test::RecordingOptions;
using testing::ElementsAre;
using Kind = MemoryEventKind;

TEST(Merge, InterleavesThreadsByTime) {
  test::TemporaryFolder folder;
  RecordingBuilder builder(folder / "a.hrec");
  for (const std::uint64_t time : {1, 4, 7}) builder.allocate(0, time, 0x1000 * time, 8);
  for (const std::uint64_t time : {2, 3, 9}) builder.allocate(1, time, 0x1000 * time, 8);
  for (const std::uint64_t time : {5, 6, 8}) builder.allocate(2, time, 0x1000 * time, 8);
  std::vector<std::int64_t> times;
  std::vector<std::uint32_t> threads;
  for (const MemoryEvent& event : read_events(builder.finish()).events) {
    times.push_back(event.time.count);
    threads.push_back(event.thread.index);
  }
  EXPECT_THAT(times, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(threads, ElementsAre(0, 1, 1, 0, 2, 2, 0, 2, 1));
}

// One thread frees an address and another receives it in the same unit of time: it is never live twice.
TEST(Merge, OrdersReleasesFirstAtEqualTimes) {
  for (const std::uint32_t releasing : {0U, 1U}) {
    test::TemporaryFolder folder;
    RecordingBuilder builder(folder / "a.hrec");
    const std::uint32_t other = 1 - releasing;
    builder.allocate(releasing, 10, 0x1000, 8);
    if (releasing == 1) builder.allocate(0, 11, 0x9000, 8);  // its segment begins earlier than the event
    builder.allocate(other, 20, 0x1000, 16);
    builder.release(releasing, 20, 0x1000);
    std::vector<Kind> of_address;
    for (const MemoryEvent& event : read_events(builder.finish()).events)
      if (event.address == 0x1000) of_address.push_back(event.kind);
    EXPECT_THAT(of_address, ElementsAre(Kind::allocate, Kind::release, Kind::allocate)) << releasing;
  }
}

// Threads pass blocks to each other over many segments. In the reader's order each address is live at most
// once, every release finds its block, and each thread's events keep their order.
TEST(Merge, KeepsOrderOverManySegments) {
  test::TemporaryFolder folder;
  RecordingOptions options;
  options.segment_bytes = 4096;
  options.segments_limit = 10'000;
  RecordingBuilder builder(folder / "a.hrec", options);
  std::mt19937 random(20261121);
  constexpr std::uint32_t kThreads = 7;
  constexpr int kEvents = 50'000;
  std::vector<std::uint64_t> free_addresses, live;
  for (std::uint64_t i = 1; i <= 64; ++i) free_addresses.push_back(i * 4096);
  std::map<std::uint64_t, std::uint64_t> allocated_at;
  std::uint64_t time = 0;
  for (int i = 0; i < kEvents; ++i) {
    time += random() % 40;
    const auto thread = static_cast<std::uint32_t>(random() % kThreads);
    const bool allocate = live.empty() || (!free_addresses.empty() && random() % 2 == 0);
    auto& from = allocate ? free_addresses : live;
    auto& to = allocate ? live : free_addresses;
    std::swap(from[random() % from.size()], from.back());
    const std::uint64_t address = from.back();
    from.pop_back();
    to.push_back(address);
    // The tracer timestamps an allocation after the real call, and a free before it. So a block is freed
    // after its allocation, and its address can be reused in the same unit of time.
    if (allocate) {
      allocated_at[address] = time;
      builder.allocate(thread, time, address, static_cast<std::uint64_t>(i), {address, 0x10});
    } else {
      time = std::max(time, allocated_at[address] + 1);
      builder.release(thread, time, address);
    }
  }
  auto recording = Recording::open(builder.finish());
  ASSERT_TRUE(recording.has_value());
  EXPECT_GT(recording->info().segments, 50u);
  std::set<std::uint64_t> held;
  std::int64_t last_time = 0;
  int events = 0;
  recording->for_each_event([&](const MemoryEvent& event) {
    ++events;
    EXPECT_GE(event.time.count, last_time);
    last_time = event.time.count;
    if (event.kind == Kind::allocate) {
      EXPECT_TRUE(held.insert(event.address).second) << event.address << " is live twice";
      EXPECT_EQ(recording->stacks().frames(event.stack)[0], event.address);
    } else {
      EXPECT_EQ(held.erase(event.address), 1u) << event.address << " was not live";
    }
  });
  EXPECT_EQ(events, kEvents);
  EXPECT_TRUE(std::equal(held.begin(), held.end(), std::set(live.begin(), live.end()).begin()));
}

TEST(Merge, AssignsEventsAfterASegmentChangesThreads) {
  test::TemporaryFolder folder;
  RecordingBuilder builder(folder / "a.hrec");
  const auto layer = builder.scope("layer");
  builder.enter_scope(0, 1, layer);
  builder.allocate(0, 2, 0x1000, 8, {0x10});
  builder.hand_over(0, 3, 5);
  builder.allocate(0, 4, 0x2000, 8, {0x10});
  const auto events = read_events(builder.finish()).events;
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].thread.index, 0u);
  EXPECT_EQ(events[1].scope.index, layer);
  EXPECT_EQ(events[2].thread.index, 5u);
  EXPECT_EQ(events[2].scope.index, 0u);
  EXPECT_EQ(events[2].stack, events[1].stack);
}

TEST(Merge, KeepsAThreadsScopeInItsNextSegment) {
  test::TemporaryFolder folder;
  RecordingBuilder builder(folder / "a.hrec");
  const auto layer = builder.scope("layer");
  builder.enter_scope(0, 1, layer);
  builder.end_segment(0);
  builder.allocate(0, 2, 0x1000, 8);
  const auto events = read_events(builder.finish()).events;
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].scope.index, layer);
}

TEST(Ring, KeepsTheLastSegments) {
  test::TemporaryFolder folder;
  RecordingOptions options;
  options.ring = true;
  options.segment_bytes = 4096;
  options.segments_limit = 4;
  RecordingBuilder builder(folder / "a.hrec", options);
  constexpr std::uint64_t kLast = 20'000;
  for (std::uint64_t time = 1; time <= kLast; ++time) builder.allocate(0, time, 0x1000 * time, time);
  auto recording = Recording::open(builder.finish());
  ASSERT_TRUE(recording.has_value());
  EXPECT_EQ(recording->info().segments, 4u);
  EXPECT_GT(recording->info().segments_overwritten, 0u);
  const Seen seen = read_events(*recording);
  EXPECT_THAT(seen.problems, testing::IsEmpty());
  ASSERT_FALSE(seen.events.empty());
  EXPECT_EQ(seen.events.back().size, kLast);
  EXPECT_EQ(seen.events.front().size, kLast + 1 - seen.events.size()) << "a hole among the last events";
}

TEST(Limit, CountsEventsBeyondTheLimit) {
  test::TemporaryFolder folder;
  RecordingOptions options;
  options.segment_bytes = 4096;
  options.segments_limit = 2;
  RecordingBuilder builder(folder / "a.hrec", options);
  for (std::uint64_t time = 1; time <= 5000; ++time) builder.allocate(0, time, 0x1000 * time, 8);
  auto recording = Recording::open(builder.finish());
  ASSERT_TRUE(recording.has_value());
  EXPECT_EQ(recording->info().events_dropped + read_events(*recording).events.size(), 5000u);
}

}  // namespace
}  // namespace headroom::recording
