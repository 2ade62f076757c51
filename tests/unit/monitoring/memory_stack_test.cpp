#include "monitoring/memory_stack.h"

#include <gtest/gtest.h>

#include "sources/meminfo_reader.h"
#include "sources/system_sampler.h"
#include "support/test_support.h"

namespace headroom::monitoring {
namespace {

Bytes sum_of(const MemoryStack& stack) {
  return stack.free + stack.cache + stack.processes + stack.gpu + stack.system;
}

TEST(MemoryStack, AddsUpForJetsonTx2) {
  const auto path = test::shared_data("procfs/meminfo_nvmap_samples.txt");
  if (!path) GTEST_SKIP() << test::absent_message("procfs/meminfo_nvmap_samples.txt");
  const std::string text = test::read_text(*path);
  SystemSample sample;
  sources::fill(sample, sources::read_meminfo(std::string_view(text).substr(0, text.find("\n==", 10))));
  const auto stack = memory_stack_of(sample);
  ASSERT_TRUE(stack);
  EXPECT_EQ(sum_of(*stack), kibibytes(8038788));
  EXPECT_EQ(stack->free, kibibytes(4851052));
  EXPECT_EQ(stack->processes, kibibytes(976304 + 108680));
  EXPECT_EQ(stack->gpu, kibibytes(805068));
  EXPECT_EQ(stack->cache, kibibytes(38972 + 879052 - 108680 + 68672));
  EXPECT_GT(stack->system, Bytes{});
}

TEST(MemoryStack, AddsUpForInconsistentFigures) {
  SystemSample sample;
  sample.ram_total = mebibytes(100);
  sample.ram_free = mebibytes(60);
  sample.ram_buffers = mebibytes(1);
  sample.ram_cached = mebibytes(5);
  sample.ram_shared = mebibytes(9);
  EXPECT_FALSE(memory_stack_of(sample));
  sample.ram_anonymous = mebibytes(30);
  sample.nvmap_used = mebibytes(20);
  const auto stack = memory_stack_of(sample);
  ASSERT_TRUE(stack);
  EXPECT_EQ(stack->gpu, mebibytes(1));
  EXPECT_EQ(sum_of(*stack), mebibytes(100));
}

TEST(MemoryStack, AddsUpForThisMachine) {
  const auto stack = memory_stack_of(sources::SystemSampler().sample());
  ASSERT_TRUE(stack);
  EXPECT_EQ(sum_of(*stack), stack->total);
  EXPECT_GT(stack->free, Bytes{});
}

}  // namespace
}  // namespace headroom::monitoring
