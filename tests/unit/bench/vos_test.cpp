// Parts of --task vos that need neither a model nor pictures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/json.h"
#include "bench/protocol.h"
#include "bench/vos/mask_lines.h"
#include "bench/vos/memory_growth.h"
#include "bench/vos/scores.h"
#include "bench/vos/setup.h"
#include "bench/vos/videos.h"
#include "support/test_support.h"

namespace headroom::bench {
namespace {
using testing::ElementsAre;

BinaryMask mask_of_text(std::string_view pixels, int width) {
  BinaryMask mask{width, static_cast<int>(pixels.size()) / width, {}};
  for (const char pixel : pixels) mask.pixels.push_back(pixel == '#' ? 1 : 0);
  return mask;
}

std::vector<std::int64_t> runs_of(std::string_view pixels, int width) {
  std::vector<std::int64_t> runs;
  append_runs(mask_of_text(pixels, width), runs);
  return runs;
}

TEST(VosMasks, RunsBeginWithZeros) {
  EXPECT_THAT(runs_of("..##.#", 3), ElementsAre(2, 2, 1, 1));
  EXPECT_THAT(runs_of("##....", 3), ElementsAre(0, 2, 4));
  EXPECT_THAT(runs_of("......", 3), ElementsAre(6));
  for (const std::string_view pixels : {"..##.#", "##....", "......", "######"}) {
    const auto back = mask_of_runs(3, 2, runs_of(pixels, 3));
    ASSERT_TRUE(back);
    EXPECT_EQ(back->pixels, mask_of_text(pixels, 3).pixels);
  }
}

TEST(VosMasks, RejectRunsOfAnotherSize) {
  EXPECT_FALSE(mask_of_runs(3, 2, {2, 3}));
  EXPECT_FALSE(mask_of_runs(3, 2, {2, 5}));
  EXPECT_FALSE(mask_of_runs(3, 2, {8, -2}));
  EXPECT_FALSE(mask_of_runs(1 << 20, 1 << 20, {std::int64_t{1} << 40}));
}

TEST(VosMasks, LinesComeBackAndACutOneIsTheEnd) {
  const test::TemporaryFolder folder;
  const std::string path = (folder / "m.masks").string();
  {
    auto writer = MaskWriter::create(path);
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->add(1, 20, 3, mask_of_text("..##.#", 3)));
    ASSERT_TRUE(writer->add(2, 21, 0, mask_of_text("......", 2)));
  }
  std::istringstream lines(test::read_text(path) + "2 22 0 2");
  const auto first = read_mask_line(lines), second = read_mask_line(lines);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->video, 1U);
  EXPECT_EQ(first->frame, 20);
  EXPECT_EQ(first->object, 3U);
  EXPECT_EQ(first->mask.pixels, mask_of_text("..##.#", 3).pixels);
  EXPECT_EQ(second->mask.width, 2);
  EXPECT_FALSE(read_mask_line(lines));
}

TEST(VosVideos, ComeBackFromTheirFile) {
  PreparedVideo prepared;
  prepared.video = {"v", {"/f/0.jpg", "/f/1.jpg"}, 4, 3, {}};
  VosObject& object = prepared.video.objects.emplace_back();
  object.id = "000";
  object.value = 2;
  object.masks = {{0, "/a/0.png"}, {4, "/a/4.png"}};
  VosPrompt point, box, mask;
  point.points = {{1.5F, 2, true}, {0, 0, false}};
  box.box = PromptBox{1, 2, 3, 4};
  mask.mask = mask_of_text("..##........", 4);
  mask.frame = 1;
  prepared.made = {{point, box, mask}};
  const test::TemporaryFolder folder;
  ASSERT_TRUE(write_videos(videos_path(folder.path()), {prepared, prepared}));
  auto lines = VideoLines::open(videos_path(folder.path()));
  ASSERT_TRUE(lines);
  for (int i = 0; i < 2; ++i) {
    auto back = lines->next();
    ASSERT_TRUE(back && *back);
    EXPECT_EQ((*back)->video.frames, prepared.video.frames);
    EXPECT_EQ((*back)->video.objects[0].masks, object.masks);
    EXPECT_EQ((*back)->video.objects[0].value, 2);
    EXPECT_EQ(to_json(**back), to_json(prepared));
    EXPECT_EQ((*back)->prompts_of(0, PromptKind::points)[0].points[1].positive, false);
    EXPECT_EQ((*back)->prompts_of(0, PromptKind::box)[0].box->bottom, 4);
    EXPECT_EQ((*back)->prompts_of(0, PromptKind::mask)[0].mask->pixels, mask.mask->pixels);
  }
  auto end = lines->next();
  ASSERT_TRUE(end);
  EXPECT_FALSE(*end);
}

