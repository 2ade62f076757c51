// Tests the data in the pages of recordings and runs, without a browser (tests/web uses one).
#include "report/recording/recording_html.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/json.h"
#include "page_text.h"
#include "report/page.h"
#include "report/run/report_json.h"
#include "report/run/run_words.h"
#include "report/run/views.h"
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

std::vector<std::string> one_name(std::uint64_t) { return {"f"}; }

// A recording of these events with its analysis.
struct Analysed {
  recording::Recording recording;
  attribution::RecordingAnalysis analysis;
  PageMoments moments;

  RecordingReport report(FrameNames names = one_name) const {
    return {"a.hrec", recording.info(), recording.stacks(), analysis, std::move(names), {}, false};
  }
};

Analysed analysed(const std::function<void(test::RecordingBuilder&)>& fill,
                  test::RecordingOptions options = {}) {
  const test::TemporaryFolder folder;
  test::RecordingBuilder builder(folder / "a.hrec", options);
  fill(builder);
  auto opened = recording::Recording::open(builder.finish());
  EXPECT_TRUE(opened.has_value());
  auto analysis = attribution::analyze_recording(*opened, {});
  PageMoments moments = take_page_moments(*opened, analysis);
  return {std::move(*opened), std::move(analysis), std::move(moments)};
}

