#include "attribution/heap_fragmentation.h"
#include "unit/attribution/analyze.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace headroom::attribution {
namespace {

LiveBlock heap_block_at(std::uint64_t address, std::uint64_t size, std::uint32_t stack = 0,
                        std::int64_t time = 0) {
  return {.address = address, .size = size, .time_ns = time, .stack = stack};
}

TEST(Fragmentation, AdjacentChunksLeaveNoHole) {
  // malloc(24) takes 32 bytes: 0x1010, 0x1030, 0x1050.
  const FragmentationMoment moment =
      fragmentation_of({heap_block_at(0x1030, 24), heap_block_at(0x1010, 24), heap_block_at(0x1050, 24)}, {});
  EXPECT_EQ(moment.extents, 1);
  EXPECT_EQ(moment.holes, 0);
  EXPECT_EQ(moment.extent_bytes, 96);
  EXPECT_EQ(moment.live_bytes, 72);
  EXPECT_EQ(moment.chunk_bytes, 96);
  EXPECT_DOUBLE_EQ(moment.internal(), 0.25);
  const FragmentationMoment distant = fragmentation_of(
      {heap_block_at(0x1010, 24), heap_block_at(0x1050, 24), heap_block_at(0x7f0000000010, 24)}, {});
  EXPECT_EQ(distant.extents, 2) << "another heap";
  EXPECT_EQ(distant.holes, 1);
  EXPECT_EQ(distant.free_bytes, 32);
}

TEST(Fragmentation, BlockerIsNextToLargestHole) {
  // Chunks of 32 bytes at 0x1010, 0x2010, 0x4010, 0x4810: holes of 0xfe0, 0x1fe0 and 0x7e0.
  const FragmentationMoment moment =
      fragmentation_of({heap_block_at(0x1010, 24), heap_block_at(0x2010, 24, 7, 100),
                        heap_block_at(0x4010, 24, 8), heap_block_at(0x4810, 24)},
                       {500});
  EXPECT_EQ(moment.holes, 3);
  EXPECT_EQ(moment.free_bytes, 0xfe0 + 0x1fe0 + 0x7e0);
  EXPECT_EQ(moment.largest_free_bytes, 0x1fe0);
  EXPECT_EQ(moment.extent_bytes, 0x3820);
  ASSERT_TRUE(moment.blocker.has_value());
  EXPECT_EQ(moment.blocker->address, 0x2010U) << "more is free behind it than behind 0x4010";
  EXPECT_EQ(moment.blocker->blocks, 1);
  EXPECT_EQ(moment.blocker->bytes, 24);
  EXPECT_EQ(moment.blocker->age, Nanoseconds{400});
  EXPECT_EQ(moment.blocker->freed_if_gone, 0xfe0 + 0x20 + 0x1fe0);
  ASSERT_EQ(moment.blocker->places().size(), 1U);
  EXPECT_EQ(moment.blocker->places()[0].stack, StackId{7});
}

// A block between two small holes separates only these two. It is not next to the largest hole.
TEST(Fragmentation, BlockBetweenSmallHolesIsNotTheBlocker) {
  constexpr std::uint64_t kHeap = 0x5555'0000'0010, kChunk = 5008;  // chunk of malloc(5000)
  std::vector<LiveBlock> blocks;
  const auto put = [&](std::uint64_t i, std::uint32_t stack) {
    blocks.push_back(heap_block_at(kHeap + kChunk * i, 5000, stack, static_cast<std::int64_t>(i)));
  };
  for (std::uint64_t i = 0; i < 20; ++i)
    if (i != 5 && i != 7) put(i, i == 6 ? 9 : 1);
  for (std::uint64_t i = 180; i < 220; ++i) put(i, 2);
  const FragmentationMoment moment = fragmentation_of(blocks, {1000});
  EXPECT_EQ(moment.largest_free_bytes, 160 * 5008);
  ASSERT_TRUE(moment.blocker.has_value());
  const Blocker& blocker = *moment.blocker;
  EXPECT_EQ(blocker.address, kHeap) << "below are fewer bytes than above";
  EXPECT_EQ(blocker.blocks, 18);
  EXPECT_EQ(blocker.bytes, 18 * 5000);
  EXPECT_EQ(blocker.span_bytes, 20 * 5008);
  EXPECT_EQ(blocker.freed_if_gone, 180 * 5008) << "the two small holes are in it";
  EXPECT_EQ(blocker.age, Nanoseconds{1000});
  ASSERT_EQ(blocker.places().size(), 2U);
  EXPECT_EQ(blocker.places()[0].stack, StackId{1});
  EXPECT_EQ(blocker.places()[0].blocks, 17);
  EXPECT_EQ(blocker.places()[0].bytes, 17 * 5000);
  EXPECT_EQ(blocker.places()[1].stack, StackId{9});
}

TEST(Fragmentation, PicksBlockerThatFreesMoreForItsSize) {
  constexpr std::uint64_t kHeap = 0x5555'0000'0010, kChunk = 1008;  // chunk of malloc(1000)
  // A hole of 100 chunks. Below it: two blocks, then the start of the heap. Above it: three blocks, then a
  // hole of 90.
  std::vector<LiveBlock> blocks;
  for (const std::uint64_t i : {0, 1, 102, 103, 104, 195})
    blocks.push_back(heap_block_at(kHeap + kChunk * i, 1000, static_cast<std::uint32_t>(i)));
  const FragmentationMoment moment = fragmentation_of(blocks, {});
  ASSERT_TRUE(moment.blocker.has_value());
  EXPECT_EQ(moment.blocker->address, kHeap + kChunk * 102);
  EXPECT_EQ(moment.blocker->blocks, 3);
  EXPECT_EQ(moment.blocker->freed_if_gone, 193 * 1008);
}

// A block of 200 bytes at the end of the heap prevents the release of 200 MiB to the system.
TEST(Fragmentation, HoleInBreakHeapHasNoSizeLimit) {
  constexpr std::uint64_t kBreak = 0x5555'1234'5000;
  const HeapLayout layout(kBreak, kBreak + (std::uint64_t{64} << 30));
  const std::vector<LiveBlock> blocks = {heap_block_at(kBreak + 0x10, 5000, 1),
                                         heap_block_at(kBreak + (200 << 20), 200, 7)};
  const FragmentationMoment moment = fragmentation_of(blocks, {}, layout);
  EXPECT_EQ(moment.extents, 1);
  EXPECT_EQ(moment.free_bytes, (200 << 20) - 0x10 - 5008);
  EXPECT_EQ(moment.largest_free_bytes, moment.free_bytes);
  ASSERT_TRUE(moment.blocker.has_value());
  EXPECT_EQ(moment.blocker->places()[0].stack, StackId{7});
  EXPECT_EQ(fragmentation_of(blocks, {}).extents, 2) << "nothing is known of a break";
  // No block has a mapping for itself there, whatever its address.
  const FragmentationMoment large = fragmentation_of(
      {heap_block_at(kBreak + 0x10, 1 << 20), heap_block_at(kBreak + 0x400010, 1 << 20)}, {}, layout);
  EXPECT_EQ(large.extents, 1);
  EXPECT_EQ(large.free_bytes, (3 << 20) - 16);
}

// A malloc arena reserves 64 MiB of addresses and makes them accessible on use. The unused part is not
// memory.
TEST(Fragmentation, UnusedEndOfArenaIsNotAHole) {
  constexpr std::uint64_t kArena = 0x7fff'd000'0000, kNext = kArena + (64 << 20);
  std::vector<LiveBlock> blocks;
  for (const std::uint64_t arena : {kArena, kNext})
    for (std::uint64_t at = 0; at < (40 << 20); at += 65'552)
      blocks.push_back(heap_block_at(arena + 0x8d0 + at, 65'536));
  const FragmentationMoment moment = fragmentation_of(blocks, {});
  EXPECT_EQ(moment.extents, 2);
  EXPECT_EQ(moment.free_bytes, 0);
  blocks.erase(blocks.begin() + 10, blocks.begin() + 639);
  EXPECT_EQ(fragmentation_of(blocks, {}).largest_free_bytes, 629 * 65'552) << "more than 32 MiB in one arena";
}

recording::Module module_at(const std::string& path, std::uint64_t start, std::uint64_t end) {
  return {path, "", 0, start, end, {}, {}};
}

TEST(HeapLayout, BreakIsBetweenProgramAndLibraries) {
  recording::RecordingInfo info;
  EXPECT_FALSE(heap_layout_of(info).is_of_break(0x5555'5600'0000)) << "nothing is known";
  info.executable = "/usr/bin/program";
  info.modules = {module_at("/lib/libc.so.6", 0x7fff'f000'0000, 0x7fff'f010'0000),
                  module_at("/usr/bin/program", 0x5555'5555'4000, 0x5555'5556'0000)};
  const HeapLayout layout = heap_layout_of(info);
  EXPECT_TRUE(layout.is_one_heap(0x5555'5557'0010, 0x5555'9555'0010));
  EXPECT_FALSE(layout.is_of_break(0x7fff'e000'0010));
  EXPECT_FALSE(layout.is_of_break(0x5554'0000'0000));
  // Started as `ld.so ./program`: both are mapped among the libraries.
  info.modules = {module_at("/usr/bin/program", 0x7fff'f7f0'0000, 0x7fff'f7f1'0000),
                  module_at("/lib/ld.so", 0x7fff'f7fc'0000, 0x7fff'f7ff'0000)};
  EXPECT_FALSE(heap_layout_of(info).is_one_heap(0x7fff'f7f1'0010, 0x7fff'fc00'0010));
}

// posix_memalign(64) of sizes above the mmap threshold, as ONNX Runtime's arena allocates its chunks. Every
// second one was released, but these gaps are not holes of the heap.
TEST(Fragmentation, AlignedMappingsLeaveNoHoles) {
  std::vector<LiveBlock> blocks;
  for (const std::uint64_t offset : {0x40, 0x80, 0x800, 0x20, 0x1000})
    blocks.push_back(heap_block_at(0x7f0000000000 + 0x1000000 * blocks.size() + offset, 4 << 20));
  const FragmentationMoment moment = fragmentation_of(blocks, {});
  EXPECT_EQ(moment.extents, 0);
  EXPECT_EQ(moment.free_bytes, 0);
  EXPECT_FALSE(moment.blocker.has_value());
}

// A large heap block may have the address of a mapped block by chance. If another block shares its page, it
// is in the heap.
TEST(Fragmentation, LargeBlockThatSharesAPageIsInHeap) {
  const auto heap = blocks_of_heap({heap_block_at(0x10000'0010, 24), heap_block_at(0x10000'0040, 256 << 10),
                                    heap_block_at(0x10008'0110, 256 << 10),
                                    heap_block_at(0x10010'0080, 256 << 10), heap_block_at(0x10014'0090, 24)});
  ASSERT_EQ(heap.size(), 5U);
  EXPECT_EQ(heap[1].address, 0x10000'0040U) << "behind a neighbour";
  EXPECT_EQ(heap[3].address, 0x10010'0080U) << "before one";
}

TEST(HeapExtents, ScatteredBlocksCostLittleMemoryAndTime) {
  HeapExtents extents;
  for (std::uint64_t i = 0; i < 100'000; ++i) extents.add(heap_block_at(i * 0x7654'3210'0000 + 0x10, 100));
  EXPECT_LE(extents.extent_bytes(), (1 << 14) * 16384LL * 2) << "so many parts, one block each, are followed";
  for (std::uint64_t i = 0; i < 100'000; ++i) extents.remove(heap_block_at(i * 0x7654'3210'0000 + 0x10, 100));
  EXPECT_EQ(extents.extent_bytes(), 0);
}

// `blocks` blocks of 400 bytes. All but every 20th are released; little happens for a second; then the rest
// is released.
HeapFragmentation fragmentation_of_a_drop(std::uint64_t blocks) {
  OwnRecording builder({.segment_bytes = 1 << 20});
  builder.metadata(recording::MetadataKind::executable, 0, "/usr/bin/program");
  builder.module("/usr/bin/program", "", 0x5554'0000'0000, 0x5554'0001'0000, 0x5554'0000'0000);
  constexpr std::uint64_t kHeap = 0x5555'0000'0010, kChunk = 416;
  std::uint64_t time = 1'000'000;
  for (std::uint64_t i = 0; i < blocks; ++i)
    builder.allocate(0, time += 100, kHeap + kChunk * i, 400, {0x401000});
  for (std::uint64_t i = 0; i < blocks; ++i)
    if (i % 20 != 0) builder.release(0, time += 100, kHeap + kChunk * i);
  time += 1'000'000'000;
  for (std::uint64_t i = 0; i < blocks; i += 20) builder.release(0, time += 100, kHeap + kChunk * i);
  builder.allocate(0, time += 1'000'000, kHeap, 400, {0x401000});
  return analyze(builder).fragmentation.value();
}

// A heap that is filled and emptied in fewer than 32 events for each live block.
TEST(Fragmentation, FindsLargestHeapAndMostHoles) {
  for (const std::uint64_t blocks : {4000, 20'000, 200'000}) {
    const HeapFragmentation fragmentation = fragmentation_of_a_drop(blocks);
    const FragmentationMoment& largest = fragmentation.moments[fragmentation.largest];
    const auto count = static_cast<std::int64_t>(blocks);
    EXPECT_EQ(largest.extent_bytes, 416 * count);
    EXPECT_EQ(largest.free_bytes, 0);
    EXPECT_EQ(largest.time, Nanoseconds{1'000'000 + 100 * count});
    const FragmentationMoment& worst = fragmentation.moments[fragmentation.worst];
    EXPECT_GE(worst.free_bytes, 19 * 416 * (count / 20 - 1) - (32 << 10));
    EXPECT_LE(worst.free_bytes, 19 * 416 * (count / 20));
    // Between the release of the last of these blocks (within 32 KiB) and the release of the others.
    EXPECT_GT(worst.time.count, 1'000'000 + 194 * count);
    EXPECT_LT(worst.time.count, 1'001'000'000 + 196 * count);
    ASSERT_TRUE(worst.blocker.has_value());
    EXPECT_EQ(worst.blocker->freed_if_gone, 39 * 416);
    EXPECT_LE(fragmentation.moments.size(), 128U);
  }
}

// A hole may be a live block from before the first event: of a forked child's parent, or of an overwritten
// ring.
TEST(Fragmentation, IsNotReportedIfBlocksAreUnknown) {
  struct Case {
    bool forked, ring;
    std::uint64_t events;
    bool is_reported;
  };
  const test::TemporaryFolder folder;
  for (const Case& one : {Case{false, false, 10, true},
                          {true, false, 10, false},
                          {false, true, 100, true},
                          {false, true, 100'000, false}}) {
    test::RecordingBuilder builder(
        folder / "a.hrec",
        {.ring = one.ring, .forked = one.forked, .segment_bytes = 4096, .segments_limit = 4});
    for (std::uint64_t i = 0; i < one.events; ++i) builder.allocate(0, 10 + i, 0x10010 + 0x1000 * i, 1000);
    EXPECT_EQ(analyze(builder).fragmentation.has_value(), one.is_reported) << one.events;
  }
}

// The heap before it shrank from a maximum is measured later, from the changes since.
TEST(Fragmentation, MeasuresEachMomentAsItWas) {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    std::mt19937 random(seed);
    FragmentationSampler sampler;
    LiveMap live;
    std::vector<std::pair<LiveBlock, bool>> changes;  // the time of a change is its index
    const std::uint64_t slots = seed < 3 ? 300 : 20'000;
    for (std::int64_t i = 0; i < 60'000; ++i) {
      const bool is_shrinking = i / 15'000 % 2 == 1;
      const std::uint64_t address = 0x10010 + 0x1000 * (random() % slots);
      LiveBlock block, replaced;
      const Nanoseconds time{std::ssize(changes)};
      if (live.take(address, block)) {
        changes.emplace_back(block, false);
        sampler.released(block, live, time);
      } else if (!is_shrinking || random() % 8 == 0) {
        block = {.address = address, .size = 16 + random() % 4000, .time_ns = time.count, .stack = 1};
        live.insert(block, replaced);
        changes.emplace_back(block, true);
        sampler.allocated(block, live, time);
      }
    }
    const auto at = [&](Nanoseconds time) {
      std::map<std::uint64_t, LiveBlock> blocks;
      for (std::int64_t i = 0; i <= time.count; ++i) {
        const auto& [block, was_added] = changes[static_cast<std::size_t>(i)];
        if (was_added)
          blocks[block.address] = block;
        else
          blocks.erase(block.address);
      }
      std::vector<LiveBlock> result;
      for (const auto& [address, block] : blocks) result.push_back(block);
      return fragmentation_of(result, time);
    };
    const HeapFragmentation found = sampler.finish(live, {std::ssize(changes) - 1}, true);
    for (const FragmentationMoment& moment : found.moments) {
      const FragmentationMoment expected = at(moment.time);
      EXPECT_EQ(moment.live_bytes, expected.live_bytes) << moment.time.count;
      EXPECT_EQ(moment.free_bytes, expected.free_bytes) << moment.time.count;
      EXPECT_EQ(moment.holes, expected.holes) << moment.time.count;
      ASSERT_EQ(moment.blocker.has_value(), expected.blocker.has_value());
      if (!moment.blocker) continue;
      EXPECT_EQ(moment.blocker->address, expected.blocker->address);
      EXPECT_EQ(moment.blocker->bytes, expected.blocker->bytes);
      EXPECT_EQ(moment.blocker->allocated_at, expected.blocker->allocated_at);
    }
  }
}

}  // namespace
}  // namespace headroom::attribution
