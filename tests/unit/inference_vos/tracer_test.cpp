// The bookkeeping of the tracker, exactly: the tracer graphs report what they were given.
#include "inference/vos/small_floats.h"
#include "tracer_fixture.h"

namespace headroom::inference::vos {
namespace {

using test::error_of;
using test::value_of;
using testing::HasSubstr;

TEST_F(TracerTest, ThePromptFrameIsDecodedWithoutMemory) {
  Tracker tracker = load();
  value_of(tracker.start_video(kSide, kSide, 10, 1));
  value_of(tracker.prompt(0, click(0, 11)));
  step(tracker, 0);
  const Trace prompt = trace(tracker);
  EXPECT_EQ(prompt.no_memory(), 1);
  EXPECT_EQ(prompt.mask_on(), 0);
  EXPECT_EQ(prompt.points(), 1);
  EXPECT_EQ(prompt.first_label(), 1);
  EXPECT_EQ(prompt.first_x(), 11);
  EXPECT_EQ(prompt.first_y(), 7);
  EXPECT_EQ(prompt.memory_places(), 0);
  EXPECT_TRUE(tracker.object(0).visible);
  EXPECT_EQ(tracker.object(0).score, 5);
  EXPECT_EQ(tracker.mask(0).width, kSide);
  EXPECT_EQ(std::count(tracker.mask(0).pixels.begin(), tracker.mask(0).pixels.end(), 1), kSide * kSide);
}

TEST_F(TracerTest, AnEncoderOfBytesGetsThePictureAsItIs) {
  Tracker pixels = load("pixels"), normalised = load("half");
  for (Tracker* tracker : {&pixels, &normalised}) {
    value_of(tracker->start_video(kSide, kSide, 0, 1));
    value_of(tracker->prompt(0, click(3, 11)));
    for (const std::int64_t frame : {3, 4, 250}) value_of(tracker->step(frame, picture(frame, 97)));
  }
  EXPECT_EQ(trace(pixels).frame(), 250);
  EXPECT_THAT(pixels.logits(0), testing::ElementsAreArray(normalised.logits(0)));
}

TEST_F(TracerTest, ATrackedFrameHasOnePointThatIsNone) {
  Tracker tracker = load();
  value_of(tracker.start_video(kSide, kSide, 10, 1));
  value_of(tracker.prompt(0, click(0, 11)));
  step(tracker, 0);
  step(tracker, 1);
  const Trace tracked = trace(tracker);
  EXPECT_EQ(tracked.frame(), 1);
  EXPECT_EQ(tracked.object(), 11);
  EXPECT_EQ(tracked.no_memory(), 0);
  EXPECT_EQ(tracked.points(), 1);
  EXPECT_EQ(tracked.first_label(), -1);
  EXPECT_EQ(tracked.first_x(), 0);
}

TEST_F(TracerTest, TheBankShowsPromptRecentFramesAndAges) {
  Tracker tracker = load();
  constexpr std::int64_t kFrames = 40;
  value_of(tracker.start_video(kSide, kSide, kFrames, 1));
  value_of(tracker.prompt(0, click(0, 11)));
  for (std::int64_t frame = 0; frame < kFrames; ++frame) {
    step(tracker, frame);
    const Trace now = trace(tracker);
    if (frame == 0) continue;
    // Pointers older than 31/15 of the longest age have no place of their own in the trace.
    if (frame < 32) expect_bank(now, frame, {0}, kFrames);
    EXPECT_EQ(now.memory_places(), std::min<std::int64_t>(frame, 7));
    EXPECT_EQ(now.pointer_places(), std::min<std::int64_t>(frame, 16));
  }
}

TEST_F(TracerTest, AShortClipHasItsOwnAges) {
  for (const std::int64_t frames : {2, 3, 9, 16, 17}) {
    SCOPED_TRACE(frames);
    Tracker tracker = load();
    value_of(tracker.start_video(kSide, kSide, frames, 1));
    value_of(tracker.prompt(0, click(0, 11)));
    step(tracker, 0);
    for (std::int64_t frame = 1; frame < frames; ++frame) {
      step(tracker, frame);
      expect_bank(trace(tracker), frame, {0}, frames);
    }
  }
}

TEST_F(TracerTest, AClipOfUnknownLengthHasTheAgesOfALongOne) {
  Tracker tracker = load();
  value_of(tracker.start_video(kSide, kSide, 0, 1));
  value_of(tracker.prompt(0, click(0, 11)));
  step(tracker, 0);
  step(tracker, 1);
  EXPECT_NEAR(trace(tracker).sum_of_ages(), 1.0F / 15, 1e-3);
}

TEST_F(TracerTest, LaterPromptsAreKeptForEver) {
  Tracker tracker = load();
  value_of(tracker.start_video(kSide, kSide, 200, 1));
  for (const std::int64_t frame : {12, 2, 20}) value_of(tracker.prompt(0, click(frame, 11)));
  for (std::int64_t frame = 0; frame < 31; ++frame) {
    step(tracker, frame);
    if (frame < 2) {
      EXPECT_FALSE(tracker.object(0).visible);
      EXPECT_EQ(std::count(tracker.mask(0).pixels.begin(), tracker.mask(0).pixels.end(), 1), 0);
    } else if (frame == 2 || frame == 12 || frame == 20) {
      EXPECT_EQ(trace(tracker).no_memory(), 1) << frame;
    } else {
      expect_bank(trace(tracker), frame, {2, 12, 20}, 200);
    }
  }
}

TEST_F(TracerTest, TheMemoryOfAPromptIsCutAtZeroInThePredictorOnly) {
  for (const Profile profile : {Profile::predictor, Profile::evaluation}) {
    Tracker tracker = load("dynamic", {.profile = profile});
    value_of(tracker.start_video(kSide, kSide, 10, 1));
    value_of(tracker.prompt(0, click(0, 11)));
    for (int frame = 0; frame < 3; ++frame) step(tracker, frame);
    EXPECT_EQ(trace(tracker).binarized(6), profile == Profile::predictor ? 1 : 0);
    EXPECT_EQ(trace(tracker).binarized(0), 0);
  }
}

TEST_F(TracerTest, HolesAreFilledInMasksAndInThePromptsMemory) {
  constexpr int kHole = 200;
  constexpr std::size_t kLast = 255;
  for (const Profile profile : {Profile::predictor, Profile::evaluation}) {
    SCOPED_TRACE(name_of(profile));
    const bool fills = profile == Profile::predictor;
    Tracker tracker = load("dynamic", {.profile = profile});
    value_of(tracker.start_video(kSide, kSide, 10, 1));
    value_of(tracker.prompt(0, click(0, 11)));
    step(tracker, 0, kHole);
    EXPECT_EQ(tracker.logits(0)[kLast] == 0.1F, fills);
    step(tracker, 1, kHole);
    EXPECT_EQ(tracker.logits(0)[kLast] == 0.1F, fills);
    step(tracker, 2);
    EXPECT_EQ(trace(tracker).holes(6), fills ? 0 : 1);  // the prompt's memory
    EXPECT_EQ(trace(tracker).holes(0), 1);              // a tracked frame's memory
  }
}

TEST_F(TracerTest, AnAbsentObjectHasNoMaskAndAnAbsentMemory) {
  Tracker tracker = load();
  value_of(tracker.start_video(kSide, kSide, 10, 2));
  value_of(tracker.prompt(0, click(0, 11)));
  value_of(tracker.prompt(1, click(0, 12)));
  step(tracker, 0);
  step(tracker, 1, 12);  // hides object 12
  EXPECT_TRUE(tracker.object(0).visible);
  EXPECT_FALSE(tracker.object(1).visible);
  EXPECT_EQ(tracker.object(1).score, -5);
  EXPECT_FALSE(trace(tracker, 0).is_absent);
  EXPECT_TRUE(trace(tracker, 1).is_absent);
  EXPECT_EQ(std::count(tracker.mask(1).pixels.begin(), tracker.mask(1).pixels.end(), 1), 0);
  step(tracker, 2);
  EXPECT_TRUE(tracker.object(1).visible);
  EXPECT_EQ(trace(tracker, 0).visible(0), 1);
  EXPECT_EQ(trace(tracker, 1).visible(0), 0);
  EXPECT_EQ(trace(tracker, 1).holes(0), 256);  // the memory encoder has seen an empty mask
  EXPECT_EQ(trace(tracker, 1).visible_pointers(), 1);
  EXPECT_EQ(trace(tracker, 1).pointers(), 2);
  expect_bank(trace(tracker, 1), 2, {0}, 10);
}

TEST_F(TracerTest, OneClickAndTrackedFramesUseTheBestToken) {
  Tracker tracker = load();
  value_of(tracker.start_video(kSide, kSide, 10, 1));
  value_of(tracker.prompt(0, click(2, 11)));
  float tokens = 0;
  for (std::int64_t frame = 2; frame < 9; ++frame) {
    step(tracker, frame);
    EXPECT_EQ(trace(tracker).token, 1 + frame % 3);
    if (frame > 2) {
      EXPECT_EQ(trace(tracker).sum_of_pointer_tokens(), tokens) << "pointers come from the masks' tokens";
    }
    tokens += static_cast<float>(trace(tracker).token);
  }
}

TEST_F(TracerTest, ABoxIsTwoPointsBeforeTheClicksAndUsesTokenZero) {
  Tracker tracker = load();
  value_of(tracker.start_video(2 * kSide, kSide / 2, 10, 1));
  VosPrompt prompt;
  prompt.box = PromptBox{22, 3, 60, 10};
  step(tracker, 0);  // without a prompt yet
  prompt.frame = 1;
  value_of(tracker.prompt(0, prompt));
  step(tracker, 1);
  EXPECT_EQ(trace(tracker).token, 0);
  EXPECT_EQ(trace(tracker).points(), 2);
  EXPECT_EQ(trace(tracker).first_label(), 2);
  EXPECT_EQ(trace(tracker).sum_of_labels(), 5);
  EXPECT_EQ(trace(tracker).first_x(), 11);  // × S/W
  EXPECT_EQ(trace(tracker).first_y(), 6);   // × S/H
  EXPECT_EQ(trace(tracker).sum_of_x(), 41);
  EXPECT_EQ(trace(tracker).sum_of_y(), 26);
  prompt.frame = 2;
  prompt.points = {{40, 4, false}};
  value_of(tracker.prompt(0, prompt));
  step(tracker, 2);
  EXPECT_EQ(trace(tracker).points(), 3);
  EXPECT_EQ(trace(tracker).first_label(), 2);
  EXPECT_EQ(trace(tracker).sum_of_labels(), 5);
  EXPECT_EQ(trace(tracker).sum_of_x(), 61);
  step(tracker, 3);
  EXPECT_EQ(trace(tracker).sum_of_pointer_tokens(), 0);
}

VosPrompt mask_prompt(std::int64_t frame, int width, int height) {
  VosPrompt prompt;
  prompt.frame = frame;
  BinaryMask mask{width, height, std::vector<std::uint8_t>(static_cast<std::size_t>(width * height), 0)};
  for (int y = 0; y < height / 2; ++y)
    for (int x = 0; x < width; ++x) mask.pixels[static_cast<std::size_t>(y * width + x)] = 1;
  prompt.mask = mask;
  return prompt;
}

TEST_F(TracerTest, AMaskIsUsedAsItIsAndItsPointerComesFromTheDecoder) {
  Tracker tracker = load();
  value_of(tracker.start_video(2 * kSide, 2 * kSide, 10, 1));
  value_of(tracker.prompt(0, mask_prompt(0, 2 * kSide, 2 * kSide)));
  step(tracker, 0);
  const auto logits = tracker.logits(0);
  EXPECT_FLOAT_EQ(logits[0], 10);
  EXPECT_FLOAT_EQ(logits[255], -10);
  EXPECT_EQ(tracker.object(0).score, 10);
  EXPECT_EQ(std::count(tracker.mask(0).pixels.begin(), tracker.mask(0).pixels.end(), 1), 2 * kSide * kSide);
  step(tracker, 1);
  // mask_downsample of the tracer: the block's first pixel + 40. Token 0 gives the pointer.
  EXPECT_EQ(trace(tracker).object(), 41);
  EXPECT_EQ(trace(tracker).sum_of_pointer_tokens(), 0);
  EXPECT_EQ(trace(tracker).binarized(6), 1);
  EXPECT_EQ(trace(tracker).holes(6), 128);
  EXPECT_EQ(trace(tracker).mask_on(), 0);
  EXPECT_EQ(trace(tracker).mask_corner(), 0) << "the mask input is zeros again";
}

TEST_F(TracerTest, AMaskOfTheInputsSizeIsNotResized) {
  Tracker tracker = load();
  value_of(tracker.start_video(kSide, kSide, 10, 1));
  VosPrompt prompt = mask_prompt(0, kSide, kSide);
  prompt.mask->pixels.assign(kSide * kSide, 0);
  prompt.mask->pixels[0] = 1;
  value_of(tracker.prompt(0, prompt));
  step(tracker, 0);
  EXPECT_GT(tracker.logits(0)[0], -10);
  EXPECT_LT(tracker.logits(0)[0], 0);
}

TEST_F(TracerTest, ObjectsDoNotMixInBatchesOfAnySize) {
  for (const int objects_per_run : {1, 2, 4, 16}) {
    SCOPED_TRACE(objects_per_run);
    constexpr std::size_t kObjects = 7;
    Tracker tracker = load("dynamic", {.objects_per_run = objects_per_run});
    value_of(tracker.start_video(kSide, kSide, 60, kObjects));
    for (std::size_t i = 0; i < kObjects; ++i)  // two begin later, one has two prompts
      value_of(tracker.prompt(i, click(i >= 5 ? 3 : 0, static_cast<float>(10 + i))));
    value_of(tracker.prompt(2, click(8, 12)));
    for (std::int64_t frame = 0; frame < 14; ++frame) {
      step(tracker, frame);
      for (std::size_t i = 0; i < kObjects; ++i) {
        SCOPED_TRACE("object " + std::to_string(i));
        const std::set<std::int64_t> prompts = i == 2   ? std::set<std::int64_t>{0, 8}
                                               : i >= 5 ? std::set<std::int64_t>{3}
                                                        : std::set<std::int64_t>{0};
        if (frame < *prompts.begin()) continue;
        EXPECT_EQ(trace(tracker, i).object(), 10 + i);
        if (prompts.count(frame) == 0) expect_bank(trace(tracker, i), frame, prompts, 60);
      }
    }
  }
}

TEST_F(TracerTest, FixedShapesShowTheSame) {
  constexpr std::size_t kObjects = 3;  // a batch of two and one that is filled up
  Tracker tracker = load("fixed");
  value_of(tracker.start_video(kSide, kSide, 30, kObjects));
  for (std::size_t i = 0; i < kObjects; ++i)
    value_of(tracker.prompt(i, click(0, static_cast<float>(10 + i))));
  value_of(tracker.prompt(1, click(5, 11)));
  for (std::int64_t frame = 0; frame < 30; ++frame) {
    step(tracker, frame);
    for (std::size_t i = 0; i < kObjects; ++i) {
      const Trace now = trace(tracker, i);
      EXPECT_EQ(now.object(), 10 + i);
      EXPECT_EQ(now.points(), 3);
      if (frame == 0 || (i == 1 && frame == 5)) continue;
      expect_bank(now, frame, i == 1 ? std::set<std::int64_t>{0, 5} : std::set<std::int64_t>{0}, 30);
      EXPECT_EQ(now.memory_places(), 8);
      EXPECT_EQ(now.pointer_places(), 17);
    }
  }
}

TEST_F(TracerTest, FixedShapesKeepTheNearestPrompts) {
  Tracker tracker = load("fixed");  // room for two prompts
  value_of(tracker.start_video(kSide, kSide, 60, 1));
  for (const std::int64_t frame : {0, 10, 20}) value_of(tracker.prompt(0, click(frame, 11)));
  for (std::int64_t frame = 0; frame < 40; ++frame) step(tracker, frame);
  EXPECT_EQ(trace(tracker).sum_of_frames(6), 11 + 21);
  EXPECT_EQ(trace(tracker).memories(6), 2);
}

TEST_F(TracerTest, HalfGraphsOfEdgeTamShowTheSameWithoutAges) {
  for (const ElementType type : {ElementType::bfloat16, ElementType::float16, ElementType::float32}) {
    Tracker tracker = load("half", {.memory_type = type});
    value_of(tracker.start_video(kSide, kSide, 40, 2));
    for (std::size_t i = 0; i < 2; ++i) value_of(tracker.prompt(i, click(0, static_cast<float>(10 + i))));
    for (std::int64_t frame = 0; frame < 20; ++frame) step(tracker, frame);
    for (std::size_t i = 0; i < 2; ++i) {
      const Trace now = trace(tracker, i);
      for (std::size_t s = 0; s < 6; ++s) EXPECT_EQ(now.sum_of_frames(s), 19 - static_cast<float>(s));
      EXPECT_EQ(now.sum_of_frames(6), 1);
      EXPECT_EQ(now.object(), 10 + i);
      EXPECT_EQ(now.pointers(), 16);
      EXPECT_EQ(now.sum_of_ages(), 0);
    }
  }
}

// With halves, a graph of halves gets the values that it would get from bytes.
TEST_F(TracerTest, HalvesAreTheValuesOfBytes) {
  for (const char* kind : {"half", "dynamic"}) {
    Tracker bytes = load(kind), halves = load(kind);
    for (Tracker* tracker : {&bytes, &halves}) {
      value_of(tracker->start_video(kSide, kSide, 20, 1));
      value_of(tracker->prompt(0, click(0, 11)));
    }
    for (std::int64_t frame = 0; frame < 20; ++frame) {
      step(bytes, frame);
      std::vector<std::uint16_t> values;
      for (const std::uint8_t level : picture(frame))  // the graphs' mean is 0, and std is 1
        values.push_back(to_float16(static_cast<float>(level) / 255));
      value_of(halves.step(frame, values));
      const auto wanted = bytes.logits(0), got = halves.logits(0);
      ASSERT_EQ(got.size(), wanted.size());
      const float tolerance = std::string(kind) == "half" ? 0 : 0.5F;  // float16 has 11 bits
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], wanted[i], tolerance) << kind << " frame " << frame << " pixel " << i;
    }
  }
  Tracker tracker = load();
  value_of(tracker.start_video(kSide, kSide, 20, 1));
  EXPECT_THAT(error_of(tracker.step(0, std::vector<std::uint16_t>(3))).sentence(),
              HasSubstr("3 halves instead of 12288"));
}

