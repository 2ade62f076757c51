#include "preload/threads.h"

#include <gtest/gtest.h>

#include <cmath>

namespace headroom::preload {
namespace {

TEST(TracerSampler, LogarithmIsCorrect) {
  for (const std::uint64_t value : {1ull, 2ull, 3ull, 1000ull, 1ull << 40, (1ull << 53) - 1, ~0ull})
    EXPECT_NEAR(log2_of(value), std::log2(static_cast<double>(value)), 1e-6) << value;
}

// The seeds are fixed, and so are the results. Five standard errors only allow for another compiler's
// arithmetic.
TEST(TracerSampler, ChoosesWithTheDocumentedProbability) {
  constexpr double kPeriod = 10'000;
  for (const std::uint64_t size : {16u, 500u, 5'000u, 30'000u}) {
    Sampler sampler;
    sampler.start(size, static_cast<std::uint64_t>(kPeriod));
    constexpr int kTimes = 400'000;
    int chosen = 0;
    for (int i = 0; i < kTimes; ++i) chosen += sampler.chooses(size) ? 1 : 0;
    const double probability = -std::expm1(-static_cast<double>(size) / kPeriod);
    const double error = std::sqrt(probability * (1 - probability) / kTimes);
    EXPECT_NEAR(static_cast<double>(chosen) / kTimes, probability, 5 * error) << size;
  }
}

}  // namespace
}  // namespace headroom::preload
