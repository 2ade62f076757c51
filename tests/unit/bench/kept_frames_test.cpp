#include "bench/conductor/kept_frames.h"

#include <gtest/gtest.h>
#include <sys/mount.h>

#include <filesystem>

#include "support/test_support.h"

namespace headroom::bench {
namespace {
namespace fs = std::filesystem;
using test::TemporaryFolder;

FrameTimes frame_of(std::int64_t i) {
  FrameTimes frame{{i}, {2 * i}, {3 * i}, {4 * i}, i % 7, {}};
  if (i % 2 == 0) frame.device = Nanoseconds{5 * i};
  return frame;
}

void expect_all(const KeptFrames& frames, std::int64_t count) {
  ASSERT_EQ(frames.size(), static_cast<std::size_t>(count));
  std::int64_t i = 0;
  frames.each([&](std::span<const FrameTimes> piece) {
    for (const FrameTimes& frame : piece) {
      const FrameTimes wanted = frame_of(i++);
      ASSERT_EQ(frame.inference, wanted.inference) << i;
      ASSERT_EQ(frame.device, wanted.device) << i;
      ASSERT_EQ(frame.findings, wanted.findings) << i;
    }
  });
  EXPECT_EQ(i, count);
}

TEST(KeptFrames, KeepsAnyNumberOfFrames) {
  for (const std::int64_t count : {0, 1, 2048, 2049, 4096, 10'000}) {
    const TemporaryFolder folder;
    KeptFrames frames(folder.path());
    for (std::int64_t i = 0; i < count; ++i) frames.add(frame_of(i));
    expect_all(frames, count);
    EXPECT_TRUE(fs::is_empty(folder.path()));  // the file has no name
    EXPECT_EQ(frames.problem(), "");
  }
}

TEST(KeptFrames, ReadsAPieceThatIsPartlyInTheFile) {
  const TemporaryFolder folder;
  KeptFrames frames(folder.path());
  for (std::int64_t i = 0; i < 5000; ++i) frames.add(frame_of(i));
  std::vector<FrameTimes> room(300);
  for (const std::size_t first : {std::size_t{0}, std::size_t{4000}, std::size_t{4700}}) {
    ASSERT_EQ(frames.read(first, room), 300U);
    EXPECT_EQ(room.front().decode.count, static_cast<std::int64_t>(first));
    EXPECT_EQ(room.back().decode.count, static_cast<std::int64_t>(first) + 299);
  }
  EXPECT_EQ(frames.read(4900, room), 100U);
  EXPECT_EQ(frames.read(5000, room), 0U);
  EXPECT_EQ(frames.read(9000, room), 0U);
}

TEST(KeptFrames, StayInMemoryWithoutAFile) {
  KeptFrames frames("/nonexistent");
  for (std::int64_t i = 0; i < 5000; ++i) frames.add(frame_of(i));
  expect_all(frames, 5000);
  EXPECT_THAT(frames.problem(),
              testing::HasSubstr("cannot write a file in /nonexistent: No such file or directory"));
}

TEST(KeptFrames, StayInMemoryOnceTheDiskIsFull) {
  const TemporaryFolder folder;
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=256k") != 0)
    GTEST_SKIP() << "this needs the right to mount a small disk; skipped";
  {
    KeptFrames frames(folder.path());
    for (std::int64_t i = 0; i < 20'000; ++i) frames.add(frame_of(i));  // 2 pieces of 112 KiB fit
    expect_all(frames, 20'000);
    EXPECT_THAT(frames.problem(), testing::HasSubstr("No space left on device"));
  }
  ::umount2(folder.path().c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace headroom::bench
