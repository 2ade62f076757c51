#include "inference/vos/memory_bank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace headroom::inference::vos {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr std::size_t kAllPrompts = 100;

// Features and pointer of a frame hold its number.
void store(MemoryBank& bank, std::int64_t frame, bool is_prompt = false) {
  const auto number = static_cast<float>(frame);
  bank.store(frame, is_prompt, &number, ElementType::float32, {&number, 1});
}
BankSizes sizes_of(ElementType type = ElementType::float32) { return {1, 1, 7, 16, type}; }

struct Shown {
  std::multimap<std::int64_t, std::int64_t> frame_of_slot;  // of memories
  std::multimap<std::int64_t, std::int64_t> frame_of_age;   // of pointers
};
Shown look_back(const MemoryBank& bank, std::int64_t frame, std::int64_t clip = 0,
                std::size_t most_prompts = kAllPrompts) {
  Seen seen;
  bank.look_back(frame, clip, most_prompts, seen);
  Shown shown;
  for (const SeenMemory& memory : seen.memories) {
    const auto number = static_cast<std::int64_t>(*reinterpret_cast<const float*>(memory.features));
    EXPECT_EQ(number, memory.frame);
    shown.frame_of_slot.emplace(memory.slot, number);
  }
  for (const SeenPointer& pointer : seen.pointers)
    shown.frame_of_age.emplace(pointer.frames_ago, static_cast<std::int64_t>(*pointer.values));
  return shown;
}

TEST(MemoryBank, ShowsThePromptAndWhatThereIsAtTheStartOfAClip) {
  MemoryBank bank(sizes_of());
  store(bank, 0, true);
  EXPECT_THAT(look_back(bank, 1).frame_of_slot, ElementsAre(Pair(6, 0)));
  EXPECT_THAT(look_back(bank, 1).frame_of_age, ElementsAre(Pair(1, 0)));
  store(bank, 1);
  store(bank, 2);
  EXPECT_THAT(look_back(bank, 3).frame_of_slot, ElementsAre(Pair(0, 2), Pair(1, 1), Pair(6, 0)));
  EXPECT_THAT(look_back(bank, 3).frame_of_age, ElementsAre(Pair(1, 2), Pair(2, 1), Pair(3, 0)));
}

TEST(MemoryBank, KeepsSixMemoriesFifteenPointersAndThePromptForEver) {
  MemoryBank bank(sizes_of());
  store(bank, 0, true);
  for (std::int64_t frame = 1; frame < 1000; ++frame) store(bank, frame);
  const Shown shown = look_back(bank, 1000);
  EXPECT_THAT(shown.frame_of_slot, ElementsAre(Pair(0, 999), Pair(1, 998), Pair(2, 997), Pair(3, 996),
                                               Pair(4, 995), Pair(5, 994), Pair(6, 0)));
  EXPECT_EQ(shown.frame_of_age.size(), 16U);
  for (std::int64_t age = 1; age <= 15; ++age) EXPECT_EQ(shown.frame_of_age.find(age)->second, 1000 - age);
  EXPECT_EQ(shown.frame_of_age.find(1000)->second, 0);
}

TEST(MemoryBank, KeepsEveryPromptAndNeverShowsOneTwice) {
  MemoryBank bank(sizes_of());
  store(bank, 3, true);
  for (std::int64_t frame = 4; frame < 20; ++frame) store(bank, frame, frame == 10 || frame == 17);
  const Shown shown = look_back(bank, 20);
  EXPECT_THAT(shown.frame_of_slot, ElementsAre(Pair(0, 19), Pair(1, 18), Pair(3, 16), Pair(4, 15),
                                               Pair(5, 14), Pair(6, 3), Pair(6, 10), Pair(6, 17)));
  EXPECT_EQ(shown.frame_of_age.count(3), 1U);
  EXPECT_EQ(shown.frame_of_age.count(10), 1U);
  EXPECT_EQ(shown.frame_of_age.count(17), 1U);
}

