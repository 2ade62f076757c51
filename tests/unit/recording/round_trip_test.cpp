// The reader returns what the writer wrote.
#include <algorithm>
#include <array>
#include <limits>

#include "recording/encoding.h"
#include "unit/recording/events.h"

namespace headroom::recording {
namespace {

using test::OwnRecording;
using test::RecordingBuilder;
using testing::ElementsAre;
using testing::IsEmpty;
using Kind = MemoryEventKind;
using Frames = RecordingBuilder::Frames;

std::vector<std::uint64_t> frames_of(const Recording& recording, const MemoryEvent& event) {
  const auto frames = recording.stacks().frames(event.stack);
  return {frames.begin(), frames.end()};
}

// At the end of the bytes, and with others behind it (the fast path).
TEST(Varint, RoundTripsAnyNumberInAtMostTenBytes) {
  for (unsigned bits = 0; bits <= 64; ++bits) {
    const std::uint64_t value = bits == 64 ? 0 : ~std::uint64_t{0} >> bits;
    for (const std::uint8_t behind : {std::uint8_t{0}, std::uint8_t{0xff}}) {
      std::array<std::uint8_t, 32> bytes;
      bytes.fill(behind);
      const std::uint8_t* const end = put_varint(bytes.data(), value);
      for (const std::uint8_t* limit : {end, end + 16}) {
        const std::uint8_t* at = bytes.data();
        EXPECT_EQ(get_varint(at, limit), value);
        EXPECT_EQ(at, end);
      }
      const std::uint8_t* cut = bytes.data();
      EXPECT_EQ(get_varint(cut, end - 1), 0u);
      EXPECT_EQ(cut, nullptr);
    }
  }
  std::array<std::uint8_t, 32> endless;
  endless.fill(0x80);
  const std::uint8_t* at = endless.data();
  EXPECT_EQ(get_varint(at, endless.data() + endless.size()), 0u);
  EXPECT_EQ(at, nullptr) << "it has more than ten bytes";
}

// The writer of the preload library: the same bytes, and at most three more.
TEST(Varint, WithSlackWritesTheSameBytes) {
  const auto check = [](std::uint64_t value) {
    std::array<std::uint8_t, 16> plain, with_slack;
    plain.fill(0xee);
    with_slack.fill(0xee);
    const auto bytes = put_varint(plain.data(), value) - plain.data();
    ASSERT_EQ(put_varint_with_slack(with_slack.data(), value) - with_slack.data(), bytes) << value;
    EXPECT_TRUE(std::equal(plain.begin(), plain.begin() + bytes, with_slack.begin())) << value;
    for (std::size_t i = static_cast<std::size_t>(bytes) + kVarintSlack; i < with_slack.size(); ++i)
      EXPECT_EQ(with_slack[i], 0xee) << value;
  };
  for (unsigned bits = 0; bits < 64; ++bits)
    for (const std::uint64_t near : {0, 1, 2}) check((std::uint64_t{1} << bits) + near - 1);
  check(~std::uint64_t{0});
  for (std::uint64_t value = 0; value < 70'000; ++value) check(value);
}

TEST(RoundTrip, KeepsEveryKindOfEvent) {
  OwnRecording builder;
  const auto model = builder.scope("model", 0, ScopeSource::session);
  const auto layer = builder.scope("conv1", model, ScopeSource::node);
  const Frames stack{0x401000, 0x402000, 0x403000};
  builder.enter_scope(0, 10, layer);
  builder.allocate(0, 20, 0x7f0000001000, 5000, stack);
  builder.sample(0, 21, 0x7f0000004000, 100, stack);
  builder.map(0, 22, 0x7f1000000000, 1 << 20);
  builder.unmap(0, 5000, 0x7f1000000000, 1 << 20);
  builder.release(0, 5000, 0x7f0000001000);
  builder.counters(0, 5001, model, 70, 7000, 60);
  builder.gap(0, 1'000'000'000'000, 33);
  Recording recording = builder.open();
  const Seen seen = read_events(recording);
  EXPECT_THAT(seen.problems, IsEmpty());
  std::vector<Kind> kinds;
  std::vector<std::int64_t> times;
  for (const MemoryEvent& event : seen.events) {
    kinds.push_back(event.kind);
    times.push_back(event.time.count);
  }
  ASSERT_THAT(kinds,
              ElementsAre(Kind::enter_scope, Kind::allocate, Kind::sampled_allocate, Kind::map, Kind::unmap,
                          Kind::release, Kind::counters, Kind::release_counters, Kind::gap));
  EXPECT_THAT(times, ElementsAre(10, 20, 21, 22, 5000, 5000, 5001, 5001, 1'000'000'000'000));

  EXPECT_EQ(seen.events[1].address, 0x7f0000001000u);
  EXPECT_EQ(seen.events[1].size, 5000u);
  EXPECT_EQ(seen.events[1].scope.index, layer);
  EXPECT_EQ(seen.events[1].weight, 1);
  EXPECT_EQ(frames_of(recording, seen.events[1]), stack);
  EXPECT_EQ(seen.events[2].stack, seen.events[1].stack);
  // A sample of s bytes represents 1 / (1 − e^(−s / period)) allocations.
  EXPECT_NEAR(seen.events[2].weight, 512.0 * 1024 / 100, 1);
  EXPECT_EQ(seen.events[3].stack.index, 0u);
  EXPECT_EQ(seen.events[4].size, 1u << 20);
  EXPECT_EQ(seen.events[5].address, 0x7f0000001000u);
  EXPECT_EQ(seen.events[6].scope.index, model);
  EXPECT_EQ(seen.events[6].count, 70u);
  EXPECT_EQ(seen.events[6].size, 7000u);
  EXPECT_EQ(seen.events[7].scope.index, model);
  EXPECT_EQ(seen.events[7].count, 60u);
  // The counters belong to another scope; the thread's scope is unchanged.
  EXPECT_EQ(seen.events[8].scope.index, layer);
  EXPECT_EQ(seen.events[8].count, 33u);
  EXPECT_EQ(recording.path_of(ScopeId{layer}), "model/conv1");
  EXPECT_EQ(recording.path_of(ScopeId{99}), "");
}

TEST(RoundTrip, KeepsReservedAndAccessibleAddresses) {
  OwnRecording builder;
  const auto layer = builder.scope("conv1");
  const Frames stack{0x401000, 0x402000};
  builder.allocate(0, 5, 0x7f0000001000, 10);
  builder.enter_scope(0, 10, layer);
  builder.reserve(0, 20, 0x7f1000000000, std::uint64_t{1} << 40);
  builder.make_accessible(0, 30, 0x7f1000001000, 8192, stack);
  builder.release(0, 40, 0x7f0000001000);  // reservations do not change the base of address deltas
  Recording recording = builder.open();
  const Seen seen = read_events(recording);
  EXPECT_THAT(seen.problems, IsEmpty());
  ASSERT_EQ(seen.events.size(), 5u);
  EXPECT_EQ(seen.events[2].kind, Kind::reserve);
  EXPECT_EQ(seen.events[2].address, 0x7f1000000000u);
  EXPECT_EQ(seen.events[2].size, std::uint64_t{1} << 40);
  EXPECT_EQ(seen.events[3].kind, Kind::make_accessible);
  EXPECT_EQ(seen.events[3].address, 0x7f1000001000u);
  EXPECT_EQ(seen.events[3].scope.index, layer);
  EXPECT_EQ(frames_of(recording, seen.events[3]), stack);
  EXPECT_EQ(seen.events[4].address, 0x7f0000001000u);
}

TEST(RoundTrip, KeepsProcessInformation) {
  OwnRecording builder({.full = false, .exec_generation = 3, .command = {"/opt/a b", "", "--x"}});
  builder.thread(0, 77, "main");
  builder.thread(2, 79, "worker");
  builder.module("/lib/libx.so", std::string("\xab\x01", 2), 0x1000, 0x3000, 0x1000, 10);
  builder.module("/lib/liby.so", "", 0x5000, 0x6000, 0x5000, 20);
  builder.module_gone(0x1000, 30);
  const auto session = builder.scope("session", 0, ScopeSource::session);
  builder.profile("/tmp/profile.json", 500, session);
  builder.note("the disk was full");
  builder.metadata(static_cast<MetadataKind>(1000), 0, "of a later version");
  builder.allocate(0, 40, 0x1000, 8);
  const auto recording = Recording::open(builder.finish());
  ASSERT_TRUE(recording.has_value()) << recording.error().sentence();
  const RecordingInfo& info = recording->info();
  EXPECT_THAT(info.command, ElementsAre("/opt/a b", "", "--x"));
  EXPECT_EQ(info.executable, "/opt/a b");
  EXPECT_EQ(info.pid, 4242);
  EXPECT_EQ(info.parent_pid, 4241);
  EXPECT_EQ(info.exec_generation, 3);
  EXPECT_FALSE(info.full);
  EXPECT_TRUE(info.closed);
  EXPECT_EQ(info.large_bytes, 4096u);
  ASSERT_EQ(info.threads.size(), 3u);
  EXPECT_EQ(info.threads[0].tid, 77);
  EXPECT_EQ(info.threads[1].name, "");
  EXPECT_EQ(info.threads[2].name, "worker");
  ASSERT_EQ(info.modules.size(), 2u);
  EXPECT_EQ(info.modules[0].build_id, "ab01");
  EXPECT_EQ(info.modules[0].path, "/lib/libx.so");
  EXPECT_EQ(info.modules[0].loaded.count, 10);
  ASSERT_TRUE(info.modules[0].unloaded.has_value());
  EXPECT_EQ(info.modules[0].unloaded->count, 30);
  EXPECT_FALSE(info.modules[1].unloaded.has_value());
  ASSERT_EQ(info.profiles.size(), 1u);
  EXPECT_EQ(info.profiles[0].start.count, 500);
  EXPECT_EQ(info.profiles[0].session.index, session);
  EXPECT_THAT(info.notes, ElementsAre("the disk was full",
                                      testing::StartsWith("the nodes of session are not distinguished")));
  EXPECT_THAT(recording->problems(), IsEmpty());
}

TEST(RoundTrip, StacksHaveOneIdInAllSegments) {
  OwnRecording builder;
  const std::vector<Frames> stacks{
      {0x30, 0x20, 0x10}, {0x31, 0x20, 0x10},        {0x40, 0x31, 0x20, 0x10}, {0x10}, {0x99},
      {0x30, 0x20, 0x10}, {0xffffffffffffff00, 0x10}};
  std::uint64_t time = 0;
  for (int segment = 0; segment < 2; ++segment) {
    for (const Frames& stack : stacks) {
      ++time;
      builder.allocate(0, time, 0x1000 * time, 64, stack);
    }
    builder.end_segment(0);
  }
  Recording recording = builder.open();
  EXPECT_EQ(recording.info().segments, 2u);
  const Seen seen = read_events(recording);
  ASSERT_EQ(seen.events.size(), 2 * stacks.size());
  for (std::size_t i = 0; i < seen.events.size(); ++i) {
    EXPECT_EQ(frames_of(recording, seen.events[i]), stacks[i % stacks.size()]);
    EXPECT_EQ(seen.events[i].stack, seen.events[i % stacks.size()].stack);
  }
  EXPECT_EQ(seen.events[0].stack, seen.events[5].stack);
  EXPECT_EQ(recording.stacks().size(), 7u);  // with the empty one
  EXPECT_EQ(read_events(recording).events[3].stack, seen.events[3].stack) << "a second walk gives other ids";
}

TEST(RoundTrip, KeepsTheDeepestStack) {
  OwnRecording builder;
  Frames deep;
  for (std::uint64_t i = 0; i < kMaxFrames; ++i)
    deep.push_back(i % 2 == 0 ? 0x10 + i : std::numeric_limits<std::uint64_t>::max() - i);
  builder.allocate(0, 1, 0x1000, 1, deep);
  Recording recording = builder.open();
  const Seen seen = read_events(recording);
  ASSERT_EQ(seen.events.size(), 1u);
  EXPECT_EQ(frames_of(recording, seen.events[0]), deep);
}

TEST(RoundTrip, ConvertsTimeUnitsToNanoseconds) {
  // a unit is 16 ticks
  OwnRecording builder({.time_shift = 4, .nanoseconds_per_tick = 0.5});
  builder.allocate(0, 1000, 0x1000, 8);
  builder.release(0, 1'000'000'000, 0x1000);
  const Seen seen = read_events(builder.finish());
  ASSERT_EQ(seen.events.size(), 2u);
  EXPECT_NEAR(static_cast<double>(seen.events[0].time.count), 8000, 1);
  EXPECT_NEAR(static_cast<double>(seen.events[1].time.count), 8e9, 10);
}

TEST(RoundTrip, IgnoresAClockThatRunsBackwards) {
  OwnRecording builder;
  builder.allocate(0, 100, 0x1000, 8);
  builder.release(0, 40, 0x1000);
  builder.allocate(0, 120, 0x2000, 8);
  const Seen seen = read_events(builder.finish());
  ASSERT_EQ(seen.events.size(), 3u);
  EXPECT_EQ(seen.events[1].time.count, 100);
  EXPECT_EQ(seen.events[2].time.count, 120);
}

}  // namespace
}  // namespace headroom::recording
