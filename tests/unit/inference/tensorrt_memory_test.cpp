// Tests the account of TensorRT's device memory.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "inference/tensorrt/memory_account.h"

namespace headroom::tensorrt {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

// A memory source with a limit.
class Bounded final : public MemorySource {
 public:
  explicit Bounded(std::uint64_t bound) : bound_(bound) {}
  std::uint64_t allocate(std::uint64_t bytes) override {
    ++asked;
    if (bytes > bound_ - held) return 0;
    held += bytes;
    sizes_.push_back(bytes);
    return sizes_.size() * kMiB;  // an address
  }
  bool free(std::uint64_t address) override {
    held -= sizes_[address / kMiB - 1];
    return true;
  }
  std::uint64_t limit() override { return knows_limit ? bound_ : 0; }
  std::uint64_t live_of_all_processes() override { return held; }
  std::uint64_t held = 0, asked = 0;
  bool knows_limit = true;

 private:
  std::uint64_t bound_;
  std::vector<std::uint64_t> sizes_;
};

TEST(MemoryAccount, CountsLiveBytesAndPeak) {
  Bounded source(100 * kMiB);
  MemoryAccount account(source);
  const auto a = account.allocate(10 * kMiB), b = account.allocate(20 * kMiB);
  EXPECT_NE(a, 0U);
  EXPECT_TRUE(account.free(a));
  EXPECT_FALSE(account.free(a)) << "freed twice";
  EXPECT_FALSE(account.free(12345));
  account.allocate(5 * kMiB);
  EXPECT_EQ(account.figures().live, 25 * kMiB);
  EXPECT_EQ(account.figures().peak, 30 * kMiB);
  EXPECT_EQ(account.figures().allocations, 3U);
  EXPECT_EQ(account.refusal_text(), "");
  account.free(b);
  EXPECT_EQ(source.held, 5 * kMiB);
}

TEST(MemoryAccount, RequestsNothingForZeroBytes) {
  Bounded source(kMiB);
  MemoryAccount account(source);
  EXPECT_EQ(account.allocate(0), 0U);
  EXPECT_EQ(source.asked, 0U);
  EXPECT_EQ(account.figures().refused, 0U);
}

TEST(MemoryAccount, DescribesRefusalAndLiveBytes) {
  Bounded source(64 * kMiB);
  MemoryAccount account(source);
  account.allocate(60 * kMiB);
  EXPECT_EQ(account.allocate(5 * kMiB), 0U);
  EXPECT_NE(account.allocate(4 * kMiB), 0U) << "a request that fits exactly is not refused";
  EXPECT_EQ(account.figures().refused, 1U);
  EXPECT_EQ(account.refusal_text(),
            "it requested 5.0 MiB of device memory while it held 60.0 MiB, and all processes under the limit "
            "of 64.0 MiB held 60.0 MiB");
  source.knows_limit = false;
  EXPECT_EQ(account.allocate(kMiB), 0U);
  EXPECT_EQ(account.refusal_text(), "it requested 1.0 MiB of device memory while it held 64.0 MiB");
}

TEST(MemoryAccount, FreesRemainingBlocksOnDestruction) {
  Bounded source(64 * kMiB);
  {
    MemoryAccount account(source);
    account.allocate(kMiB);
    account.allocate(2 * kMiB);
  }
  EXPECT_EQ(source.held, 0U);
}

TEST(MemoryAccount, NeverExceedsLimitWithManyThreads) {
  Bounded source(32 * kMiB);
  MemoryAccount account(source);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i)
        if (const auto address = account.allocate(10 * kMiB)) account.free(address);
    });
  for (std::thread& thread : threads) thread.join();
  const MemoryFigures figures = account.figures();
  EXPECT_EQ(figures.live, 0U);
  EXPECT_LE(figures.peak, 32 * kMiB);
  EXPECT_EQ(figures.allocations + figures.refused, 2000U);
}

}  // namespace
}  // namespace headroom::tensorrt
