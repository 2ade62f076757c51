#include "snapshot/snapshot_reader.h"

#include "base/json.h"
#include "support/pickle_of.h"
#include "support/test_support.h"

namespace headroom::snapshot {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Result<Snapshot> open(const Json& data) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "snapshot.pickle", test::pickle_of(data));
  return open_snapshot(folder / "snapshot.pickle");
}

std::string why(const Json& data) {
  const auto snapshot = open(data);
  return snapshot ? "no error" : snapshot.error().why;
}

std::vector<std::string> texts(const Snapshot& snapshot, StackIndex stack) {
  std::vector<std::string> lines;
  for (const std::uint32_t i : snapshot.frames_of(stack)) {
    const Frame& frame = snapshot.frames[i];
    lines.push_back(std::string(snapshot.strings[frame.file]) + ":" + std::to_string(frame.line) + ":" +
                    std::string(snapshot.strings[frame.function]));
  }
  return lines;
}

const Json kFrames = Json::parse(R"([{"name": "forward", "filename": "net.py", "line": 7},
                                     {"name": "main", "filename": "run.py", "line": 3}])");

// The format of torch 2.11.
Json torch_2_11_snapshot() {
  Json block =
      Json::parse(R"({"address": 4096, "size": 1024, "requested_size": 900, "state": "active_allocated"})");
  block["frames"] = kFrames;
  Json segment = Json::parse(
      R"({"device": 0, "address": 4096, "total_size": 2097152, "allocated_size": 1024, "active_size": 1536,
          "requested_size": 1400, "stream": 7, "segment_type": "small", "segment_pool_id": {"tuple": [0, 1]},
          "is_expandable": true,
          "blocks": [{"address": 5120, "size": 512, "requested_size": 500, "state": "active_pending_free", "frames": []},
                     {"address": 5632, "size": 2095616, "requested_size": 0, "state": "inactive", "frames": []}]})");
  segment["frames"] = kFrames;
  segment["blocks"].insert(segment["blocks"].begin(), block);
  Json data = Json::parse(
      R"({"segments": [],
          "device_traces": [[], [
            {"action": "segment_map", "addr": 4096, "size": 2097152, "stream": 7, "time_us": 100},
            {"action": "alloc", "addr": 4096, "size": 900, "stream": 7, "time_us": 101},
            {"action": "oom", "device_free": 77, "size": 1024, "stream": 0, "time_us": 102},
            {"action": "new_thing", "addr": 1, "size": 2, "stream": 0, "time_us": 103}]],
          "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64", "max_split_size": 67108864,
            "garbage_collection_threshold": 0.5, "expandable_segments": true, "roundup_power2_divisions": {"1": 0, "16": 4, "2": 2}}})");
  data["device_traces"][1][1]["frames"] = kFrames;
  data["segments"].push_back(segment);
  return data;
}

