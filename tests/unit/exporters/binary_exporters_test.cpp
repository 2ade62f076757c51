#include <fmt/format.h>
#include <zlib.h>
#include <array>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "attribution/recording_analysis.h"
#include "export_fixture.h"
#include "snapshot/snapshot_analysis.h"
#include "snapshot/snapshot_reader.h"

namespace headroom::exporters {

namespace {

// Reads protobuf without a schema. Throws on invalid bytes.
struct ProtobufField {
  std::uint32_t number = 0;
  std::uint64_t integer = 0;
  std::string bytes;
};

std::uint64_t read_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<std::uint8_t>(bytes.at(0));
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return value;
  }
  throw std::runtime_error("a varint is too long");
}

std::vector<ProtobufField> read_protobuf(std::string_view bytes) {
  std::vector<ProtobufField> fields;
  while (!bytes.empty()) {
    const std::uint64_t key = read_varint(bytes);
    ProtobufField& field = fields.emplace_back();
    field.number = static_cast<std::uint32_t>(key >> 3);
    if ((key & 7) == 0) {
      field.integer = read_varint(bytes);
    } else if ((key & 7) == 2) {
      const std::uint64_t size = read_varint(bytes);
      if (size > bytes.size()) throw std::runtime_error("a field is cut off");
      field.bytes = bytes.substr(0, size);
      bytes.remove_prefix(size);
    } else {
      throw std::runtime_error("an unexpected wire type");
    }
  }
  return fields;
}

std::vector<std::uint64_t> read_packed(std::string_view bytes) {
  std::vector<std::uint64_t> values;
  while (!bytes.empty()) values.push_back(read_varint(bytes));
  return values;
}

// All fields with this number.
std::vector<ProtobufField> all_of(const std::vector<ProtobufField>& fields, std::uint32_t number) {
  std::vector<ProtobufField> found;
  for (const ProtobufField& field : fields)
    if (field.number == number) found.push_back(field);
  return found;
}
// The field with this number, or an empty one.
ProtobufField one_of(const std::vector<ProtobufField>& fields, std::uint32_t number) {
  for (const ProtobufField& field : fields)
    if (field.number == number) return field;
  return {};
}

using Points = std::vector<std::pair<std::int64_t, std::int64_t>>;

struct Trace {
  std::map<std::uint64_t, std::string> tracks;  // by uuid: "process 4242", "thread 77 main", "heap"
  std::vector<std::string> slices;              // "10 begin model"
  std::map<std::string, Points> counters;       // time and value

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
  EXPECT_EQ(Trace(fixture.write("perfetto")).counters.at("heap"),
            (Points{{10, 8000}, {20, 9000}, {40, 8000}}));
}

TEST(Perfetto, DoesNotCountReservedAddressesAsMapped) {
  ExportFixture fixture([](test::RecordingBuilder& builder) {
    builder.reserve(0, 10, 0x100000, 1 << 20);
    builder.make_accessible(0, 20, 0x100000, 8192);
  });
  EXPECT_EQ(Trace(fixture.write("perfetto")).counters.at("mapped by the program"),
            (Points{{10, 0}, {20, 8192}}));
}

TEST(Perfetto, WritesACounterForEachGpu) {
  ExportFixture fixture(fill_devices);
  const Trace trace(fixture.write("perfetto"));
  EXPECT_EQ(trace.counters.at("GPU 0, Some GPU"), (Points{{30, 4000}, {40, 5000}, {41, 5000}, {50, 1000}}));
  EXPECT_EQ(trace.counters.at("GPU 1"), (Points{{31, 700}}));
  EXPECT_EQ(trace.counters.at("mapped by the program"), (Points{{20, 8192}, {60, 4096}}));
}

