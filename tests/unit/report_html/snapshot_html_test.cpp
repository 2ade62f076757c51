// Tests the data in the page of a memory snapshot, without a browser (tests/web uses one).
#include "report/snapshot/snapshot_views.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "page_text.h"
#include "samples.h"
#include "support/test_support.h"
#include "unit/snapshot/caching_allocator_model.h"

namespace headroom::report {
namespace {

using test::data_of;
using test::page_of;
using test::sample_snapshot;
using test::SampleSnapshot;
using test::sum_of;

TEST(SnapshotHtml, EscapesNamesAndKeepsThemAsText) {
  const auto page = page_of(sample_snapshot(SampleSnapshot::training));
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(page.find("<!--<script>"), std::string::npos);
  const Json snapshot = data_of(page, "snapshot");
  EXPECT_NE(snapshot["settings"]["text"].get<std::string>().find(test::kHostileName), std::string::npos);
  EXPECT_NE(data_of(page, "calls")["frames"].dump().find("<!--<script>alert(2)"), std::string::npos);
}

TEST(SnapshotHtml, RemovesControlCharactersAndShortensNames) {
  snapshot::Snapshot snapshot = sample_snapshot(SampleSnapshot::training);
  snapshot.frames[0].function = snapshot.strings.intern("\x1b[31mred\x07" + std::string(100'000, 'x'));
  snapshot.settings.text = std::string(100'000, 'y');
  const auto page = page_of(snapshot);
  const std::string names = data_of(page, "calls")["frames"].dump();
  EXPECT_EQ(names.find("u001b"), std::string::npos);
  EXPECT_EQ(names.find("u0007"), std::string::npos);
  EXPECT_EQ(names.find(std::string(300, 'x')), std::string::npos);
  EXPECT_LT(data_of(page, "snapshot")["settings"]["text"].get<std::string>().size(), 3000U);
}

// The data of --json, and the sentences of the terminal.
TEST(SnapshotHtml, ContainsTheFigures) {
  const snapshot::Snapshot snapshot = sample_snapshot(SampleSnapshot::training);
  const auto page = page_of(snapshot);
  Json device = data_of(page, "snapshot")["devices"][0];
  // Only the page has this: the bytes of its largest places at each point.
  EXPECT_EQ(device["timeline"]["places_bytes"].size(), device["timeline"]["time_us"].size());
  for (const Json& of_point : device["timeline"]["places_bytes"])
    EXPECT_EQ(of_point.size(), device["timeline"]["places"].size());
  for (const char* key : {"places", "places_bytes"}) EXPECT_EQ(device["timeline"].erase(key), 1U) << key;
  const auto devices = snapshot::analyze_snapshot(snapshot, {});
  const Json expected = snapshot_to_json({"", snapshot, devices})["devices"][0];
  for (const char* key : {"peak_allocated_bytes", "live_bytes", "timeline", "entries", "oom_count"})
    EXPECT_EQ(device[key], expected[key]) << key;
  EXPECT_EQ(device["stacks"].size(), expected["stacks"].size());
  EXPECT_EQ(device["leaks"]["verdict"], "leak");
  EXPECT_NE(device["leaks"]["words"].get<std::string>().find("Leak: "), std::string::npos);
  EXPECT_EQ(device["leaks"]["common"], "train (train.py:41)");
  ASSERT_GT(device["ooms"].size(), 0U);
  for (const Json& oom : device["ooms"])
    for (const Json& way : oom["room"]) EXPECT_FALSE(way["words"].get<std::string>().empty());
  for (const Json& segment : device["segments_map"])
    EXPECT_EQ(segment["cells"].get<std::string>().size(), 120U);
}

TEST(SnapshotHtml, AddsUpEachMomentByPlace) {
  for (const SampleSnapshot kind : {SampleSnapshot::training, SampleSnapshot::state}) {
    const auto page = page_of(sample_snapshot(kind));
    const Json snapshot = data_of(page, "snapshot");
    const std::size_t nodes = data_of(page, "calls")["stacks"]["parent"].size();
    for (const Json& device : snapshot["devices"]) {
      const Json& moments = device["fragmentation"]["moments"];
      ASSERT_EQ(device["live"].size(), moments.size());
      for (std::size_t i = 0; i < moments.size(); ++i) {
        const Json& live = device["live"][i];
        EXPECT_EQ(live["bytes"], moments[i]["allocated_bytes"]);
        EXPECT_EQ(sum_of(live["stack_bytes"]) + live["other_bytes"].get<std::int64_t>(), live["bytes"]);
        for (const Json& node : live["stack"]) EXPECT_LT(node.get<std::size_t>(), nodes);
      }
      EXPECT_EQ(device["live"][device["fragmentation"]["peak"].get<std::size_t>()]["bytes"],
                device["peak_allocated_bytes"]);
      EXPECT_EQ(device["live"].back()["bytes"], device["live_bytes"]);
    }
  }
}

// More stacks and segments than a page should contain.
TEST(SnapshotHtml, LimitsTheSizeOfThePage) {
  constexpr std::uint32_t kStacks = 5000, kFrames = test::repetitions(500);
  test::CachingAllocatorModel model;
  for (std::uint32_t i = 0; i < kStacks; ++i) (void)model.allocate(11 << 20, i + 1);  // one segment each
  snapshot::Snapshot snapshot = model.take();
  snapshot.frames.clear();
  snapshot.stack_frames.clear();
  snapshot.stack_begin.assign(2, 0);
  const auto file = snapshot.strings.intern(std::string(1000, 'p') + ".py");
  for (std::uint32_t i = 0; i < kStacks; ++i) {
    const auto name = snapshot.strings.intern(std::to_string(i) + std::string(1000, 'f'));
    snapshot.frames.push_back({name, file, 1});
    for (std::uint32_t depth = 0; depth < kFrames; ++depth)
      snapshot.stack_frames.push_back((i + depth * 7919) % (i + 1));
    snapshot.stack_begin.push_back(snapshot.stack_frames.size());
  }
  const auto page = page_of(snapshot);
  EXPECT_LT(page.size(), 30'000'000U);
  const Json device = data_of(page, "snapshot")["devices"][0];
  EXPECT_EQ(device["segments_map"].size(), 2000U);
  EXPECT_LE(device["live"].back()["stack"].size(), 4000U);
  EXPECT_GT(device["live"].back()["other_bytes"], 0);
}

TEST(SnapshotHtml, ShowsTheFirstOfManyDevices) {
  snapshot::Snapshot snapshot = sample_snapshot(SampleSnapshot::state);
  const std::size_t segments = snapshot.segments.size();
  for (std::int64_t device = 2; device < 40; ++device)
    for (std::size_t i = 0; i < segments / 2; ++i) {
      snapshot::Segment segment = snapshot.segments[i];
      segment.device = device;
      snapshot.segments.push_back(segment);
    }
  const auto page = page_of(snapshot);
  EXPECT_EQ(data_of(page, "snapshot")["devices"].size(), 16U);
  EXPECT_EQ(data_of(page, "snapshot")["devices_left_out"], 24);
}

TEST(SnapshotHtml, CreatesAPageForAnEmptySnapshot) {
  const auto page = page_of(sample_snapshot(SampleSnapshot::empty));
  EXPECT_EQ(data_of(page, "snapshot")["devices"].size(), 0U);
}

}  // namespace
}  // namespace headroom::report