TEST(SnapshotReader, ReadsTheFormatOfTorch2_11) {
  const auto snapshot = open(torch_2_11_snapshot());
  ASSERT_TRUE(snapshot.has_value()) << snapshot.error().sentence();
  ASSERT_EQ(snapshot->segments.size(), 1U);
  const Segment& segment = snapshot->segments[0];
  EXPECT_EQ(segment.address, 4096U);
  EXPECT_EQ(segment.size, 2097152);
  EXPECT_EQ(segment.stream, 7);
  EXPECT_FALSE(segment.is_large);
  EXPECT_TRUE(segment.is_expandable);
  EXPECT_TRUE(segment.in_private_pool);
  EXPECT_THAT(texts(*snapshot, segment.stack), ElementsAre("net.py:7:forward", "run.py:3:main"));
  const auto blocks = snapshot->blocks_of(segment);
  ASSERT_EQ(blocks.size(), 3U);
  EXPECT_EQ(blocks[0].state, BlockState::active_allocated);
  EXPECT_EQ(blocks[0].requested, 900);
  EXPECT_THAT(texts(*snapshot, blocks[0].stack), ElementsAre("net.py:7:forward", "run.py:3:main"));
  EXPECT_EQ(blocks[1].state, BlockState::pending_free);
  EXPECT_EQ(blocks[1].address, 5120U);
  EXPECT_EQ(blocks[2].state, BlockState::inactive);
  EXPECT_EQ(blocks[2].requested, 0);

  EXPECT_THAT(snapshot->devices(), ElementsAre(0, 1));
  EXPECT_EQ(snapshot->trace_of(0), nullptr);
  ASSERT_EQ(snapshot->trace_of(1)->entry_count, 4U);
  std::vector<TraceEntry> entries;
  for (std::size_t i = 0; i < 4; ++i) entries.push_back(snapshot->entry(*snapshot->trace_of(1), i));
  EXPECT_EQ(entries[0].action, Action::segment_map);
  EXPECT_EQ(snapshot->streams[entries[0].stream], 7);
  EXPECT_EQ(entries[1].time_us, 101);
  EXPECT_EQ(entries[1].stack, blocks[0].stack) << "the same frames are the same stack";
  EXPECT_EQ(entries[2].action, Action::oom);
  EXPECT_EQ(entries[2].address, 77U);
  EXPECT_EQ(entries[3].action, Action::other);
  EXPECT_THAT(
      snapshot->problems,
      ElementsAre("1 entries of the trace have an action that this version of Headroom does not know"));

  EXPECT_EQ(snapshot->settings.text, "max_split_size_mb:64");
  EXPECT_EQ(snapshot->settings.max_split_bytes, 67108864);
  EXPECT_EQ(snapshot->settings.expandable_segments, true);
  EXPECT_THAT(snapshot->settings.roundup_power2_divisions,
              ElementsAre(testing::Pair(2, 2), testing::Pair(16, 4)));
}

// In torch 1.13, memory_snapshot() is the list of segments. Blocks have a history, last owner first.
TEST(SnapshotReader, ReadsTheListOfTorch1_13) {
  Json data = Json::parse(
      R"([{"device": 1, "address": 8192, "total_size": 2097152, "allocated_size": 512, "active_size": 512, "stream": 0,
           "segment_type": "large",
           "blocks": [{"size": 512, "state": "active_allocated",
                       "history": [{"addr": 8192, "real_size": 100, "frames": []}, {"addr": 8192, "real_size": 300, "frames": []}]},
                      {"size": 1024, "state": "active_allocated"},
                      {"size": 2095616, "state": "inactive", "history": [{"addr": 8704, "real_size": 300, "frames": []}]}]}])");
  data[0]["blocks"][0]["history"][0]["frames"] = kFrames;
  const auto snapshot = open(data);
  ASSERT_TRUE(snapshot.has_value()) << snapshot.error().sentence();
  const auto blocks = snapshot->blocks_of(snapshot->segments[0]);
  EXPECT_EQ(blocks[0].requested, 100);
  EXPECT_THAT(texts(*snapshot, blocks[0].stack), ElementsAre("net.py:7:forward", "run.py:3:main"));
  EXPECT_EQ(blocks[1].requested, 1024) << "nothing is known of it but its size";
  EXPECT_EQ(blocks[1].address, 8704U);
  EXPECT_EQ(blocks[2].requested, 0) << "the block is free now";
  EXPECT_THAT(snapshot->traces, IsEmpty());
  EXPECT_THAT(snapshot->devices(), ElementsAre(1));
}

// 2.0 has no times. Streams and addresses may have their highest bit set (Intel GPUs).
TEST(SnapshotReader, ReadsTracesWithoutTimes) {
  const auto snapshot = open(Json::parse(
      R"({"segments": [], "device_traces": [[{"action": "alloc", "addr": 18374686479671623680, "size": 512, "stream": -1}]]})"));
  ASSERT_TRUE(snapshot.has_value());
  const TraceEntry& entry = snapshot->entry(snapshot->traces[0], 0);
  EXPECT_EQ(entry.address, 0xff00000000000000U);
  EXPECT_EQ(entry.time_us, 0);
  EXPECT_EQ(snapshot->streams[entry.stream], -1);
  EXPECT_EQ(snapshot->settings.expandable_segments, std::nullopt);
}