std::string gunzip(const std::filesystem::path& path) {
  const gzFile file = gzopen(path.c_str(), "rb");
  EXPECT_NE(file, nullptr);
  EXPECT_EQ(gzdirect(file), 0) << "it is not gzip";
  std::string content;
  std::array<char, 4096> buffer;
  for (int got = 0; (got = gzread(file, buffer.data(), buffer.size())) > 0;)
    content.append(buffer.data(), static_cast<std::size_t>(got));
  EXPECT_EQ(gzclose(file), Z_OK) << "its checksum is wrong";
  return content;
}

// A profile with names instead of ids.
struct Profile {
  std::vector<std::string> strings, sample_types;
  struct Sample {
    std::vector<std::string> functions;  // innermost first
    std::vector<std::int64_t> values;
    std::string layer;
  };
  std::vector<Sample> samples;
  std::string default_type;
  std::int64_t period = 0;

  explicit Profile(const std::string& bytes) {
    const auto fields = read_protobuf(bytes);
    for (const auto& field : all_of(fields, 6)) strings.push_back(field.bytes);
    for (const auto& field : all_of(fields, 1))
      sample_types.push_back(text(read_protobuf(field.bytes), 1) + "/" + text(read_protobuf(field.bytes), 2));
    std::map<std::uint64_t, std::string> functions;
    for (const auto& field : all_of(fields, 5)) {
      const auto function = read_protobuf(field.bytes);
      functions[one_of(function, 1).integer] = text(function, 2);
    }
    std::map<std::uint64_t, std::vector<std::string>> locations;
    for (const auto& field : all_of(fields, 4)) {
      const auto location = read_protobuf(field.bytes);
      for (const auto& line : all_of(location, 4))
        locations[one_of(location, 1).integer].push_back(
            functions.at(one_of(read_protobuf(line.bytes), 1).integer));
    }
    for (const auto& field : all_of(fields, 2)) {
      const auto message = read_protobuf(field.bytes);
      Sample& sample = samples.emplace_back();
      for (const std::uint64_t id : read_packed(one_of(message, 1).bytes))
        for (const std::string& function : locations.at(id)) sample.functions.push_back(function);
      for (const std::uint64_t value : read_packed(one_of(message, 2).bytes))
        sample.values.push_back(static_cast<std::int64_t>(value));
      for (const auto& label : all_of(message, 3)) {
        EXPECT_EQ(text(read_protobuf(label.bytes), 1), "layer");
        sample.layer = text(read_protobuf(label.bytes), 2);
      }
    }
    default_type = text(fields, 14);
    period = static_cast<std::int64_t>(one_of(fields, 12).integer);
  }

  std::string text(const std::vector<ProtobufField>& message, std::uint32_t field) const {
    return strings.at(one_of(message, field).integer);
  }
};

Profile profile_of(ExportFixture& fixture, std::optional<Metric> metric = {}) {
  fixture.write("pprof", metric);
  return Profile(gunzip(fixture.path("out")));
}

TEST(Pprof, WritesASampleForEachStackInEachLayer) {
  ExportFixture fixture(fill_two_layers);
  const Profile profile = profile_of(fixture);
  EXPECT_EQ(profile.strings.at(0), "");
  EXPECT_EQ(profile.sample_types,
            (std::vector<std::string>{"alloc_objects/count", "alloc_space/bytes", "inuse_objects/count",
                                      "inuse_space/bytes", "peak_objects/count", "peak_space/bytes",
                                      "temporary_objects/count", "temporary_space/bytes"}));
  EXPECT_EQ(profile.default_type, "peak_space");
  EXPECT_EQ(profile.period, 1);
  ASSERT_EQ(profile.samples.size(), 3U);
  EXPECT_EQ(profile.samples[1].functions, (std::vector<std::string>{"0x2", "0x9"}));
  EXPECT_EQ(profile.samples[1].layer, "model/conv");
  EXPECT_EQ(profile.samples[1].values, (std::vector<std::int64_t>{1, 4000, 0, 0, 1, 4000, 0, 0}));
  EXPECT_EQ(profile.samples[2].functions, std::vector<std::string>{});
  EXPECT_EQ(profile.samples[2].layer, "");
  EXPECT_EQ(profile.samples[2].values, (std::vector<std::int64_t>{1, 500, 0, 0, 0, 0, 1, 500}));
  EXPECT_EQ(profile_of(fixture, Metric::leaked).default_type, "inuse_space");
}