TEST(MemoryBank, AShortClipHasFewerPointers) {
  MemoryBank bank(sizes_of());
  store(bank, 0, true);
  for (std::int64_t frame = 1; frame < 5; ++frame) store(bank, frame);
  EXPECT_EQ(look_back(bank, 5, 6).frame_of_age.size(), 5U);
  EXPECT_EQ(look_back(bank, 5, 4).frame_of_age.size(), 4U);  // three recent ones and the prompt
  EXPECT_EQ(pointers_of_clip(4, 16), 4);
  EXPECT_EQ(pointers_of_clip(300, 16), 16);
  EXPECT_EQ(pointers_of_clip(0, 16), 16);
}

TEST(MemoryBank, LeavesAGapForFramesThatWereLeftOut) {
  MemoryBank bank(sizes_of());
  store(bank, 0, true);
  for (const std::int64_t frame : {1, 2, 7, 9}) store(bank, frame);
  EXPECT_THAT(look_back(bank, 10).frame_of_slot, ElementsAre(Pair(0, 9), Pair(2, 7), Pair(6, 0)));
}

TEST(MemoryBank, BeyondTheMostPromptsTheOldestActLikeTrackedFrames) {
  MemoryBank bank(sizes_of());
  store(bank, 0, true);
  for (std::int64_t frame = 1; frame < 4; ++frame) store(bank, frame, frame == 3);
  const Shown shown = look_back(bank, 4, 0, 1);
  EXPECT_THAT(shown.frame_of_slot, ElementsAre(Pair(1, 2), Pair(2, 1), Pair(3, 0), Pair(6, 3)));
  for (std::int64_t frame = 4; frame < 20; ++frame) store(bank, frame);
  EXPECT_EQ(look_back(bank, 20, 0, 1).frame_of_slot.count(6), 1U);
}

TEST(MemoryBank, ClearForgetsAndKeepsTheMemory) {
  MemoryBank bank(sizes_of());
  for (std::int64_t frame = 0; frame < 30; ++frame) store(bank, frame, frame % 10 == 0);
  const std::size_t bytes = bank.bytes();
  bank.clear();
  EXPECT_THAT(look_back(bank, 30).frame_of_slot, IsEmpty());
  EXPECT_THAT(look_back(bank, 30).frame_of_age, IsEmpty());
  for (std::int64_t frame = 0; frame < 30; ++frame) store(bank, frame, frame % 10 == 0);
  EXPECT_EQ(bank.bytes(), bytes);
}

TEST(MemoryBank, HasTheSizesOfTheDesign) {
  constexpr std::size_t kSam2 = 4096 * 64, kEdgeTam = 512 * 64;
  MemoryBank sam2({kSam2, 256, 7, 16, ElementType::bfloat16});
  MemoryBank edgetam({kEdgeTam, 256, 7, 16, ElementType::float16});
  const std::vector<float> features(kSam2), pointer(256);
  for (MemoryBank* bank : {&sam2, &edgetam})
    for (std::int64_t frame = 0; frame < 300; ++frame)
      bank->store(frame, frame == 0, features.data(), ElementType::float32, pointer);
  EXPECT_EQ(sam2.bytes(), 7 * kSam2 * 2 + 16 * 256 * 4U);  // 3.52 MiB
  EXPECT_EQ(edgetam.bytes(), 7 * kEdgeTam * 2 + 16 * 256 * 4U);
  EXPECT_LE(sam2.bytes(), 3.6 * 1024 * 1024);
  EXPECT_LE(edgetam.bytes(), 0.5 * 1024 * 1024);
}

TEST(MemoryBank, RoundsFeaturesToItsType) {
  MemoryBank bank(sizes_of(ElementType::bfloat16));
  const float value = 1.00390625F;  // between two values of bfloat16: rounds to 1
  bank.store(0, true, &value, ElementType::float32, {&value, 1});
  Seen seen;
  bank.look_back(1, 0, kAllPrompts, seen);
  EXPECT_EQ(*reinterpret_cast<const std::uint16_t*>(seen.memories.at(0).features), 0x3F80);
  EXPECT_EQ(*seen.pointers.at(0).values, value);
}

}  // namespace
}  // namespace headroom::inference::vos