TEST_F(TracerTest, AnEncoderOfBytesTakesNoHalves) {
  Tracker tracker = load("pixels");
  value_of(tracker.start_video(kSide, kSide, 20, 1));
  value_of(tracker.prompt(0, click(0, 11)));
  EXPECT_THAT(error_of(tracker.step(0, std::vector<std::uint16_t>(3 * kSide * kSide))).sentence(),
              HasSubstr("use --planes uint8"));
}

TEST_F(TracerTest, ANewVideoForgetsTheLastOneAndNeedsNoMoreMemory) {
  Tracker tracker = load();
  Bytes bank{}, scratch{};
  for (int video = 0; video < 3; ++video) {
    value_of(tracker.start_video(kSide, kSide, 30, 3));
    for (std::size_t i = 0; i < 3; ++i)
      value_of(tracker.prompt(i, click(0, static_cast<float>(20 + 3 * video) + static_cast<float>(i))));
    for (std::int64_t frame = 0; frame < 30; ++frame) step(tracker, frame);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(trace(tracker, i).object(), 20 + 3 * video + i);
      expect_bank(trace(tracker, i), 29, {0}, 30);
    }
    if (video == 1) {
      bank = tracker.bank_bytes();
      scratch = tracker.scratch_bytes();
    }
    value_of(tracker.end_video());
    value_of(tracker.end_video());  // nothing left to do
  }
  EXPECT_EQ(tracker.bank_bytes(), bank);
  EXPECT_EQ(tracker.scratch_bytes(), scratch);
  EXPECT_GT(bank.count, 0);
}

