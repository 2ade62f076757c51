#include "media/frame_ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "support/test_support.h"

namespace headroom::media {
namespace {

UniqueFd duplicate(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 3)); }

TEST(FrameRing, TwoMappingsShareTheFrames) {
  auto writer = FrameRing::create(kibibytes(64));
  ASSERT_TRUE(writer) << writer.error().sentence();
  auto reader = FrameRing::attach(duplicate(writer->fd()));
  ASSERT_TRUE(reader) << reader.error().sentence();
  EXPECT_EQ(reader->arena(), kibibytes(64));

  FrameSlot slot;
  slot.width = 4;
  slot.height = 2;
  slot.offset = 100;
  std::strcpy(slot.name, "a.jpg");
  std::memset(writer->pixels(slot), 0x5A, 24);
  writer->header().slots[0] = slot;
  writer->header().slot_count = 1;

  const auto seen = reader->slot(0);
  ASSERT_TRUE(seen);
  EXPECT_STREQ(seen->name, "a.jpg");
  EXPECT_EQ(reader->pixels(*seen)[0], 0x5A);
  EXPECT_EQ(reader->pixels(*seen)[23], 0x5A);
  EXPECT_EQ(reader->pixels(*seen)[24], 0);
}

TEST(FrameRing, SizeIsSealed) {
  const auto ring = FrameRing::create(kibibytes(8));
  ASSERT_TRUE(ring);
  EXPECT_EQ(::ftruncate(ring->fd(), 4096), -1);
  EXPECT_EQ(::ftruncate(ring->fd(), 1 << 24), -1);
  EXPECT_EQ(::fcntl(ring->fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(FrameRing, AttachesOnlyASealedRing) {
  UniqueFd unsealed(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), 1 << 21), 0);
  EXPECT_EQ(FrameRing::attach(duplicate(unsealed.get())).error().why,
            "its descriptor is not a memfd of sealed size");
  ASSERT_EQ(::fcntl(unsealed.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  EXPECT_EQ(FrameRing::attach(duplicate(unsealed.get())).error().why, "it has no frame ring header");
  UniqueFd small(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::fcntl(small.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  EXPECT_FALSE(FrameRing::attach(std::move(small)));
  EXPECT_FALSE(FrameRing::attach(UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC))));
  EXPECT_FALSE(FrameRing::attach(UniqueFd()));
}

TEST(FrameRing, DetectsAWrongSizeInTheHeader) {
  auto ring = FrameRing::create(kibibytes(8));
  ASSERT_TRUE(ring);
  ring->header().arena_bytes = 1ULL << 40;
  EXPECT_EQ(ring->arena(), kibibytes(8)) << "the size must not come from the header";
  EXPECT_FALSE(FrameRing::attach(duplicate(ring->fd())));
}

TEST(FrameRing, SlotsOutsideTheArenaAreNotValid) {
  auto ring = FrameRing::create(Bytes{300});
  ASSERT_TRUE(ring);
  const auto valid = [&](std::int32_t width, std::int32_t height, std::uint64_t offset) {
    FrameSlot slot;
    slot.width = width;
    slot.height = height;
    slot.offset = offset;
    return ring->valid(slot);
  };
  EXPECT_TRUE(valid(10, 10, 0));
  EXPECT_TRUE(valid(1, 1, 297));
  EXPECT_FALSE(valid(10, 10, 1));
  EXPECT_FALSE(valid(1, 1, 298));
  EXPECT_FALSE(valid(1, 1, ~0ULL));
  EXPECT_FALSE(valid(0, 10, 0));
  EXPECT_FALSE(valid(-1, -1, 0));
  EXPECT_FALSE(valid(0x7fffffff, 0x7fffffff, 0));
  ring->header().slot_count = 5000;
  EXPECT_FALSE(ring->slot(0)) << "an empty slot holds no pixels";
  EXPECT_FALSE(ring->slot(kMaximumSlots));
}

TEST(FrameRing, TouchedPagesAreResidentAndUnchanged) {
  auto ring = FrameRing::create(mebibytes(4));
  ASSERT_TRUE(ring);
  struct stat before {};
  ASSERT_EQ(::fstat(ring->fd(), &before), 0);
  EXPECT_LT(before.st_blocks * 512, mebibytes(1).count) << "a new ring uses no memory yet";
  ring->touch_pages();
  struct stat after {};
  ASSERT_EQ(::fstat(ring->fd(), &after), 0);
  EXPECT_GE(after.st_blocks * 512, mebibytes(4).count);
  EXPECT_TRUE(FrameRing::attach(duplicate(ring->fd()))) << "the header must not change";
}

TEST(FrameRing, RejectsInvalidSizes) {
  EXPECT_FALSE(FrameRing::create(Bytes{0}));
  EXPECT_FALSE(FrameRing::create(Bytes{-5}));
  EXPECT_FALSE(FrameRing::create(Bytes{INT64_MAX / 2}));
}

}  // namespace
}  // namespace headroom::media
