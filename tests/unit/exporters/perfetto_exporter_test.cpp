#include <map>

#include "attribution/recording_analysis.h"
#include "export_fixture.h"
#include "protobuf_reader.h"

namespace headroom::exporters {
namespace {

struct Trace {
  std::map<std::uint64_t, std::string> tracks;  // by uuid: "process 4242", "thread 77 main", "heap"
  std::vector<std::string> slices;              // "10 begin model"
  std::map<std::string, std::vector<std::pair<std::int64_t, std::int64_t>>> counters;  // time and value

  explicit Trace(const std::string& bytes) {
    bool is_first = true;
    for (const auto& field : read_protobuf(bytes)) {
      EXPECT_EQ(field.number, 1U);
      const auto packet = read_protobuf(field.bytes);
      EXPECT_EQ(one_of(packet, 10).integer, 1U);
      EXPECT_EQ(one_of(packet, 13).integer, is_first ? 1U : 0U);
      is_first = false;
      if (!all_of(packet, 60).empty()) add_track(read_protobuf(one_of(packet, 60).bytes));
      if (!all_of(packet, 11).empty())
        add_event(static_cast<std::int64_t>(one_of(packet, 8).integer),
                  read_protobuf(one_of(packet, 11).bytes));
    }
  }

  void add_track(const std::vector<ProtobufField>& track) {
    std::string name = one_of(track, 2).bytes;
    if (!all_of(track, 3).empty())
      name = "process " + std::to_string(one_of(read_protobuf(one_of(track, 3).bytes), 1).integer);
    if (!all_of(track, 4).empty()) {
      const auto thread = read_protobuf(one_of(track, 4).bytes);
      name = "thread " + std::to_string(one_of(thread, 2).integer) + " " + one_of(thread, 5).bytes;
    }
    EXPECT_TRUE(tracks.emplace(one_of(track, 1).integer, name).second);
  }

  void add_event(std::int64_t time, const std::vector<ProtobufField>& event) {
    const std::string track = tracks.at(one_of(event, 11).integer);
    const auto type = one_of(event, 9).integer;
    if (type == 4)
      counters[track].emplace_back(time, static_cast<std::int64_t>(one_of(event, 30).integer));
    else
      slices.push_back(std::to_string(time) + (type == 1 ? " begin " + one_of(event, 23).bytes : " end"));
  }
};

TEST(Perfetto, WritesLayersAsSlicesAndMemoryAsCounters) {
  ExportFixture fixture([](test::RecordingBuilder& builder) {
    builder.thread(0, 77, "main");
    fill_two_layers(builder);
    builder.map(0, 90, 0x10000, 8192);
    builder.unmap(0, 95, 0x10000, 8192);
  });
  const Trace trace(fixture.write("perfetto"));
  std::vector<std::string> tracks;
  for (const auto& [uuid, name] : trace.tracks) tracks.push_back(name);
  EXPECT_EQ(tracks,
            (std::vector<std::string>{"process 4242", "heap", "mapped by the program", "thread 77 main"}));
  EXPECT_EQ(trace.slices, (std::vector<std::string>{"10 begin model", "30 begin conv", "50 end", "65 end"}));
  using Points = std::vector<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(trace.counters.at("heap"), (Points{{20, 1000}, {40, 5000}, {60, 1000}, {70, 1500}, {80, 1000}}));
  EXPECT_EQ(trace.counters.at("mapped by the program"), (Points{{90, 8192}, {95, 0}}));
}

TEST(Perfetto, ReducesManyEventsToFewPointsWithThePeak) {
  ExportFixture fixture([](auto& builder) { fill_at_random(builder, 5, 300'000); }, {.segments_limit = 4096});
  const auto analysis = attribution::analyze_recording(fixture.recording(), {});
  const auto heap = Trace(fixture.write("perfetto")).counters.at("heap");
  EXPECT_LT(heap.size(), 100'001U);
  std::int64_t peak = 0, before = 0;
  for (const auto& [time, value] : heap) {
    EXPECT_GE(time, before);
    before = time;
    peak = std::max(peak, value);
  }
  EXPECT_EQ(peak, analysis.peak_bytes.value);
  EXPECT_EQ(heap.back().second, analysis.leaked_bytes.value);
}

// One sample of 100 bytes represents a whole period, but live bytes cannot exceed the allocated bytes.
TEST(Perfetto, LimitsSampledHeapToAllocatedBytes) {
  ExportFixture fixture(
      [](test::RecordingBuilder& builder) {
        builder.allocate(0, 10, 0x10000, 8000);
        builder.sample(0, 20, 0x20000, 100);
        builder.counters(0, 30, 0, 9, 900, 0);
        builder.release(0, 40, 0x20000);
      },
      {.full = false});
  using Points = std::vector<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(Trace(fixture.write("perfetto")).counters.at("heap"),
            (Points{{10, 8000}, {20, 9000}, {40, 8000}}));
}

TEST(Perfetto, DoesNotCountReservedAddressesAsMapped) {
  ExportFixture fixture([](test::RecordingBuilder& builder) {
    builder.reserve(0, 10, 0x100000, 1 << 20);
    builder.make_accessible(0, 20, 0x100000, 8192);
  });
  using Points = std::vector<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(Trace(fixture.write("perfetto")).counters.at("mapped by the program"),
            (Points{{10, 0}, {20, 8192}}));
}

TEST(Perfetto, WritesACounterForEachGpu) {
  ExportFixture fixture(fill_devices);
  const Trace trace(fixture.write("perfetto"));
  using Points = std::vector<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(trace.counters.at("GPU 0, Some GPU"), (Points{{30, 4000}, {40, 5000}, {41, 5000}, {50, 1000}}));
  EXPECT_EQ(trace.counters.at("GPU 1"), (Points{{31, 700}}));
  EXPECT_EQ(trace.counters.at("mapped by the program"), (Points{{20, 8192}, {60, 4096}}));
}

}  // namespace
}  // namespace headroom::exporters
