// Merges the events of many threads by time.

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "unit/recording/events.h"

namespace headroom::recording {

namespace {

using test::OwnRecording;
using test::RecordingBuilder;
using testing::ElementsAre;
using Kind = MemoryEventKind;

// One thread frees an address and another receives it in the same unit of time: it is never live twice.
TEST(Merge, OrdersReleasesFirstAtEqualTimes) {
  for (const std::uint32_t releasing : {0U, 1U}) {
    OwnRecording builder;
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
  OwnRecording builder({.segment_bytes = 4096, .segments_limit = 10'000});
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
  Recording recording = builder.open();
  EXPECT_GT(recording.info().segments, 50u);
  std::set<std::uint64_t> held;
  std::int64_t last_time = 0;
  int events = 0;
  recording.for_each_event([&](const MemoryEvent& event) {
    ++events;
    EXPECT_GE(event.time.count, last_time);
    last_time = event.time.count;
    if (event.kind == Kind::allocate) {
      EXPECT_TRUE(held.insert(event.address).second) << event.address << " is live twice";
      EXPECT_EQ(recording.stacks().frames(event.stack)[0], event.address);
    } else {
      EXPECT_EQ(held.erase(event.address), 1u) << event.address << " was not live";
    }
  });
  EXPECT_EQ(events, kEvents);
  EXPECT_TRUE(std::equal(held.begin(), held.end(), std::set(live.begin(), live.end()).begin()));
}

TEST(Merge, KeepsThreadsAndScopesOfSegments) {
  OwnRecording builder;
  const auto layer = builder.scope("layer");
  builder.enter_scope(0, 1, layer);
  builder.end_segment(0);  // the next one begins in the thread's scope
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

TEST(Ring, KeepsTheLastSegments) {
  OwnRecording builder({.ring = true, .segment_bytes = 4096, .segments_limit = 4});
  constexpr std::uint64_t kLast = 20'000;
  for (std::uint64_t time = 1; time <= kLast; ++time) builder.allocate(0, time, 0x1000 * time, time);
  Recording recording = builder.open();
  EXPECT_EQ(recording.info().segments, 4u);
  EXPECT_GT(recording.info().segments_overwritten, 0u);
  const Seen seen = read_events(recording);
  EXPECT_THAT(seen.problems, testing::IsEmpty());
  ASSERT_FALSE(seen.events.empty());
  EXPECT_EQ(seen.events.back().size, kLast);
  EXPECT_EQ(seen.events.front().size, kLast + 1 - seen.events.size()) << "a hole among the last events";
}

// Libraries that use the same addresses one after another.

constexpr std::uint64_t kProgram = 0x400000, kLibrary = 0x7f0000000000, kBytes = 0x10000;
const std::string kBuildA(20, '\xaa'), kBuildB(20, '\xbb');

class ModulePlacesTest : public testing::Test {
 protected:
  ModulePlacesTest() : builder_(folder_ / "a.hrec") {
    builder_.module("/app", std::string(20, '\x11'), kProgram, kProgram + kBytes, kProgram);
  }
  void load(const std::string& path, const std::string& build, std::uint64_t time,
            std::uint64_t at = kLibrary) {
    builder_.module(path, build, at, at + kBytes, at, time);
  }
  // An allocation of `size` by the library's code at `offset`, called by the program.
  void allocate(std::uint64_t time, std::uint64_t size, std::uint64_t offset = 0x100) {
    builder_.allocate(0, time, 0x1000 * size, size, {kLibrary + offset, kProgram + 0x50});
  }
  void open() {
    Recording opened = Recording::open(builder_.finish()).value();
    recording_.emplace(std::move(opened));
  }
  // Callers by size of the allocation: "liba.so+0x100 app+0x50".
  std::map<std::uint64_t, std::string> callers() {
    std::map<std::uint64_t, std::string> callers;
    for (const MemoryEvent& event : read_events(*recording_).events) {
      std::string& words = callers[event.size];
      for (const std::uint64_t frame : recording_->stacks().frames(event.stack))
        words += (words.empty() ? "" : " ") + name_of(frame);
    }
    return callers;
  }
  // The address alone must identify the module.
  std::string name_of(std::uint64_t frame) const {
    std::set<std::string> names;
    for (const Module& module : recording_->info().modules)
      if (frame > module.start && frame <= module.end)
        names.insert(fmt::format("{}+{:#x}", module.path.substr(1), frame - module.load_bias));
    return names.size() == 1 ? *names.begin() : fmt::format("{} modules", names.size());
  }

  test::TemporaryFolder folder_;
  RecordingBuilder builder_;
  std::optional<Recording> recording_;
};

TEST_F(ModulePlacesTest, HandlesModulesLoadedInTurns) {
  std::map<std::uint64_t, std::string> expected;
  for (std::uint64_t i = 0; i < 20; ++i) {
    const bool is_a = i % 2 == 0;
    load(is_a ? "/liba.so" : "/libb.so", is_a ? kBuildA : kBuildB, 100 * i);
    allocate(100 * i + 50, i + 1);
    builder_.module_gone(kLibrary, 100 * i + 90);
    expected[i + 1] = is_a ? "liba.so+0x100 app+0x50" : "libb.so+0x100 app+0x50";
  }
  allocate(5000, 100);  // no module is there now: the last one counts
  expected[100] = "libb.so+0x100 app+0x50";
  open();
  EXPECT_EQ(callers(), expected);
  EXPECT_LE(recording_->stacks().size(), 4U) << "no stack, the recorded one, and one of each library";
}

TEST_F(ModulePlacesTest, DistinguishesPartlyOverlappingModules) {
  load("/liba.so", kBuildA, 5, kLibrary - kBytes / 2);
  allocate(10, 1);
  builder_.module_gone(kLibrary - kBytes / 2, 20);
  load("/libb.so", kBuildB, 20);
  allocate(30, 2);
  open();
  EXPECT_EQ(callers(), (std::map<std::uint64_t, std::string>{{1, "liba.so+0x8100 app+0x50"},
                                                             {2, "libb.so+0x100 app+0x50"}}));
}

TEST_F(ModulePlacesTest, KeepsAFileThatIsReloadedAtTheSamePlace) {
  for (std::uint64_t i = 0; i < 3; ++i) {
    load("/liba.so", kBuildA, 100 * i);
    allocate(100 * i + 50, i + 1);
    builder_.module_gone(kLibrary, 100 * i + 90);
  }
  open();
  for (const auto& [size, words] : callers()) EXPECT_EQ(words, "liba.so+0x100 app+0x50") << size;
  for (const Module& module : recording_->info().modules)
    if (module.path == "/liba.so") {
      EXPECT_EQ(module.start, kLibrary);
    }
  EXPECT_EQ(recording_->stacks().size(), 2U);
}

}  // namespace

}  // namespace headroom::recording
