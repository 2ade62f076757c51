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

TEST(Pprof, SumsEqualTheAnalysis) {
  ExportFixture fixture([](auto& builder) { fill_at_random(builder, 3, 20000); });
  const auto analysis = attribution::analyze_recording(fixture.recording(), {});
  std::vector<std::int64_t> sums(8);
  for (const auto& sample : profile_of(fixture).samples) {
    ASSERT_EQ(sample.values.size(), sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += sample.values[i];
  }
  EXPECT_EQ(sums[0], analysis.allocations);
  EXPECT_EQ(sums[1], analysis.total_allocated_bytes);
  EXPECT_EQ(sums[3], analysis.leaked_bytes.value);
  EXPECT_EQ(sums[5], analysis.peak_bytes.value);
  EXPECT_EQ(sums[6], analysis.temporary);
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

}  // namespace

}  // namespace headroom::exporters
