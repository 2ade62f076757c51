// The account of what TensorRT has of a device's memory.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "inference/tensorrt/memory_account.h"

namespace headroom::tensorrt {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

// Grants what is within its bound.
class Bounded final : public MemorySource {
 public:
  explicit Bounded(std::uint64_t bound) : bound_(bound) {}
  std::uint64_t take(std::uint64_t bytes) override {
    ++asked;
    if (bytes > bound_ - held) return 0;
    held += bytes;
    sizes_.push_back(bytes);
    return sizes_.size() * kMiB;  // an address
  }
  bool give_back(std::uint64_t address) override {
    held -= sizes_[address / kMiB - 1];
    return true;
  }
  std::uint64_t limit() override { return knows_limit ? bound_ : 0; }
  std::uint64_t held_by_all() override { return held; }
  std::uint64_t held = 0, asked = 0;
  bool knows_limit = true;

 private:
  std::uint64_t bound_;
  std::vector<std::uint64_t> sizes_;
};

TEST(MemoryAccount, CountsWhatIsHeldAndTheMostOfIt) {
  Bounded source(100 * kMiB);
  MemoryAccount account(source);
  const auto a = account.take(10 * kMiB), b = account.take(20 * kMiB);
  EXPECT_NE(a, 0U);
  EXPECT_TRUE(account.give_back(a));
  EXPECT_FALSE(account.give_back(a)) << "twice";
  EXPECT_FALSE(account.give_back(12345));
  account.take(5 * kMiB);
  EXPECT_EQ(account.figures().held, 25 * kMiB);
  EXPECT_EQ(account.figures().peak, 30 * kMiB);
  EXPECT_EQ(account.figures().allocations, 3U);
  EXPECT_EQ(account.refusal_text(), "");
  account.give_back(b);
  EXPECT_EQ(source.held, 5 * kMiB);
}

TEST(MemoryAccount, NothingIsAskedForNoBytes) {
  Bounded source(kMiB);
  MemoryAccount account(source);
  EXPECT_EQ(account.take(0), 0U);
  EXPECT_EQ(source.asked, 0U);
  EXPECT_EQ(account.figures().refused, 0U);
}

TEST(MemoryAccount, ToldWhatWasRefusedAndWhatHeldTheRest) {
  Bounded source(64 * kMiB);
  MemoryAccount account(source);
  account.take(60 * kMiB);
  EXPECT_EQ(account.take(5 * kMiB), 0U);
  EXPECT_NE(account.take(4 * kMiB), 0U) << "what fits to the byte is not refused";
  EXPECT_EQ(account.figures().refused, 1U);
  EXPECT_EQ(account.refusal_text(),
            "it asked for 5.0 MiB of the device's memory while it held 60.0 MiB, and all that share the "
            "limit of 64.0 MiB "
            "held 60.0 MiB");
  source.knows_limit = false;
  EXPECT_EQ(account.take(kMiB), 0U);
  EXPECT_EQ(account.refusal_text(), "it asked for 1.0 MiB of the device's memory while it held 64.0 MiB");
}

TEST(MemoryAccount, GivesBackWhatIsLeftAtItsEnd) {
  Bounded source(64 * kMiB);
  {
    MemoryAccount account(source);
    account.take(kMiB);
    account.take(2 * kMiB);
  }
  EXPECT_EQ(source.held, 0U);
}

TEST(MemoryAccount, ThreadsNeverGetPastTheBound) {
  Bounded source(32 * kMiB);
  MemoryAccount account(source);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i)
        if (const auto address = account.take(10 * kMiB)) account.give_back(address);
    });
  for (std::thread& thread : threads) thread.join();
  const MemoryFigures figures = account.figures();
  EXPECT_EQ(figures.held, 0U);
  EXPECT_LE(figures.peak, 32 * kMiB);
  EXPECT_EQ(figures.allocations + figures.refused, 2000U);
}

}  // namespace
}  // namespace headroom::tensorrt