TEST_F(TracerTest, FramesMayBeLeftOut) {
  Tracker tracker = load();
  value_of(tracker.start_video(kSide, kSide, 40, 1));
  value_of(tracker.prompt(0, click(0, 11)));
  for (const std::int64_t frame : {0, 1, 2, 9, 10}) step(tracker, frame);
  EXPECT_EQ(trace(tracker).sum_of_frames(0), 10);
  EXPECT_EQ(trace(tracker).memories(1), 0);
  EXPECT_EQ(trace(tracker).pointers(), 4);
}

TEST_F(TracerTest, RejectsWrongCalls) {
  Tracker tracker = load();
  EXPECT_THAT(error_of(tracker.step(0, picture(0))).sentence(), HasSubstr("no video has been started"));
  EXPECT_THAT(error_of(tracker.start_video(0, 5, 1, 1)).sentence(), HasSubstr("0 × 5"));
  value_of(tracker.start_video(kSide, kSide, 10, 1));
  EXPECT_THAT(error_of(tracker.prompt(1, click(0, 1))).sentence(), HasSubstr("has 1 objects"));
  EXPECT_THAT(error_of(tracker.prompt(0, {})).sentence(), HasSubstr("no points, box or mask"));
  VosPrompt both = mask_prompt(0, 8, 8);
  both.points.push_back({1, 1, true});
  EXPECT_THAT(error_of(tracker.prompt(0, both)).sentence(), HasSubstr("a mask takes no points"));
  VosPrompt empty = mask_prompt(0, 8, 8);
  empty.mask->pixels.assign(64, 0);
  EXPECT_THAT(error_of(tracker.prompt(0, empty)).sentence(), HasSubstr("the mask is empty"));
  EXPECT_THAT(error_of(tracker.step(0, std::vector<std::uint8_t>(5))).sentence(),
              HasSubstr("5 bytes instead of"));
  value_of(tracker.prompt(0, click(3, 11)));
  EXPECT_THAT(error_of(tracker.step(4, picture(4))).sentence(),
              HasSubstr("prompt for frame 3, which was left out"));
  value_of(tracker.start_video(kSide, kSide, 10, 1));
  step(tracker, 2);
  EXPECT_THAT(error_of(tracker.step(2, picture(2))).sentence(), HasSubstr("frames must ascend"));
  EXPECT_THAT(error_of(tracker.prompt(0, click(2, 1))).sentence(), HasSubstr("tracked already"));
}

