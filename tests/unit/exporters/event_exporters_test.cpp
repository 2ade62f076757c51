#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cstdlib>

#include "attribution/recording_analysis.h"
#include "base/json.h"
#include "base/text.h"
#include "export_fixture.h"
#include "exporters/output_sink.h"
#include "support/test_support.h"

namespace headroom::exporters {

namespace {

bool heaptrack_is_installed() { return std::system("command -v heaptrack_print >/dev/null 2>&1") == 0; }

// heaptrack's own analysis of the export.
class Heaptrack {
 public:
  explicit Heaptrack(ExportFixture& fixture) : fixture_(fixture) {
    test::write_text(fixture_.path("heaptrack.txt"), fixture_.write("heaptrack"));
    printed_ = run("-a 0 -p 0 -T 0");
    problems_ = test::read_text(fixture_.path("err"));
  }

  // The exact sum in bytes over all stacks of its flame graph.
  std::int64_t sum(const std::string& cost) {
    run(fmt::format("-a 0 -p 0 -T 0 --flamegraph-cost-type {} -F {}", cost,
                    fixture_.path("flames").string()));
    const std::string flames = test::read_text(fixture_.path("flames"));
    std::int64_t total = 0;
    for (const std::string_view line : split(flames, '\n'))
      if (!line.empty()) total += std::stoll(std::string(line.substr(line.rfind(' ') + 1)));
    return total;
  }
  const std::string& printed() const { return printed_; }
  const std::string& problems() const { return problems_; }

 private:
  std::string run(const std::string& flags) {
    const std::string command =
        fmt::format("heaptrack_print {} {} >{} 2>{}", flags, fixture_.path("heaptrack.txt").string(),
                    fixture_.path("printed").string(), fixture_.path("err").string());
    EXPECT_EQ(std::system(command.c_str()), 0) << test::read_text(fixture_.path("err"));
    return test::read_text(fixture_.path("printed"));
  }
  ExportFixture& fixture_;
  std::string printed_, problems_;
};

TEST(HeaptrackExport, DefinesEverythingBeforeItsUse) {
  ExportFixture fixture([](test::RecordingBuilder& builder) {
    builder.allocate(0, 20, 0x1000, 1000, {2, 10});
    builder.allocate(0, 3'000'000, 0x2000, 1000, {2, 10});
    builder.release(0, 4'000'000, 0x1000);
    builder.allocate(0, 5'000'000, 0x3000, 16, {3, 10});
  });
  EXPECT_EQ(fixture.write("heaptrack"),
            "v 10400 3\n"
            "X /usr/bin/program --flag\n"
            "a 0 0\n"
            "s 3 0x9\ni a 0 1 0 0\nt 1 0\ns 3 0x1\ni 2 0 2 0 0\nt 2 1\n"
            "a 3e8 2\n+ 1\n"
            "c 3\n+ 1\nc 4\n- 1\nc 5\n"
            "s 3 0x2\ni 3 0 3 0 0\nt 3 1\na 10 3\n+ 2\n");
}

TEST(HeaptrackExport, HeaptrackReportsTheSameFigures) {
  if (!heaptrack_is_installed()) GTEST_SKIP() << test::absent_message("heaptrack_print");
  for (unsigned seed = 0; seed < 5; ++seed) {
    ExportFixture fixture([&](auto& builder) { fill_at_random(builder, seed, 5000); });
    const auto analysis = attribution::analyze_recording(fixture.recording(), {});
    Heaptrack heaptrack(fixture);
    EXPECT_EQ(heaptrack.problems().find("failed"), std::string::npos) << heaptrack.problems();
    EXPECT_THAT(heaptrack.printed(),
                testing::HasSubstr(fmt::format("calls to allocation functions: {} ", analysis.allocations)));
    EXPECT_EQ(heaptrack.sum("peak"), analysis.peak_bytes.value) << seed;
    EXPECT_EQ(heaptrack.sum("leaked"), analysis.leaked_bytes.value) << seed;
    EXPECT_EQ(heaptrack.sum("allocations"), analysis.allocations) << seed;
  }
}

// heaptrack compares a released block with the last allocation by size and stack, and after a release with
// info 0. Blocks with the first size and stack that are released later must not count as temporary.
TEST(HeaptrackExport, LaterReleasesAreNotTemporary) {
  if (!heaptrack_is_installed()) GTEST_SKIP() << test::absent_message("heaptrack_print");
  ExportFixture fixture([](test::RecordingBuilder& builder) {
    for (std::uint64_t i = 1; i <= 500; ++i) builder.allocate(0, i, 0x1000 * i, 1000, {2, 10});
    builder.allocate(0, 600, 0x900000, 8, {4, 10});
    for (std::uint64_t i = 1; i <= 500; ++i) builder.release(0, 1000 + i, 0x1000 * i);
    for (std::uint64_t i = 1; i <= 7; ++i) {
      builder.allocate(0, 2000 + 10 * i, 0xa00000, 64, {3, 10});
      builder.release(0, 2005 + 10 * i, 0xa00000);
    }
  });
  const auto analysis = attribution::analyze_recording(fixture.recording(), {});
  EXPECT_EQ(analysis.temporary, 7);
  Heaptrack heaptrack(fixture);
  EXPECT_EQ(heaptrack.sum("temporary"), 7);
  EXPECT_EQ(heaptrack.sum("allocations"), 508);
}

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
  for (const bool full : {false, true}) {
    ExportFixture fixture(fill_run_with_node, {.full = full});
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

namespace fs = std::filesystem;

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(OutputSink, AppearsWhenComplete) {
  test::TemporaryFolder folder;
  test::write_text(folder / "a", "old");
  auto sink = OutputSink::open(folder / "a");
  ASSERT_TRUE(sink.has_value());
  const std::string much(1 << 20, 'x');
  sink->write(much);
  sink->print("{}\n", 7);
  EXPECT_EQ(test::read_text(folder / "a"), "old");
  ASSERT_TRUE(sink->finish().has_value());
  EXPECT_EQ(test::read_text(folder / "a"), much + "7\n");
  EXPECT_EQ(sink->bytes(), much.size() + 2);
  OutputSink::open(folder / "b")->write("half");  // and never finishes
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(OutputSink, ReportsWriteErrors) {
  test::TemporaryFolder folder;
  const auto missing = OutputSink::open(folder / "no" / "a");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().kind, ErrorKind::failed);
  EXPECT_FALSE(OutputSink::open(folder.path()).has_value()) << "a folder";

  auto full = OutputSink::open("/dev/full");
  ASSERT_TRUE(full.has_value());
  full->write("x");
  EXPECT_FALSE(full->finish().has_value());
}

TEST(OutputSink, KeepsDevicesAndLinks) {
  test::TemporaryFolder folder;
  test::write_text(folder / "target", "old");
  fs::create_symlink("target", folder / "link");
  auto sink = OutputSink::open(folder / "link");
  ASSERT_TRUE(sink.has_value());
  sink->write("new");
  ASSERT_TRUE(sink->finish().has_value());
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(test::read_text(folder / "target"), "new");

  auto null = OutputSink::open("/dev/null");
  ASSERT_TRUE(null.has_value());
  null->write("x");
  EXPECT_TRUE(null->finish().has_value());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

}  // namespace

}  // namespace headroom::exporters
