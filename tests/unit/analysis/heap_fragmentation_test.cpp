#include "analysis/heap_fragmentation.h"

#include <gtest/gtest.h>

#include "analysis/recording_analysis.h"
#include "support/recording_builder.h"
#include "support/test_support.h"

namespace headroom::analysis {
namespace {

LiveBlock block_at(std::uint64_t address, std::uint64_t size, std::uint32_t stack = 0,
                   std::int64_t time = 0) {
  LiveBlock block;
  block.address = address;
  block.size = size;
  block.stack = stack;
  block.time_ns = time;
  return block;
}

TEST(Fragmentation, NothingLiveIsNotFragmented) {
  const FragmentationMoment moment = fragmentation_of({}, {5});
  EXPECT_EQ(moment.extent_bytes, 0);
  EXPECT_EQ(moment.external(), 0);
  EXPECT_EQ(moment.internal(), 0);
  EXPECT_FALSE(moment.blocker.has_value());
}

TEST(Fragmentation, ChunksThatTouchLeaveNoHole) {
  // malloc(24) takes 32 bytes: 0x1010, 0x1030, 0x1050.
  const FragmentationMoment moment =
      fragmentation_of({block_at(0x1030, 24), block_at(0x1010, 24), block_at(0x1050, 24)}, {});
  EXPECT_EQ(moment.extents, 1);
  EXPECT_EQ(moment.holes, 0);
  EXPECT_EQ(moment.extent_bytes, 96);
  EXPECT_EQ(moment.live_bytes, 72);
  EXPECT_EQ(moment.chunk_bytes, 96);
  EXPECT_DOUBLE_EQ(moment.internal(), 0.25);
}

TEST(Fragmentation, TheBlockerIsTheBlockBetweenTheLargestHoles) {
  // Chunks of 32 bytes at 0x1010, 0x2010, 0x4010, 0x4810: holes of 0xfe0, 0x1fe0 and 0x7e0.
  const FragmentationMoment moment = fragmentation_of(
      {block_at(0x1010, 24), block_at(0x2010, 24, 7, 100), block_at(0x4010, 24, 8), block_at(0x4810, 24)},
      {500});
  EXPECT_EQ(moment.holes, 3);
  EXPECT_EQ(moment.free_bytes, 0xfe0 + 0x1fe0 + 0x7e0);
  EXPECT_EQ(moment.largest_free_bytes, 0x1fe0);
  EXPECT_EQ(moment.extent_bytes, 0x3820);
  ASSERT_TRUE(moment.blocker.has_value());
  EXPECT_EQ(moment.blocker->address, 0x2010U);
  EXPECT_EQ(moment.blocker->stack, StackId{7});
  EXPECT_EQ(moment.blocker->age, Nanoseconds{400});
  EXPECT_EQ(moment.blocker->freed_if_gone, 0xfe0 + 0x20 + 0x1fe0);
}

TEST(Fragmentation, HeapsFarApartAreExtentsOfTheirOwn) {
  const FragmentationMoment moment =
      fragmentation_of({block_at(0x1010, 24), block_at(0x1050, 24), block_at(0x7f0000000010, 24)}, {});
  EXPECT_EQ(moment.extents, 2);
  EXPECT_EQ(moment.holes, 1);
  EXPECT_EQ(moment.free_bytes, 32);
  EXPECT_EQ(moment.extent_bytes, 96 + 32);
}

TEST(Fragmentation, BlocksThatAreMappingsOfTheirOwnLeaveNoHoles) {
  const FragmentationMoment moment =
      fragmentation_of({block_at(0x7f0000000010, 1 << 20), block_at(0x7f0000200010, 1 << 20)}, {});
  EXPECT_EQ(moment.holes, 0);
  EXPECT_EQ(moment.extents, 0);
  EXPECT_EQ(moment.live_bytes, 2 << 20);
}

// posix_memalign(64) of what is larger than the threshold, as ONNX Runtime's arena takes its chunks: every
// second one was released, and nothing of that is a hole of the heap.
TEST(Fragmentation, AlignedMappingsLeaveNoHolesEither) {
  std::vector<LiveBlock> blocks;
  for (const std::uint64_t offset : {0x40, 0x80, 0x800, 0x20, 0x1000})
    blocks.push_back(block_at(0x7f0000000000 + 0x1000000 * blocks.size() + offset, 4 << 20));
  const FragmentationMoment moment = fragmentation_of(blocks, {});
  EXPECT_EQ(moment.extents, 0);
  EXPECT_EQ(moment.free_bytes, 0);
  EXPECT_FALSE(moment.blocker.has_value());
}

// A large block of the heap may begin at such a place by chance; what lies beside it in its pages tells.
TEST(Fragmentation, ALargeBlockThatSharesAPageLiesInTheHeap) {
  const auto heap = blocks_of_heap({block_at(0x10000'0010, 24), block_at(0x10000'0040, 256 << 10),
                                    block_at(0x10008'0110, 256 << 10), block_at(0x10010'0080, 256 << 10),
                                    block_at(0x10014'0090, 24)});
  ASSERT_EQ(heap.size(), 5U);
  EXPECT_EQ(heap[1].address, 0x10000'0040U) << "behind a neighbour";
  EXPECT_EQ(heap[3].address, 0x10010'0080U) << "before one";
}

TEST(Fragmentation, MomentsAreBoundedAndTheLastIsTheEnd) {
  const test::TemporaryFolder folder;
  test::RecordingBuilder builder(folder / "a.hrec", {.segment_bytes = 1 << 20});
  // Every other of 1000 blocks goes at the end of a long storm.
  std::uint64_t time = 0;
  for (std::uint64_t i = 0; i < 1000; ++i)
    builder.allocate(0, ++time, 0x10010 + 0x20 * i, 24, {0x400000 + i % 7});
  for (int i = 0; i < 300'000; ++i) {
    builder.release(0, ++time, 0x10010);
    builder.allocate(0, ++time, 0x10010, 24);
  }
  for (std::uint64_t i = 1; i < 1000; i += 2) builder.release(0, ++time, 0x10010 + 0x20 * i);
  auto opened = recording::Recording::open(builder.finish());
  ASSERT_TRUE(opened.has_value());
  const auto analysis = analyze_recording(*opened, {});
  ASSERT_TRUE(analysis.fragmentation.has_value());
  const HeapFragmentation& fragmentation = *analysis.fragmentation;
  EXPECT_LE(fragmentation.moments.size(), 128U);
  EXPECT_GE(fragmentation.moments.size(), 16U);
  for (std::size_t i = 1; i < fragmentation.moments.size(); ++i)
    EXPECT_LE(fragmentation.moments[i - 1].time, fragmentation.moments[i].time);
  const FragmentationMoment& end = fragmentation.moments.back();
  EXPECT_EQ(end.time, Nanoseconds{static_cast<std::int64_t>(time)});
  EXPECT_EQ(end.holes, 499);
  EXPECT_EQ(end.free_bytes, 499 * 32);
  EXPECT_EQ(fragmentation.worst, fragmentation.moments.size() - 1);
}

}  // namespace
}  // namespace headroom::analysis