TEST(Pprof, WritesThePeriodOfSamplesAndNoTemporaryAllocations) {
  ExportFixture fixture([](auto& builder) { builder.sample(0, 10, 0x1000, 100, {2}); }, {.full = false});
  const Profile profile = profile_of(fixture);
  EXPECT_EQ(profile.sample_types.size(), 6U);
  EXPECT_EQ(profile.period, 512 << 10);
  EXPECT_FALSE(fixture.try_write("pprof", Metric::temporary, fixture.path("refused")).has_value());
}

TEST(Pprof, WritesUtf8Texts) {
  ExportFixture fixture([](test::RecordingBuilder& builder) {
    builder.enter_scope(0, 1, builder.scope("a\xff"));
    builder.allocate(0, 10, 0x1000, 100, {2});
  });
  EXPECT_EQ(profile_of(fixture).samples.at(0).layer, "a\xef\xbf\xbd");
}

using snapshot::Action;
using snapshot::Snapshot;

// Reads the export with the reader for PyTorch's snapshots, which checks that blocks fill their segments.
Snapshot snapshot_of(ExportFixture& fixture) {
  const std::string pickle = fixture.write("pytorch-snapshot");
  auto input = snapshot::PickleInput::of(pickle);
  auto read = snapshot::read_snapshot(input);
  EXPECT_TRUE(read.has_value()) << read.error().sentence();
  if (!read) return {};
  EXPECT_THAT(read->problems, testing::IsEmpty());
  return std::move(*read);
}

std::vector<std::string> entries_of(const Snapshot& snapshot, std::int64_t device) {
  std::vector<std::string> entries;
  const auto* trace = snapshot.trace_of(device);
  for (std::size_t i = 0; trace != nullptr && i < trace->entry_count; ++i) {
    const snapshot::TraceEntry& entry = snapshot.entry(*trace, i);
    entries.push_back(fmt::format("{} {:x} {}", name_of(entry.action), entry.address, entry.size));
  }
  return entries;
}

std::vector<std::string> frames_of(const Snapshot& snapshot, snapshot::StackIndex stack) {
  std::vector<std::string> names;
  for (const std::uint32_t frame : snapshot.frames_of(stack))
    names.emplace_back(snapshot.strings[snapshot.frames[frame].function]);
  return names;
}

TEST(PytorchSnapshot, WritesTheHeapAsADeviceWithBlocksAndLayers) {
  ExportFixture fixture(fill_two_layers);
  const Snapshot snapshot = snapshot_of(fixture);
  EXPECT_EQ(entries_of(snapshot, 0),
            (std::vector<std::string>{"alloc 1000 1000", "alloc 2000 4000", "free_requested 2000 4000",
                                      "free_completed 2000 4000", "alloc 3000 500", "free_requested 3000 500",
                                      "free_completed 3000 500"}));
  const auto& conv = snapshot.entry(*snapshot.trace_of(0), 1);
  EXPECT_EQ(frames_of(snapshot, conv.stack), (std::vector<std::string>{"0x2", "0x9", "conv", "model"}));
  ASSERT_EQ(snapshot.segments.size(), 1U);  // from 0x1000 to the end of the block at 0x3000
  EXPECT_EQ(snapshot.segments[0].address, 0x1000U);
  std::int64_t live = 0;
  for (const auto& block : snapshot.blocks)
    if (block.is_live()) live += block.requested;
  EXPECT_EQ(live, 1000);
}