TEST_F(TracerTest, RejectsMorePointsThanTheGraphTakes) {
  Tracker tracker = load("fixed");
  value_of(tracker.start_video(kSide, kSide, 10, 1));
  VosPrompt prompt = click(0, 1);
  prompt.points.resize(4, {1, 1, true});
  value_of(tracker.prompt(0, prompt));
  EXPECT_THAT(error_of(tracker.step(0, picture(0))).sentence(), HasSubstr("it has 4 points"));
}

TEST_F(TracerTest, ASecondPromptOfTheSameFrameReplacesTheFirst) {
  Tracker tracker = load();
  value_of(tracker.start_video(kSide, kSide, 10, 1));
  value_of(tracker.prompt(0, click(0, 11)));
  value_of(tracker.prompt(0, click(0, 12)));
  step(tracker, 0);
  EXPECT_EQ(trace(tracker).object(), 12);
}

TEST_F(TracerTest, WithoutOverlapAPixelBelongsToOneObject) {
  Tracker tracker = load("dynamic", {.non_overlap = true});
  value_of(tracker.start_video(30, 20, 10, 3));
  for (std::size_t i = 0; i < 3; ++i) value_of(tracker.prompt(i, click(0, static_cast<float>(10 + i))));
  for (std::int64_t frame = 0; frame < 3; ++frame) {
    step(tracker, frame);
    for (std::size_t pixel = 0; pixel < 600; ++pixel) {
      int owners = 0;
      for (std::size_t i = 0; i < 3; ++i) owners += tracker.mask(i).pixels[pixel];
      EXPECT_EQ(owners, 1);
    }
  }
}

}  // namespace
}  // namespace headroom::inference::vos