TEST(VosVideos, PromptsOfAFileReplaceThoseOfTheGroundTruth) {
  PreparedVideo prepared;
  VosPrompt own;
  own.frame = 7;
  own.points = {{1, 1, true}};
  prepared.video.objects.push_back({"o", {}, 0, {own}});
  prepared.made = {{}};
  for (const PromptKind kind : {PromptKind::points, PromptKind::box, PromptKind::mask}) {
    ASSERT_EQ(prepared.prompts_of(0, kind).size(), 1U);
    EXPECT_EQ(prepared.prompts_of(0, kind)[0].frame, 7);
  }
}

TEST(VosGrowth, PerFrameIgnoresTheFillingOfTheBank) {
  GrowthPoints points(kRingFull);
  for (std::int64_t frame = 0; frame < 200; ++frame)
    points.add(frame, Bytes{1'000'000 + 5'000 * std::min<std::int64_t>(frame, 16)});
  const auto slope = points.slope();
  ASSERT_TRUE(slope);
  EXPECT_EQ(slope->slope, 0);
  EXPECT_EQ(slope->low, 0);
  EXPECT_EQ(slope->high, 0);
}

TEST(VosGrowth, PerFrameIsFoundInAnyNumberOfFrames) {
  for (const std::int64_t frames : {21, 100, 5000}) {
    GrowthPoints points(kRingFull);
    for (std::int64_t frame = 0; frame < frames; ++frame) points.add(frame, Bytes{786'432 * frame});
    const auto slope = points.slope();
    ASSERT_TRUE(slope) << frames;
    EXPECT_EQ(slope->slope, 786'432);
    EXPECT_EQ(slope->low, 786'432);
    EXPECT_LE(slope->points, static_cast<std::int64_t>(GrowthPoints::kMostPoints));
  }
}

// Videos of three objects that ran alone. Each leaves some bytes, with noise of one page.
VosResult clips_that_leave(std::int64_t each_object, std::int64_t each_video) {
  VosResult result;
  std::int64_t bytes = 50'000'000;
  for (int video = 0; video < 8; ++video) {
    for (int object = 0; object < 3; ++object) {
      VosClip clip;
      clip.video = "v" + std::to_string(video);
      clip.object = std::to_string(object);
      bytes += each_object;
      clip.after = Bytes{bytes + (video + object) % 2 * 4096};
      result.clips.push_back(clip);
    }
    bytes += each_video;
  }
  return result;
}

std::vector<std::string> leaks_of(VosResult result) {
  add_growth(result);
  std::vector<std::string> levels;
  for (const VosLeak& leak : result.leaks) levels.push_back(leak.memory + " " + leak.level);
  return levels;
}

TEST(VosGrowth, NamesTheLevelOfALeak) {
  EXPECT_THAT(leaks_of(clips_that_leave(0, 0)), ElementsAre());
  EXPECT_THAT(leaks_of(clips_that_leave(8 << 20, 0)), ElementsAre("host object"));
  EXPECT_THAT(leaks_of(clips_that_leave(0, 8 << 20)), ElementsAre("host video"));
  EXPECT_THAT(leaks_of(clips_that_leave(1 << 20, 8 << 20)), ElementsAre("host object", "host video"));
}

// Videos of three objects that ran together, which leaves 200 KiB. Each of them then ran alone, which frees
// that.
VosResult clips_together_that_leave(std::int64_t each_object, std::int64_t each_video) {
  VosResult result;
  std::int64_t bytes = 50'000'000;
  for (int video = 0; video < 8; ++video) {
    VosClip clip;
    clip.video = "v" + std::to_string(video);
    clip.objects = 3;
    bytes += 3 * each_object + each_video;
    clip.after = Bytes{bytes + (200 << 10)};
    result.clips.push_back(clip);
    for (int object = 0; object < 3; ++object) {
      bytes += each_object;
      result.object_ends.push_back(
          {clip.video, std::to_string(object), Bytes{bytes + (video + object) % 2 * 4096}, {}});
    }
  }
  return result;
}

TEST(VosGrowth, NamesTheLevelOfALeakOfObjectsTogether) {
  EXPECT_THAT(leaks_of(clips_together_that_leave(0, 0)), ElementsAre());
  EXPECT_THAT(leaks_of(clips_together_that_leave(8 << 20, 0)), ElementsAre("host object"));
  EXPECT_THAT(leaks_of(clips_together_that_leave(0, 8 << 20)), ElementsAre("host video"));
  VosResult both = clips_together_that_leave(1 << 20, 8 << 20);
  add_growth(both);
  ASSERT_EQ(both.leaks.size(), 2U);
  EXPECT_NEAR(both.leaks[0].growth.slope, 1 << 20, 8192);
  EXPECT_NEAR(both.leaks[1].growth.slope, 8 << 20, 1 << 16);
}

TEST(VosGrowth, NamesALeakOfTheOnlyObjectOfEachVideo) {
  for (const bool leaks : {false, true}) {
    VosResult result;
    std::int64_t bytes = 50'000'000;
    for (int video = 0; video < 8; ++video) {
      VosClip clip;
      clip.video = "v" + std::to_string(video);
      clip.objects = 1;
      clip.after = Bytes{bytes += leaks ? 1 << 20 : 0};
      result.clips.push_back(clip);
      result.object_ends.push_back({clip.video, "0", Bytes{bytes += leaks ? 1 << 20 : 0}, {}});
    }
    if (leaks)
      EXPECT_THAT(leaks_of(result), ElementsAre("host object"));
    else
      EXPECT_THAT(leaks_of(result), ElementsAre());
  }
}

TEST(VosGrowth, TheBytesOfALeakAreThoseOfEachObject) {
  VosResult result = clips_that_leave(3 << 20, 0);
  add_growth(result);
  ASSERT_EQ(result.leaks.size(), 1U);
  EXPECT_NEAR(result.leaks[0].growth.slope, 3 << 20, 4096);
}

TEST(VosGrowth, AModelLeaksIfEachLoadLeavesMore) {
  VosResult result;
  result.loads = {mebibytes(60), mebibytes(60), mebibytes(60)};
  EXPECT_THAT(leaks_of(result), ElementsAre());
  result.loads = {mebibytes(60), mebibytes(75), mebibytes(75)};  // a cache that is filled once
  EXPECT_THAT(leaks_of(result), ElementsAre());
  result.loads = {mebibytes(60), mebibytes(75), mebibytes(90)};
  EXPECT_THAT(leaks_of(result), ElementsAre("host model"));
}

TEST(VosGrowth, AFrameLeaksIfAClipGrowsToItsEnd) {
  VosResult result;
  VosClip clip;
  clip.video = "v";
  clip.growth = GrowthSlope{786'432, 780'000, 790'000, 100};
  result.clips = {clip};
  EXPECT_THAT(leaks_of(result), ElementsAre("host frame"));
  result.clips[0].growth = GrowthSlope{10, -4096, 4096, 100};
  EXPECT_THAT(leaks_of(result), ElementsAre());
}

// Of a long clip, points are dropped, so the number of points does not tell the longest one.
TEST(VosGrowth, PerFrameIsThatOfTheLongestClipAndAnyClipMayLeak) {
  VosClip shorter, longer;
  shorter.video = "shorter";
  shorter.frames = 144;
  shorter.growth = GrowthSlope{786'432, 780'000, 790'000, 128};
  longer.video = "longer";
  longer.frames = 2000;
  longer.growth = GrowthSlope{0, -10, 10, 124};
  VosResult result;
  result.clips = {shorter, longer};
  add_growth(result);
  ASSERT_EQ(result.leaks.size(), 1U);
  EXPECT_EQ(result.per_frame, longer.growth);
  EXPECT_EQ(result.leaks.front().growth, *shorter.growth);
}

TEST(VosScores, ClipsWithoutTheirMasksAreNotScored) {
  VosClip whole, lost;
  whole.video = "whole";
  lost.video = "lost";
  VosResult result;
  result.clips = {whole, lost};
  result.unscored = {1};
  EXPECT_THAT(finished_clips(result), ElementsAre("whole"));
}

TEST(VosEstimate, GrowsWithObjectsAndSize) {
  VosResult trial;
  trial.side = 1024;
  trial.trials = {{1, mebibytes(4), mebibytes(300), mebibytes(500)},
                  {4, mebibytes(16), mebibytes(390), mebibytes(620)}};
  EXPECT_EQ(estimate_peak(trial, {640, 480, 1, {}}, false), mebibytes(300));
  EXPECT_EQ(estimate_peak(trial, {640, 480, 2, {}}, false), mebibytes(330));
  EXPECT_EQ(estimate_peak(trial, {640, 480, 4, mebibytes(15)}, false), mebibytes(405));
  EXPECT_EQ(estimate_peak(trial, {640, 480, 6, {}}, false), mebibytes(398));    // two more banks
  EXPECT_EQ(estimate_peak(trial, {2048, 1024, 2, {}}, false), mebibytes(332));  // masks of the frame's size
  EXPECT_EQ(estimate_peak(trial, {640, 480, 4, mebibytes(15)}, true), mebibytes(620));
  EXPECT_FALSE(estimate_peak({}, {640, 480, 1, {}}, false));
}

TEST(VosProtocol, JobComesBack) {
  WorkerJob job;
  job.vos = WorkerVos{
      PromptKind::box, VosProfile::evaluation, VosObjects::alone, PlaneType::fp16, true, 3, "v", "p", "m",
      {"a", "b"}};
  const auto back = message_from_json<WorkerJob>(message_to_json(job));
  ASSERT_TRUE(back && back->vos);
  EXPECT_EQ(message_to_json(*back), message_to_json(job));
  EXPECT_EQ(back->vos->left_out, job.vos->left_out);
  EXPECT_EQ(back->vos->objects, VosObjects::alone);
}

TEST(VosProtocol, FactsOfAModelComeBackToTheBit) {
  const VosModelFacts facts{1024, "a label", {0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}};
  const auto back = message_from_json<VosModelFacts>(message_to_json(facts));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->side, 1024);
  EXPECT_EQ(back->label, "a label");
  VosResult model;
  model.side = back->side;
  model.pixel_mean = back->pixel_mean;
  model.pixel_std = back->pixel_std;
  EXPECT_EQ(planes_format_of(model, PlaneType::fp16), (media::vos::PlanesFormat{1024, PlaneType::fp16}));
  model.pixel_mean[0] = 0;
  EXPECT_NE(planes_format_of(model, PlaneType::fp16), (media::vos::PlanesFormat{1024, PlaneType::fp16}));
  EXPECT_EQ(planes_format_of(model, PlaneType::uint8), (media::vos::PlanesFormat{1024, PlaneType::uint8}));
}

TEST(VosSetup, FingerprintChangesWithAnyFileBelow) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "a/b");
  test::write_text(folder / "a/b/1.jpg", "one");
  const auto before = folder_fingerprint(folder.path());
  ASSERT_TRUE(before);
  EXPECT_EQ(*folder_fingerprint(folder.path()), *before);
  test::write_text(folder / "a/b/1.jpg", "other");
  EXPECT_NE(*folder_fingerprint(folder.path()), *before);
  EXPECT_FALSE(folder_fingerprint(folder / "none"));
}

}  // namespace
}  // namespace headroom::bench