TEST(PytorchSnapshot, WritesASegmentForEachDriverAllocation) {
  ExportFixture fixture(fill_devices);
  const Snapshot snapshot = snapshot_of(fixture);
  EXPECT_EQ(
      entries_of(snapshot, 0),
      (std::vector<std::string>{"segment_alloc d000 4000", "alloc d000 4000", "segment_alloc e000 1000",
                                "alloc e000 1000", "free_requested d000 4000", "free_completed d000 4000",
                                "segment_free d000 4000", fmt::format("oom {:x} 9000", 10'000 - 1000)}));
  EXPECT_EQ(entries_of(snapshot, 1), (std::vector<std::string>{"segment_alloc d000 700", "alloc d000 700"}));
  ASSERT_EQ(snapshot.segments.size(), 2U);
  EXPECT_EQ(snapshot.segments[0].size, 1000);
  EXPECT_EQ(snapshot.segments[1].size, 700);
}

TEST(PytorchSnapshot, AgreesWithTheAnalysisOnAnyRecording) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    ExportFixture fixture([&](auto& builder) { fill_at_random(builder, seed, 2000); });
    const auto analysis = attribution::analyze_recording(fixture.recording(), {});
    if (!analysis.full) continue;
    const Snapshot snapshot = snapshot_of(fixture);
    const std::vector<std::int64_t> devices = snapshot.devices();
    ASSERT_FALSE(devices.empty());
    const auto* trace = snapshot.trace_of(devices.back());  // the heap
    ASSERT_NE(trace, nullptr);
    std::int64_t live = 0, peak = 0, allocations = 0, empty = 0;
    for (std::size_t i = 0; i < trace->entry_count; ++i) {
      const auto& entry = snapshot.entry(*trace, i);
      allocations += entry.action == Action::alloc;
      empty += entry.action == Action::alloc && entry.size == 0;
      if (entry.action == Action::alloc) live += entry.size;
      if (entry.action == Action::free_completed) live -= entry.size;
      peak = std::max(peak, live);
    }
    EXPECT_EQ(peak, analysis.peak_bytes.value) << seed;
    EXPECT_EQ(live, analysis.leaked_bytes.value) << seed;
    EXPECT_EQ(allocations, analysis.allocations) << seed;
    // The report must not apply the rules of PyTorch's caching allocator, which rounds to 512 bytes.
    EXPECT_TRUE(snapshot.settings.has_exact_sizes);
    // A block of malloc(0) counts as one byte there.
    const std::int64_t analyzed = snapshot::analyze_snapshot(snapshot, {}).back().peak_allocated_bytes;
    EXPECT_NEAR(static_cast<double>(analyzed), static_cast<double>(peak), static_cast<double>(empty)) << seed;
  }
}

TEST(PytorchSnapshot, RejectsRecordingsOfSamplesOnly) {
  ExportFixture fixture([](auto& builder) { builder.sample(0, 20, 0x1000, 100, {2}); }, {.full = false});
  const Status refused = fixture.try_write("pytorch-snapshot", {}, fixture.path("a.pickle"));
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().sentence(), testing::HasSubstr("record with headroom trace --full"));
}

TEST(PytorchSnapshot, BlocksCloserThanGlibcAllowsDoNotOverlap) {
  ExportFixture fixture([](auto& builder) {
    builder.allocate(0, 10, 0x1000, 30, {2});  // 48 bytes by glibc's rules
    builder.allocate(0, 20, 0x1020, 30, {2});
    builder.allocate(0, 30, 0x900000, 8, {2});  // far away, so in another segment
  });
  const Snapshot snapshot = snapshot_of(fixture);
  ASSERT_EQ(snapshot.segments.size(), 2U);
  EXPECT_EQ(snapshot.blocks[0].size, 32);
  EXPECT_EQ(snapshot.blocks[0].requested, 30);
}

}  // namespace

}  // namespace headroom::exporters