TEST(SnapshotReader, RejectsOtherPickles) {
  EXPECT_THAT(why(Json::parse(R"({"model": [1, 2]})")), HasSubstr("not a memory snapshot of PyTorch"));
  EXPECT_THAT(why(Json(7)), HasSubstr("not a memory snapshot of PyTorch"));
  EXPECT_EQ(why(Json::array()), "no error") << "nothing was allocated";
}

TEST(SnapshotReader, ReportsDamagedSegmentsAndBlocks) {
  const auto changed = [](const std::function<void(Json&)>& change) {
    Json data = torch_2_11_snapshot();
    change(data);
    return why(data);
  };
  const auto segment = [](Json& data) -> Json& { return data["segments"][0]; };
  EXPECT_EQ(changed([&](Json& data) { data["segments"] = Json::array({1}); }), "a segment is damaged");
  EXPECT_EQ(changed([&](Json& data) { segment(data).erase("total_size"); }),
            "a segment has no address, no size or no device");
  EXPECT_EQ(changed([&](Json& data) { segment(data)["device"] = -1; }),
            "a segment has no address, no size or no device");
  EXPECT_EQ(changed([&](Json& data) { segment(data)["total_size"] = 1; }),
            "the blocks of the segment at 0x1000 do not fill it");
  EXPECT_EQ(changed([&](Json& data) { segment(data)["blocks"][1]["size"] = -5; }),
            "the block at 0x1400 is damaged");
  EXPECT_EQ(changed([&](Json& data) { segment(data)["blocks"][1]["address"] = 5121; }),
            "the block at 0x1400 is damaged");
  EXPECT_EQ(changed([&](Json& data) { segment(data)["blocks"][1]["size"] = std::int64_t{1} << 60; }),
            "the block at 0x1400 is damaged");
  EXPECT_EQ(changed([&](Json& data) {
              data["segments"].push_back(segment(data));
              data["segments"][1]["address"] = 8192;
              for (Json& block : data["segments"][1]["blocks"]) block.erase("address");
            }),
            "two segments overlap at 0x2000");
}

// Each reference to one list costs two bytes, but would count as a segment of a million blocks.
TEST(SnapshotReader, CountsAnObjectOnce) {
  const test::TemporaryFolder folder;
  const std::string segment = test::pickle_of(torch_2_11_snapshot()["segments"][0]);
  std::string pickle = "}X";
  pickle += std::string("\x08\0\0\0", 4) + "segments](" + segment.substr(2, segment.size() - 3) + "q" + '\0';
  test::write_text(folder / "a.pickle", pickle + "h" + '\0' + "es.");
  const auto snapshot = open_snapshot(folder / "a.pickle");
  ASSERT_FALSE(snapshot.has_value());
  EXPECT_EQ(snapshot.error().why, "a segment is damaged");
}

TEST(SnapshotReader, SkipsUnreadableEntries) {
  const auto snapshot = open(Json::parse(
      R"({"segments": [], "device_traces": [[{"action": "alloc", "addr": 512, "size": 512, "stream": 0},
          {"action": "alloc", "size": 512}, {"addr": 1, "size": 512}, 7, {"action": "free_requested", "addr": 1, "size": -1}]]})"));
  ASSERT_TRUE(snapshot.has_value());
  EXPECT_EQ(snapshot->traces[0].entry_count, 1U);
  EXPECT_THAT(snapshot->problems, ElementsAre("4 entries of the trace could not be read and are left out"));
}

TEST(SnapshotReader, RecognizesSnapshotFiles) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "a", test::pickle_of(torch_2_11_snapshot()));
  test::write_text(folder / "b", "{\"schema_version\": 1}");
  test::write_text(folder / "c.PKL.GZ", "");
  EXPECT_TRUE(is_snapshot_file(folder / "a"));
  EXPECT_FALSE(is_snapshot_file(folder / "b"));
  EXPECT_TRUE(is_snapshot_file(folder / "c.PKL.GZ"));
  EXPECT_TRUE(is_snapshot_file(folder / "absent.pickle"));
  EXPECT_FALSE(is_snapshot_file(folder / "absent"));
  EXPECT_FALSE(is_snapshot_file(folder.path()));
}

}  // namespace
}  // namespace headroom::snapshot
