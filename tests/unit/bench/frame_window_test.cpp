#include <gtest/gtest.h>

#include "bench/conductor/measurement_plans.h"

namespace headroom::bench {
namespace {

SourceMetadata source_of(std::int64_t frames, int width, int height) {
  SourceMetadata source;
  SourceSequence sequence;
  sequence.frames = frames;
  source.sequences = {sequence};
  source.largest_frame = Bytes{std::int64_t{3} * width * height};
  return source;
}

BenchOptions asking(std::int64_t max_frames, std::optional<std::int64_t> in_memory = std::nullopt) {
  BenchOptions options;
  options.max_frames = max_frames;
  options.max_frames_in_memory = in_memory;
  return options;
}

TEST(FrameWindow, HoldsNoMoreThan16MiBUnlessAsked) {
  const FrameWindow window = choose_frame_window(source_of(300, 1920, 1080), asking(300));
  EXPECT_EQ(window.frames, 2);  // 6.2 MB each
  EXPECT_LE(window.arena, mebibytes(16));
}

// Frames count in the limit, so they must not be what exceeds it.
TEST(FrameWindow, UsesAtMostAnEighthOfTheLimit) {
  BenchOptions options = asking(300);
  options.memory_limit = mebibytes(44);
  EXPECT_LE(choose_frame_window(source_of(300, 768, 576), options).arena, Bytes{mebibytes(44).count / 8});
  EXPECT_EQ(choose_frame_window(source_of(300, 768, 576), options).frames, 4);
  EXPECT_EQ(choose_frame_window(source_of(300, 8000, 6000), options).frames, 1);
  options.max_frames_in_memory = 30;
  EXPECT_EQ(choose_frame_window(source_of(300, 768, 576), options).frames, 30);
}

TEST(FrameWindow, UsesTheRequestedNumberOfFrames) {
  EXPECT_EQ(choose_frame_window(source_of(300, 1920, 1080), asking(300, 25)).frames, 25);
  EXPECT_EQ(choose_frame_window(source_of(20, 1920, 1080), asking(300, 25)).frames, 20);
  EXPECT_EQ(choose_frame_window(source_of(300, 1920, 1080), asking(7, 25)).frames, 7);
}

TEST(FrameWindow, LimitsSmallFramesTo600) {
  EXPECT_EQ(choose_frame_window(source_of(5000, 64, 64), asking(5000)).frames, 600);
}

TEST(FrameWindow, HoldsAtLeastOneFrame) {
  const FrameWindow window = choose_frame_window(source_of(3, 12000, 9000), asking(300));
  EXPECT_EQ(window.frames, 1);
  EXPECT_EQ(window.arena.count, std::int64_t{3} * 12000 * 9000);
}

TEST(FrameWindow, AssumesMaxFramesForACamera) {
  EXPECT_EQ(choose_frame_window(source_of(0, 320, 240), asking(50)).frames, 50);
}

}  // namespace
}  // namespace headroom::bench
