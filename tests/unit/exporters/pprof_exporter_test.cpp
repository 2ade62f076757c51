#include <zlib.h>

#include <array>
#include <map>

#include "attribution/recording_analysis.h"
#include "export_fixture.h"
#include "protobuf_reader.h"

namespace headroom::exporters {
namespace {

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
  test::RecordingOptions sampled;
  sampled.full = false;
  ExportFixture fixture([](auto& builder) { builder.sample(0, 10, 0x1000, 100, {2}); }, sampled);
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
