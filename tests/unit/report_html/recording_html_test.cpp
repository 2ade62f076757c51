// Tests the data in the page of a recording, without a browser (tests/web uses one).
#include "report/recording/recording_html.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/json.h"
#include "page_text.h"
#include "samples.h"
#include "support/recording_builder.h"
#include "support/test_support.h"

namespace headroom::report {
namespace {

using attribution::LiveBlock;
using attribution::LiveMoment;
using test::sample_recording;
using test::SampleRecording;

using test::data_of;
using test::sum_of;

TEST(RecordingHtml, ContainsTheFiguresAndEscapesNames) {
  const test::TemporaryFolder folder;
  auto sample = sample_recording(SampleRecording::model, folder.path());
  const auto page = sample.page();
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(page.find("<!--<script>"), std::string::npos);
  EXPECT_EQ(data_of(page, "recording"), recording_to_json(sample.report()));
  EXPECT_NE(data_of(page, "live").dump().find("alert(1)"), std::string::npos) << "present as text";
  EXPECT_FALSE(data_of(page, "heap").empty());
}

TEST(RecordingHtml, AddsUpEachMomentByStackAndByLayer) {
  const test::TemporaryFolder folder;
  auto sample = sample_recording(SampleRecording::model, folder.path());
  const PageMoments moments = take_page_moments(sample.recording, sample.analysis);
  const Json live = live_moments_json(sample.report(), moments.live);
  ASSERT_GT(live["moments"].size(), 20U);
  bool has_peak = false;
  for (std::size_t at = 0; at < live["moments"].size(); ++at) {
    const Json& moment = live["moments"][at];
    EXPECT_EQ(sum_of(moment["stack_bytes"]) + moment["other_bytes"].get<std::int64_t>(), moment["bytes"]);
    EXPECT_EQ(sum_of(moment["layer_bytes"]), moment["bytes"]);
    EXPECT_EQ(moment["other_layers_bytes"], 0);
    for (const char* by : {"module", "thread", "size"})
      EXPECT_EQ(
          sum_of(live["shares"][by]["bytes"][at]) + live["shares"][by]["other_bytes"][at].get<std::int64_t>(),
          moment["bytes"])
          << by;
    has_peak |= moment["bytes"] == sample.analysis.peak_bytes.value &&
                moment["time_ns"] == sample.analysis.peak_time.count;
  }
  EXPECT_TRUE(has_peak);
  EXPECT_EQ(live["moments"].back()["bytes"], sample.analysis.leaked_bytes.value);
}

// "Load, run, idle": there is a moment in each run and in each idle period.
void run_five_times(test::RecordingBuilder& builder) {
  builder.allocate(0, 1'000, 0x100000, 64 << 20, {0x400010});
  for (std::uint64_t run = 1; run <= 5; ++run) {
    builder.allocate(0, run * 1'000'000, 0x8000000, 256 << 20, {0x400020});
    builder.release(0, run * 1'000'000 + 500, 0x8000000);
  }
  builder.enter_scope(0, 6'000'000, 0);
}

TEST(RecordingHtml, AddsAMomentForAQuietPeriod) {
  const test::TemporaryFolder folder;
  for (const bool full : {true, false}) {
    test::RecordingOptions options;
    options.full = full;
    test::RecordingBuilder builder(folder / "idle.hrec", options);
    run_five_times(builder);
    auto opened = recording::Recording::open(builder.finish());
    ASSERT_TRUE(opened.has_value());
    const auto analysis = attribution::analyze_recording(*opened, {});
    const PageMoments moments = take_page_moments(*opened, analysis);
    for (const std::int64_t time : {500'000, 1'500'000, 2'500'000, 3'500'000, 4'999'999, 5'999'999}) {
      const auto there = std::ranges::find_if(moments.live, [&](const LiveMoment& moment) {
        return moment.time.count <= time && moment.until && moment.until->count >= time;
      });
      ASSERT_NE(there, moments.live.end()) << time;
      EXPECT_EQ(there->bytes, 64 << 20) << time;
    }
    EXPECT_GE(std::ranges::count_if(moments.live,
                                    [](const LiveMoment& moment) { return moment.bytes == 320 << 20; }),
              5)
        << "each run has a moment; a run at the border of two periods has one in each";
    EXPECT_TRUE(std::is_sorted(moments.live.begin(), moments.live.end(),
                               [](const LiveMoment& a, const LiveMoment& b) { return a.time < b.time; }));
    const Json live = live_moments_json({"idle.hrec",
                                         opened->info(),
                                         opened->stacks(),
                                         analysis,
                                         [](std::uint64_t) { return std::vector<std::string>{"f"}; },
                                         {},
                                         false},
                                        moments.live);
    EXPECT_EQ(live["moments"].back()["until_ns"], analysis.duration.count);
    EXPECT_EQ(live["moments"].back()["bytes"], 64 << 20);
  }
}

TEST(RecordingHtml, LimitsTheNumberOfQuietMoments) {
  const test::TemporaryFolder folder;
  test::RecordingBuilder builder(folder / "busy.hrec");
  for (std::uint64_t step = 1; step <= 100; ++step) {
    builder.allocate(0, step * 1'000'000, 0x1000, 100);
    builder.release(0, step * 1'000'000 + 10, 0x1000);
  }
  auto opened = recording::Recording::open(builder.finish());
  ASSERT_TRUE(opened.has_value());
  const PageMoments moments = take_page_moments(*opened, attribution::analyze_recording(*opened, {}));
  EXPECT_LE(moments.live.size(), 64U + 32U);
  EXPECT_EQ(
      std::ranges::count_if(moments.live, [](const LiveMoment& moment) { return moment.until.has_value(); }),
      33)
      << "and the end";
}

TEST(RecordingHtml, SharesOuterFramesAndKeepsInlinedOnes) {
  const test::TemporaryFolder folder;
  auto sample = sample_recording(SampleRecording::model, folder.path());
  const PageMoments moments = take_page_moments(sample.recording, sample.analysis);
  const Json live = live_moments_json(sample.report(), moments.live);
  const Json& frame = live["stacks"]["frame"];
  const Json& parent = live["stacks"]["parent"];
  std::vector<std::string> paths;
  for (std::size_t node = 0; node < frame.size(); ++node) {
    std::string path;
    for (std::size_t at = node; at != 0; at = parent[at].get<std::size_t>()) {
      EXPECT_LT(parent[at].get<std::size_t>(), at) << "parents come first";
      path = "/" + live["frames"][frame[at].get<std::size_t>()].get<std::string>() + path;
    }
    paths.push_back(path);
  }
  EXPECT_EQ(std::ranges::count(paths, "/main"), 1);
  EXPECT_THAT(paths,
              testing::Contains("/main/detector::Model::load()/detector::read_file(std::filesystem::path "
                                "const&)/operator new(unsigned long)"));
}

TEST(RecordingHtml, CreatesPagesForSampledAndEmptyRecordings) {
  const test::TemporaryFolder folder;
  const auto sampled = sample_recording(SampleRecording::sampled, folder.path()).page();
  EXPECT_TRUE(data_of(sampled, "heap").empty());
  EXPECT_EQ(data_of(sampled, "recording")["complete"], false);
  const auto empty = sample_recording(SampleRecording::empty, folder.path()).page();
  EXPECT_EQ(data_of(empty, "recording")["peak_bytes"], 0);
}

TEST(RecordingHtml, LimitsThePageForManyLayersAndLongNames) {
  const test::TemporaryFolder folder;
  test::RecordingOptions options;
  options.metadata_bytes = 1 << 20;
  test::RecordingBuilder builder(folder / "steps.hrec", options);
  constexpr std::uint64_t kSteps = 5000;
  for (std::uint64_t step = 1; step <= kSteps; ++step) {
    builder.enter_scope(0, step, builder.scope("step " + std::to_string(step)));
    builder.allocate(0, step, 0x10000 * step, 100 + step, {step});
  }
  auto opened = recording::Recording::open(builder.finish());
  ASSERT_TRUE(opened.has_value());
  auto analysis = attribution::analyze_recording(*opened, {});
  const PageMoments moments = take_page_moments(*opened, analysis);
  const FrameNames long_names = [](std::uint64_t address) {
    return std::vector{std::to_string(address) + std::string(test::repetitions(100'000), 'T')};
  };
  const auto page = recording_to_html(
      {"steps.hrec", opened->info(), opened->stacks(), analysis, long_names, {}, false}, moments);
  EXPECT_LT(page.size(), 25'000'000U);
  const Json recording = data_of(page, "recording");
  EXPECT_EQ(recording["layers"].size() + recording["layers_left_out"].get<std::size_t>(),
            recording_to_json({"steps.hrec",
                               opened->info(),
                               opened->stacks(),
                               analysis,
                               [](std::uint64_t) { return std::vector<std::string>{"f"}; },
                               {},
                               false})["layers"]
                .size());
  EXPECT_EQ(recording["layers"].front()["layer_name"], "step 5000") << "the largest layers are kept";
  const Json last = data_of(page, "live")["moments"].back();
  EXPECT_GT(last["other_layers_bytes"], 0);
  EXPECT_EQ(sum_of(last["layer_bytes"]) + last["other_layers_bytes"].get<std::int64_t>(), last["bytes"]);
  EXPECT_EQ(sum_of(last["stack_bytes"]) + last["other_bytes"].get<std::int64_t>(), last["bytes"]);
}

LiveBlock block_at(std::uint64_t address, std::uint64_t size) {
  LiveBlock block;
  block.address = address;
  block.size = size;
  return block;
}

std::uint64_t live_in(const HeapExtent& extent) {
  return std::accumulate(extent.live_bytes.begin(), extent.live_bytes.end(), std::uint64_t{0});
}

TEST(MapOfHeap, ShowsBlocksAndHolesAsCells) {
  // Chunks of 0x1000 at 0, 0x1000 and 0x4000: a hole of 0x2000 between the second and the third.
  const HeapMap map =
      map_of_heap({block_at(0x14008, 0xff8), block_at(0x10008, 0xff8), block_at(0x11008, 0xff8)}, {7});
  ASSERT_EQ(map.extents.size(), 1U);
  const HeapExtent& extent = map.extents.front();
  EXPECT_EQ(extent.address, 0x10000U);
  EXPECT_EQ(extent.bytes, 0x5000U);
  EXPECT_EQ(map.cell_bytes, 64U);
  ASSERT_EQ(extent.live_bytes.size(), 0x5000U / 64);
  EXPECT_EQ(live_in(extent), 0x3000U);
  EXPECT_EQ(extent.live_bytes[0x1fc0 / 64], 64U);
  EXPECT_EQ(extent.live_bytes[0x2000 / 64], 0U);
  EXPECT_EQ(extent.live_bytes[0x4000 / 64], 64U);
  EXPECT_EQ(map.figures.free_bytes, 0x2000);
}

TEST(MapOfHeap, StartsANewExtentAfterALargeGapAndOmitsMappings) {
  const HeapMap map = map_of_heap(
      {block_at(0x10008, 24), block_at(0x10008 + (64 << 20), 24), block_at(0x7f0000000010, 1 << 20)}, {0});
  EXPECT_EQ(map.extents.size(), 2U);
}

TEST(MapOfHeap, CutsOverlappingBlocksAndKeepsManyExtents) {
  const HeapMap overlapping = map_of_heap({block_at(0x10008, 1 << 20), block_at(0x10048, 24)}, {0});
  ASSERT_EQ(overlapping.extents.size(), 1U);
  EXPECT_EQ(live_in(overlapping.extents.front()), overlapping.extents.front().bytes);
  std::vector<LiveBlock> scattered;
  for (std::uint64_t i = 1; i < 1000; ++i) scattered.push_back(block_at(i << 30 | 8, 24));
  const HeapMap many = map_of_heap(scattered, {0});
  EXPECT_LE(many.extents.size(), 64U);
  EXPECT_EQ(many.figures.extents, 999);
  EXPECT_EQ(map_of_heap({}, {0}).extents.size(), 0U);
}

}  // namespace
}  // namespace headroom::report