class RecordingHtml : public testing::Test {
 protected:
  test::AnalysedRecording sample(SampleRecording kind = SampleRecording::model) const {
    return sample_recording(kind, folder_.path());
  }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(RecordingHtml, ContainsTheFiguresAndEscapesNames) {
  auto model = sample();
  const auto page = model.page();
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(page.find("<!--<script>"), std::string::npos);
  EXPECT_EQ(data_of(page, "recording"), recording_to_json(model.report()));
  EXPECT_NE(data_of(page, "live").dump().find("alert(1)"), std::string::npos) << "present as text";
  EXPECT_FALSE(data_of(page, "heap").empty());
}

TEST_F(RecordingHtml, AddsUpEachMomentByStackAndByLayer) {
  auto model = sample();
  const PageMoments moments = take_page_moments(model.recording, model.analysis);
  const Json live = live_moments_json(model.report(), moments.live);
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
    has_peak |= moment["bytes"] == model.analysis.peak_bytes.value &&
                moment["time_ns"] == model.analysis.peak_time.count;
  }
  EXPECT_TRUE(has_peak);
  EXPECT_EQ(live["moments"].back()["bytes"], model.analysis.leaked_bytes.value);
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

TEST_F(RecordingHtml, AddsAMomentForAQuietPeriod) {
  for (const bool full : {true, false}) {
    const Analysed idle = analysed(run_five_times, {.full = full});
    const PageMoments& moments = idle.moments;
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
    const Json live = live_moments_json(idle.report(), moments.live);
    EXPECT_EQ(live["moments"].back()["until_ns"], idle.analysis.duration.count);
    EXPECT_EQ(live["moments"].back()["bytes"], 64 << 20);
  }
}

TEST_F(RecordingHtml, LimitsTheNumberOfQuietMoments) {
  const PageMoments moments = analysed([](auto& builder) {
                                for (std::uint64_t step = 1; step <= 100; ++step) {
                                  builder.allocate(0, step * 1'000'000, 0x1000, 100);
                                  builder.release(0, step * 1'000'000 + 10, 0x1000);
                                }
                              }).moments;
  EXPECT_LE(moments.live.size(), 64U + 32U);
  EXPECT_EQ(
      std::ranges::count_if(moments.live, [](const LiveMoment& moment) { return moment.until.has_value(); }),
      33)
      << "and the end";
}

TEST_F(RecordingHtml, SharesOuterFramesAndKeepsInlinedOnes) {
  auto model = sample();
  const PageMoments moments = take_page_moments(model.recording, model.analysis);
  const Json live = live_moments_json(model.report(), moments.live);
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

TEST_F(RecordingHtml, CreatesPagesForSampledAndEmptyRecordings) {
  const auto sampled = sample(SampleRecording::sampled).page();
  EXPECT_TRUE(data_of(sampled, "heap").empty());
  EXPECT_EQ(data_of(sampled, "recording")["complete"], false);
  const auto empty = sample(SampleRecording::empty).page();
  EXPECT_EQ(data_of(empty, "recording")["peak_bytes"], 0);
}

TEST_F(RecordingHtml, LimitsThePageForManyLayersAndLongNames) {
  const Analysed steps = analysed(
      [](auto& builder) {
        for (std::uint64_t step = 1; step <= 5000; ++step) {
          builder.enter_scope(0, step, builder.scope("step " + std::to_string(step)));
          builder.allocate(0, step, 0x10000 * step, 100 + step, {step});
        }
      },
      {.metadata_bytes = 1 << 20});
  const FrameNames long_names = [](std::uint64_t address) {
    return std::vector{std::to_string(address) + std::string(test::repetitions(100'000), 'T')};
  };
  const auto page = recording_to_html(steps.report(long_names), steps.moments);
  EXPECT_LT(page.size(), 25'000'000U);
  const Json recording = data_of(page, "recording");
  EXPECT_EQ(recording["layers"].size() + recording["layers_left_out"].get<std::size_t>(),
            recording_to_json(steps.report())["layers"].size());
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

using test::element_text;

std::size_t occurrences(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size()))
    ++count;
  return count;
}

class HtmlReport : public testing::Test {
 protected:
  std::string page(std::string_view metrics = "") const { return to_html(run_, folder_.path(), metrics); }

  test::TemporaryFolder folder_;
  BenchResult run_ = test::sample_run();
};

TEST_F(HtmlReport, ContainsTheSameJsonAsReportJson) {
  EXPECT_EQ(to_text(data_of(page(), "report")), to_text(to_json(run_)));
}

TEST_F(HtmlReport, ContainsTheVerdictAndTheLimitAsTheOtherReportsDo) {
  const Json embedded = data_of(page(), "verdict");
  const Verdict verdict = verdict_of(run_);
  EXPECT_EQ(embedded["tone"], "bad");
  EXPECT_EQ(embedded["sentence"], verdict.sentence);
  EXPECT_EQ(embedded["details"], Json(verdict.details));
  EXPECT_EQ(embedded["limit"]["meaning"], meaning_of(*run_.limit));
  EXPECT_EQ(embedded["limit"]["notes"], run_.limit->note);
  run_.limit.reset();
  EXPECT_EQ(page().find("\"meaning\""), std::string::npos);
}

TEST_F(HtmlReport, EscapesData) {
  run_.host.hostname = "<img src=x onerror=alert(1)>";
  const std::string html = page("{\"model\":\"</script><b>\"}\n");
  // The page's own tags and the four data elements, and nothing else.
  EXPECT_EQ(occurrences(html, "<script"), occurrences(empty_page(Page::report), "<script") + 4);
  EXPECT_EQ(occurrences(html, "</script"), occurrences(empty_page(Page::report), "</script") + 4);
  EXPECT_EQ(occurrences(html, "<!--"),
            occurrences(empty_page(Page::report), "<!--") - 1);  // the marker was replaced
  EXPECT_EQ(occurrences(html, "<img"), occurrences(empty_page(Page::report), "<img"));
  EXPECT_THAT(element_text(html, "report"),
              testing::HasSubstr(R"(\u003c/script>\u003c!--\u003cscript>alert(1))"));
}

TEST_F(HtmlReport, EmbedsExistingPictures) {
  test::write_sample_images(folder_.path());
  const Json images = data_of(page(), "images");
  EXPECT_EQ(images.size(), 2u);  // the third one is missing; the report is written anyway
  EXPECT_THAT(get_text(images, "samples/yolox_nano_416/000.png"),
              testing::StartsWith("data:image/png;base64,iVBORw0KGgo"));
}

TEST_F(HtmlReport, EmbedsOnlyPicturesOfTheRunFolder) {
  test::write_sample_images(folder_.path());
  const std::filesystem::path folder = folder_ / "run";
  std::filesystem::create_directories(folder);
  test::write_text(folder / "notes.png", "not a picture");
  run_.models[0].annotated_images = {"../samples/yolox_nano_416/000.png",
                                     (folder_ / "samples/yolox_nano_416/000.png").string(),
                                     "x/../../samples/yolox_nano_416/000.png", "notes.png", ""};
  EXPECT_EQ(element_text(to_html(run_, folder, ""), "images"), "{}");
}

TEST_F(HtmlReport, EncodesEveryRemainderOfBase64) {
  const std::string jpeg = "\xff\xd8\xff";
  test::write_text(folder_ / "0", jpeg);
  test::write_text(folder_ / "1", jpeg + "a");
  test::write_text(folder_ / "2", jpeg + "ab");
  run_.models[0].annotated_images = {"0", "1", "2"};
  EXPECT_EQ(data_of(page(), "images"), (Json{{"0", "data:image/jpeg;base64,/9j/"},
                                             {"1", "data:image/jpeg;base64,/9j/YQ=="},
                                             {"2", "data:image/jpeg;base64,/9j/YWI="}}));
}

TEST_F(HtmlReport, KeepsShortSeriesAndThinsLongOnesEvenly) {
  const std::string brief = test::sample_metrics(30);
  const std::string whole = page(brief);
  EXPECT_EQ(element_text(whole, "metrics"), brief);
  EXPECT_THAT(whole, testing::HasSubstr("id=\"metrics\" data-every=\"1\""));

  std::string day;
  for (int i = 0; i < 100'000; ++i) day += fmt::format("{{\"time_ns\":{:0120}}}\n", i);
  ASSERT_GT(day.size(), 12'000'000u);
  const std::string html = page(day);
  const std::string kept = element_text(html, "metrics");
  EXPECT_THAT(html, testing::HasSubstr("id=\"metrics\" data-every=\"4\""));
  EXPECT_LE(kept.size(), 4'000'000u);
  EXPECT_EQ(occurrences(kept, "\n"), 25'001u);  // every fourth line, and the last
  EXPECT_THAT(kept, testing::EndsWith("99999}\n"));
}

TEST(Pages, AreSelfContainedAndSmall) {
  for (const Page page :
       {Page::report, Page::recording, Page::snapshot, Page::plan, Page::live, Page::history, Page::watch}) {
    const std::string_view html = empty_page(page);
    EXPECT_LT(html.size(), 250'000u);
    EXPECT_TRUE(html.ends_with("</html>\n"));
    EXPECT_EQ(occurrences(html, "<!--headroom:data-->"), 1u);
    EXPECT_EQ(occurrences(html, "<script"), 1u);
    EXPECT_EQ(occurrences(html, " src="), 0u);
    EXPECT_EQ(occurrences(html, "@import"), 0u);
    EXPECT_EQ(occurrences(html, "https://"), 0u);
    EXPECT_THAT(std::string(html), testing::HasSubstr("default-src 'none'"));
  }
}

TEST_F(HtmlReport, CreatesAPageForAnEmptyRun) {
  const std::string html = to_html(BenchResult{}, folder_.path(), "");
  EXPECT_TRUE(parse_json(element_text(html, "report")));
  EXPECT_EQ(element_text(html, "metrics"), "");
}

}  // namespace
}  // namespace headroom::report
