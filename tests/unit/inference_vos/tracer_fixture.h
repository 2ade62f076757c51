// Tests with the tracer graphs of tests/golden/vos/tracer_graphs.py, whose logits say what the graphs were
// given.
#pragma once

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "inference/vos/tracker.h"
#include "unit/inference/plugin_fixture.h"

namespace headroom::inference::vos {

// What the logits of one object say, without the number of the token.
struct Trace {
  std::vector<float> values;
  int token = 0;
  bool is_absent = false;  // all logits are those of an absent object

  explicit Trace(std::span<const float> logits) : values(logits.begin(), logits.end()) {
    is_absent = values.front() == -1024;
    token = static_cast<int>(values.front() / 1000);
    for (float& value : values) value -= static_cast<float>(1000 * token) + 2;
  }
  float at(std::size_t index) const { return values.at(index); }
  float frame() const { return at(0); }
  // Of the memories in slot s (0..6).
  float sum_of_frames(std::size_t s) const { return at(32 + s); }
  float memories(std::size_t s) const { return at(32 + 8 + s); }
  float binarized(std::size_t s) const { return at(32 + 16 + s); }
  float holes(std::size_t s) const { return at(32 + 24 + s); }
  float visible(std::size_t s) const { return at(32 + 32 + s); }
  float token_of_memories(std::size_t s) const { return at(32 + 40 + s); }
  float object_of_memories(std::size_t s) const { return at(32 + 48 + s); }
  // Sum of frame + 1 of the pointers whose age is `fifteenths` of the longest one.
  float pointers_of_age(std::size_t fifteenths) const { return at(88 + fifteenths); }
  float pointers() const { return at(121); }
  float sum_of_ages() const { return at(122); }
  float pointer_places() const { return at(123); }
  float memory_places() const { return at(124); }
  float visible_pointers() const { return at(125); }
  float sum_of_pointer_tokens() const { return at(126); }
  // Of the decoder.
  float object() const { return at(128); }
  float points() const { return at(129); }
  float sum_of_labels() const { return at(130); }
  float first_label() const { return at(131); }
  float first_x() const { return at(132); }
  float first_y() const { return at(133); }
  float no_memory() const { return at(134); }
  float mask_on() const { return at(135); }
  float mask_corner() const { return at(136); }
  float sum_of_x() const { return at(137); }
  float sum_of_y() const { return at(138); }
};

class TracerTest : public test::PluginTest {
 protected:
  static constexpr int kSide = 64;
  void SetUp() override { start("onnxruntime"); }

  static Tracker load(const std::string& kind = "dynamic", TrackerOptions options = {}) {
    return test::value_of(Tracker::load(*backend_, test::source_path("tests/golden/vos/tracer/" + kind),
                                        one_thread(), options));
  }
  // The picture that tells the graphs the frame's number and a code.
  static std::vector<std::uint8_t> picture(std::int64_t frame, int code = 0) {
    std::vector<std::uint8_t> image(3 * kSide * kSide, 0);
    std::fill_n(image.begin(), kSide * kSide, static_cast<std::uint8_t>(frame));
    std::fill_n(image.begin() + kSide * kSide, kSide * kSide, static_cast<std::uint8_t>(code));
    return image;
  }
  // A click that names the object. The video has the input's size, so coordinates stay as they are.
  static VosPrompt click(std::int64_t frame, float object) {
    VosPrompt prompt;
    prompt.frame = frame;
    prompt.points.push_back({object, 7, true});
    return prompt;
  }
  static void step(Tracker& tracker, std::int64_t frame, int code = 0) {
    test::value_of(tracker.step(frame, picture(frame, code)));
  }
  static Trace trace(const Tracker& tracker, std::size_t object = 0) { return Trace(tracker.logits(object)); }

  // Compares what attention was shown in `frame` with the rule, for frames that were tracked from the first
  // prompt on.
  static void expect_bank(const Trace& trace, std::int64_t frame, const std::set<std::int64_t>& prompts,
                          std::int64_t clip_frames) {
    SCOPED_TRACE("frame " + std::to_string(frame));
    const std::int64_t longest = clip_frames > 0 ? std::min<std::int64_t>(clip_frames, 16) - 1 : 15;
    std::map<std::size_t, float> slots;
    float prompt_frames = 0, pointers = 0, ages = 0;
    std::map<std::size_t, float> by_age;
    const auto see_pointer = [&](std::int64_t of) {
      ++pointers;
      const float age = static_cast<float>(frame - of) / static_cast<float>(longest);
      ages += age;
      by_age[static_cast<std::size_t>(std::lround(age * 15))] += static_cast<float>(of + 1);
    };
    for (const std::int64_t prompt : prompts) {
      if (prompt >= frame) continue;
      prompt_frames += static_cast<float>(prompt + 1);
      see_pointer(prompt);
    }
    for (std::int64_t back = 1; back <= 15; ++back) {
      const std::int64_t of = frame - back;
      if (of < *prompts.begin() || prompts.count(of) > 0) continue;
      if (back <= 6) slots[static_cast<std::size_t>(back - 1)] = static_cast<float>(of + 1);
      if (back <= longest) see_pointer(of);
    }
    for (std::size_t s = 0; s < 6; ++s) {
      EXPECT_EQ(trace.sum_of_frames(s), slots.count(s) > 0 ? slots[s] : 0) << "slot " << s;
      EXPECT_EQ(trace.memories(s), slots.count(s) > 0 ? 1 : 0) << "slot " << s;
    }
    EXPECT_EQ(trace.sum_of_frames(6), prompt_frames);
    EXPECT_EQ(trace.pointers(), pointers);
    EXPECT_NEAR(trace.sum_of_ages(), ages, 1e-3);
    for (std::size_t age = 0; age < 32; ++age)
      EXPECT_EQ(trace.pointers_of_age(age), by_age.count(age) > 0 ? by_age[age] : 0)
          << "age " << age << "/15";
  }
};

}  // namespace headroom::inference::vos
