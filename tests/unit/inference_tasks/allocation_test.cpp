// Tests that pre-processing and decoding do not allocate after warm-up. It is a separate program, because
// it replaces operator new.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <random>

#include "made_model.h"

namespace {
std::size_t allocations = 0;
}

// NOLINTBEGIN: signatures that the standard requires of a replacement
void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
// NOLINTEND

namespace headroom::inference {
namespace {

using test::model;
using test::Output;
using test::picture_model;
using test::spec;

// Decodes a frame with few findings, then frames with more. Only the first may allocate.
void expect_no_allocation(const ModelDescription& description, float lowest, float highest) {
  const auto task = test::make_task(description);
  std::mt19937 random(1);
  std::vector<Output> outputs = test::outputs_of(description);
  const std::vector<TensorView> views = test::views_of(outputs);
  const FrameTransform transform{1, 1, 0, 0, 640, 640};
  FrameFindings findings;
  std::int64_t most = 0;
  for (int round = 0; round < 6; ++round) {
    // The share of high scores grows with each frame, so later frames have more candidates.
    std::uniform_real_distribution<float> value(
        lowest, lowest + (highest - lowest) * static_cast<float>(2 + round) / 8);
    for (Output& output : outputs)
      for (float& element : output.values()) element = value(random);
    findings.clear();
    const std::size_t before = allocations;
    task->decode(views, transform, findings);
    const std::size_t after = allocations;
    most = std::max(most, findings.count());
    if (round > 0) {
      EXPECT_EQ(after, before) << task->name() << ", frame " << round;
    }
  }
  EXPECT_GT(most, 0) << task->name() << " found nothing, so nothing was tested";
}

TEST(Allocation, DetectionHeadsAllocateInTheFirstFrameOnly) {
  expect_no_allocation(picture_model({spec("o", {1, 25200, 85})}), 0, 1);
  expect_no_allocation(picture_model({spec("o", {1, 84, 8400})}), 0, 1);
  expect_no_allocation(picture_model({spec("o", {1, 8400, 85})}), 0, 1);
  expect_no_allocation(picture_model({spec("o", {1, 300, 6})}), 0, 1);
  expect_no_allocation(model({spec("i", {1, 3, 352, 352})}, {spec("o", {1, 85, 22, 22})}), 0, 1);
  expect_no_allocation(
      model({spec("i", {1, 256, 256, 3})}, {spec("a", {1, 512, 1}), spec("b", {1, 384, 1}),
                                            spec("c", {1, 512, 16}), spec("d", {1, 384, 16})}),
      -3, 3);
}

TEST(Allocation, TextAndLinesAllocateInTheFirstFrameOnly) {
  // 0.3..1: the whole map is one region of text, whose outline is as long as possible.
  expect_no_allocation(model({spec("x", {1, 3, 320, 320})}, {spec("sigmoid_0", {1, 1, 320, 320})}), 0.2F,
                       1.6F);
  expect_no_allocation(
      model({spec("i", {1, 320, 320, 4})}, {spec("o", {1, 160, 160, 4}), spec("s", {1, 160, 160, 1})}), -40,
      40);
}

TEST(Allocation, ReusesMaskMemory) {
  const auto description = model({spec("in", {1, 3, 64, 64})}, {spec("mask", {1, 1, 64, 64})});
  const auto task = test::make_task(description);
  Output high({1, 1, 64, 64}, 0.9F), low({1, 1, 64, 64}, 0.1F);
  const std::vector<TensorView> with{high.view()}, without{low.view()};
  const FrameTransform transform{1, 1, 0, 0, 64, 64};
  FrameFindings findings;
  for (int round = 0; round < 6; ++round) {
    const std::size_t before = allocations;
    findings.clear();
    task->decode(round % 3 == 2 ? without : with, transform, findings);
    if (round > 1) {
      EXPECT_EQ(allocations, before) << round;
    }
  }
}

TEST(Allocation, PreprocessorNeverAllocates) {
  const std::vector<std::uint8_t> frame(std::size_t{3} * 320 * 240, 100);
  for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
    InputSpec input;
    input.width = input.height = 128;
    input.layout = layout;
    std::vector<float> tensor(std::size_t{3} * 128 * 128);
    Preprocessor preprocessor(input);
    const std::size_t before = allocations;
    for (const int width : {100, 320, 20, 200, 1, 320})
      for (const int height : {10, 240, 1})
        preprocessor.run(frame.data(), width, height, static_cast<std::size_t>(width) * 3, tensor.data());
    EXPECT_EQ(allocations, before);
  }
}

}  // namespace
}  // namespace headroom::inference
