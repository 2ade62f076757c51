#include "attribution/recording_analysis.h"
#include "base/json.h"
#include "export_fixture.h"

namespace headroom::exporters {
namespace {

Json timeline_of(ExportFixture& fixture) {
  auto json = parse_json(fixture.write("timeline-json"));
  EXPECT_TRUE(json.has_value()) << json.error().sentence();
  return json.value_or(Json());
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

TEST(TimelineJson, HasTheFieldsOfKnownTimelineFormats) {
  ExportFixture fixture(fill_two_layers);
  const Json file = timeline_of(fixture);
  EXPECT_EQ(keys_of(file), (std::vector<std::string>{"events", "layer_stats", "summary"}));
  for (const Json& event : file["events"])
    EXPECT_EQ(keys_of(event),
              (std::vector<std::string>{"timestamp", "event_type", "size_bytes", "layer_name",
                                        "allocated_bytes", "reserved_bytes", "fragmentation_ratio"}));
  for (const auto& [name, stats] : file["layer_stats"].items()) {
    EXPECT_EQ(keys_of(stats),
              (std::vector<std::string>{"layer_name", "peak_allocated", "peak_reserved", "total_allocations",
                                        "total_deallocations", "avg_fragmentation", "duration_ms"}));
    EXPECT_EQ(stats["layer_name"], name);
  }
}

TEST(TimelineJson, WritesEventsInOrder) {
  ExportFixture fixture(fill_two_layers);
  const Json file = timeline_of(fixture);
  std::vector<std::string> lines;
  for (const Json& event : file["events"])
    lines.push_back(event["event_type"].get<std::string>() + " " + to_line(event["layer_name"]) + " " +
                    to_line(event["size_bytes"]) + " " + to_line(event["allocated_bytes"]));
  EXPECT_EQ(lines,
            (std::vector<std::string>{R"(layer_enter "model" 0 0)", R"(alloc "model" 1000 1000)",
                                      R"(layer_enter "model/conv" 0 1000)", R"(alloc "model/conv" 4000 5000)",
                                      R"(layer_exit "model/conv" 0 5000)", R"(free "model" 0 5000)",
                                      R"(free "model" 4000 1000)", R"(layer_exit "model" 0 1000)",
                                      R"(alloc null 500 1500)", R"(free null 500 1000)"}));
  const Json& alloc = file["events"][3];
  EXPECT_DOUBLE_EQ(alloc["timestamp"].get<double>(), 40e-9);
  EXPECT_EQ(alloc["reserved_bytes"], 1008 + 4016);
  EXPECT_NEAR(alloc["fragmentation_ratio"].get<double>(), 24.0 / 5024, 1e-6);
  EXPECT_EQ(file["layer_stats"]["model"]["peak_allocated"], 5000);
  EXPECT_EQ(file["summary"]["peak_bytes"], 5000);
  EXPECT_EQ(file["summary"]["complete"], false) << "the allocation of a released block is missing";
}

TEST(TimelineJson, AgreesWithTheAnalysisOnAnyRecording) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    ExportFixture fixture([&](auto& builder) { fill_at_random(builder, seed, 2000); });
    const auto analysis = attribution::analyze_recording(fixture.recording(), {});
    const Json file = timeline_of(fixture);
    std::int64_t peak = 0, last = 0, allocations = 0, releases = 0;
    double time = 0;
    std::map<std::string, std::int64_t> entries;
    for (const Json& event : file["events"]) {
      last = event["allocated_bytes"].get<std::int64_t>();
      peak = std::max(peak, last);
      allocations += event["event_type"] == "alloc" ? 1 : 0;
      releases += event["event_type"] == "free" ? 1 : 0;
      if (event["event_type"] == "layer_enter") ++entries[event["layer_name"].get<std::string>()];
      EXPECT_GE(event["timestamp"].get<double>(), time);
      time = event["timestamp"].get<double>();
    }
    EXPECT_EQ(peak, analysis.peak_bytes.value) << seed;
    EXPECT_EQ(last, analysis.leaked_bytes.value) << seed;
    EXPECT_EQ(allocations, analysis.allocations) << seed;
    EXPECT_EQ(releases, analysis.deallocations + analysis.missed_releases) << seed;
    for (const auto& layer : analysis.layers) EXPECT_EQ(entries[layer.path], layer.entries) << layer.path;
  }
}

TEST(TimelineJson, WritesNoEventsForAnEmptyRecording) {
  ExportFixture fixture([](auto&) {});
  const Json file = timeline_of(fixture);
  EXPECT_TRUE(file["events"].is_array());
  EXPECT_TRUE(file["events"].empty());
  EXPECT_EQ(file["summary"]["total_allocations"], 0);
}

TEST(TimelineJson, CountsOfSampledNodesAreNull) {
  test::RecordingOptions options;
  for (const bool full : {false, true}) {
    options.full = full;
    ExportFixture fixture(fill_run_with_node, options);
    const Json stats = timeline_of(fixture)["layer_stats"];
    EXPECT_EQ(stats["run"]["total_allocations"], 11);
    EXPECT_EQ(stats["run/conv"]["total_allocations"], full ? Json(1) : Json());
    EXPECT_EQ(stats["run/conv"]["total_deallocations"], full ? Json(0) : Json());
    EXPECT_EQ(stats["run/conv"]["peak_allocated"], 8000);
  }
}

TEST(TimelineJson, WritesMappedAndGpuMemory) {
  ExportFixture fixture(fill_devices);
  const Json file = timeline_of(fixture);
  std::vector<std::string> lines;
  for (const Json& event : file["events"]) {
    EXPECT_EQ(event["allocated_bytes"], 0) << "none of it is the heap's";
    std::string text = event["event_type"].get<std::string>() + " " + to_line(event["size_bytes"]);
    if (event.contains("mapped_bytes")) text += " mapped " + to_line(event["mapped_bytes"]);
    if (event.contains("device"))
      text += " " + to_line(event["device"]) + " " + event["memory_kind"].get<std::string>() + " " +
              to_line(event["device_bytes"]);
    lines.push_back(text);
  }
  EXPECT_EQ(lines, (std::vector<std::string>{
                       "layer_enter 0", "map 8192 mapped 8192", "device_alloc 4000 0 device 4000",
                       "device_alloc 700 1 device 700", "layer_exit 0", "device_alloc 1000 0 pool 5000",
                       "device_alloc 500 0 pinned_host 5000", "device_free 4000 0 device 1000",
                       "device_refused 9000 0 device 1000", "unmap 4096 mapped 4096"}));
  const Json& summary = file["summary"];
  EXPECT_EQ(summary["mapped_peak_bytes"], 8192);
  EXPECT_EQ(summary["mapped_end_bytes"], 4096);
  ASSERT_EQ(summary["devices"].size(), 2U);
  EXPECT_EQ(summary["devices"][0]["name"], "Some GPU");
  EXPECT_EQ(summary["devices"][0]["peak_bytes"], 5000);
  EXPECT_EQ(summary["devices"][0]["at_end_bytes"], 1000);
  EXPECT_EQ(summary["devices"][0]["limit_bytes"], 10'000);
  EXPECT_EQ(summary["devices"][0]["refused_count"], 1);
  EXPECT_EQ(summary["devices"][0]["refused_bytes"], 9000);
  EXPECT_FALSE(summary["devices"][1].contains("limit_bytes"));
}

}  // namespace
}  // namespace headroom::exporters
