#include <gtest/gtest.h>

#include "bench/inference_phase.h"

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

TEST(FrameWindow, HoldsNoMoreThan16MiBUnlessAsked) {
  const FrameWindow window = choose_frame_window(source_of(300, 1920, 1080), 300, std::nullopt);
  EXPECT_EQ(window.frames, 2);  // 6.2 MB each
  EXPECT_LE(window.arena, mebibytes(16));
}

TEST(FrameWindow, AskedForIsABoundInFrames) {
  EXPECT_EQ(choose_frame_window(source_of(300, 1920, 1080), 300, 25).frames, 25);
  EXPECT_EQ(choose_frame_window(source_of(20, 1920, 1080), 300, 25).frames, 20);
  EXPECT_EQ(choose_frame_window(source_of(300, 1920, 1080), 7, 25).frames, 7);
}

TEST(FrameWindow, SmallFramesStopAtTheReferences600) {
  EXPECT_EQ(choose_frame_window(source_of(5000, 64, 64), 5000, std::nullopt).frames, 600);
}

TEST(FrameWindow, OneFrameAlwaysFits) {
  const FrameWindow window = choose_frame_window(source_of(3, 12000, 9000), 300, std::nullopt);
  EXPECT_EQ(window.frames, 1);
  EXPECT_EQ(window.arena.count, std::int64_t{3} * 12000 * 9000);
}

TEST(FrameWindow, ACameraHasNoLength) {
  EXPECT_EQ(choose_frame_window(source_of(0, 320, 240), 50, std::nullopt).frames, 50);
}

}  // namespace
}  // namespace headroom::bench
