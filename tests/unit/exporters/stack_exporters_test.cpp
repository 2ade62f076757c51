#include <map>

#include "attribution/recording_analysis.h"
#include "base/json.h"
#include "base/text.h"
#include "export_fixture.h"
#include "exporters/named_stacks.h"

namespace headroom::exporters {

namespace {

TEST(Collapsed, WritesOneLinePerStack) {
  ExportFixture fixture(fill_two_layers);
  EXPECT_EQ(fixture.write("collapsed"), "model;0x9;0x1 1000\nmodel;conv;0x9;0x2 4000\n");
  EXPECT_EQ(fixture.write("collapsed", Metric::leaked), "model;0x9;0x1 1000\n");
  EXPECT_EQ(fixture.write("collapsed", Metric::temporary), "(no stack) 500\n");
  EXPECT_EQ(fixture.write("collapsed", Metric::allocated),
            "(no stack) 500\nmodel;0x9;0x1 1000\nmodel;conv;0x9;0x2 4000\n");
}

TEST(Collapsed, ReplacesSeparatorsInNames) {
  ExportFixture fixture([](test::RecordingBuilder& builder) {
    builder.enter_scope(0, 1, builder.scope("a;b\nc d"));
    builder.allocate(0, 10, 0x1000, 100, {2});
  });
  EXPECT_EQ(fixture.write("collapsed"), "a:b c d;0x1 100\n");
}

TEST(Collapsed, MarksTruncatedStacks) {
  ExportFixture fixture([](test::RecordingBuilder& builder) {
    builder.allocate(0, 10, 0x1000, 100, test::RecordingBuilder::Frames(recording::kMaxFrames, 2));
    builder.allocate(0, 20, 0x2000, 100, test::RecordingBuilder::Frames(recording::kMaxFrames - 1, 2));
  });
  const std::string text = fixture.write("collapsed");
  const auto lines = split(trim(text), '\n');
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0], testing::StartsWith("(callers left out);0x1;0x1"));
  EXPECT_THAT(lines[1], testing::StartsWith("0x1;0x1"));
}

TEST(Collapsed, MergesEqualStacks) {
  ExportFixture fixture([](test::RecordingBuilder& builder) { fill_at_random(builder, 1, 5000); });
  const std::string text = fixture.write("collapsed", Metric::allocated);
  std::vector<std::string_view> stacks;
  for (const std::string_view line : split(trim(text), '\n'))
    stacks.push_back(line.substr(0, line.rfind(' ')));
  EXPECT_GT(stacks.size(), 50U);
  EXPECT_EQ(std::adjacent_find(stacks.begin(), stacks.end()), stacks.end());
}

// A sample, and the count of the allocations that it represents.
void fill_sample(test::RecordingBuilder& builder) {
  builder.sample(0, 10, 0x1000, 100, {2});
  builder.counters(0, 20, 0, 10'000, 1'000'000, 0);
}

// The requirements of speedscope's schema for a file of sampled profiles.
void expect_valid(const Json& file) {
  EXPECT_EQ(file.at("$schema"), "https://www.speedscope.app/file-format-schema.json");
  const std::size_t frames = file.at("shared").at("frames").size();
  for (const Json& frame : file["shared"]["frames"]) EXPECT_TRUE(frame.at("name").is_string());
  EXPECT_LT(file.at("activeProfileIndex").get<std::size_t>(), file.at("profiles").size());
  for (const Json& profile : file["profiles"]) {
    EXPECT_EQ(profile.at("type"), "sampled");
    EXPECT_EQ(profile.at("unit"), "bytes");
    EXPECT_TRUE(profile.at("name").is_string());
    std::int64_t total = 0;
    for (const Json& weight : profile.at("weights")) total += weight.get<std::int64_t>();
    EXPECT_EQ(profile.at("startValue"), 0);
    EXPECT_EQ(profile.at("endValue"), total);
    ASSERT_EQ(profile.at("samples").size(), profile.at("weights").size());
    for (const Json& sample : profile.at("samples"))
      for (const Json& frame : sample) EXPECT_LT(frame.get<std::size_t>(), frames);
  }
}

// "model;0x9;0x1 1000" for each sample.
std::vector<std::string> lines_of(const Json& file, std::size_t profile) {
  std::vector<std::string> lines;
  const Json& chosen = file["profiles"][profile];
  for (std::size_t i = 0; i < chosen["samples"].size(); ++i) {
    std::string line;
    for (const Json& frame : chosen["samples"][i])
      line += (line.empty() ? "" : ";") +
              file["shared"]["frames"][frame.get<std::size_t>()]["name"].get<std::string>();
    lines.push_back(line + " " + std::to_string(chosen["weights"][i].get<std::int64_t>()));
  }
  return lines;
}

Json parsed(const std::string& text) {
  auto json = parse_json(text);
  EXPECT_TRUE(json.has_value()) << text;
  return json.value_or(Json());
}

TEST(Speedscope, WritesAProfileForEachMetricWithLayersFirst) {
  ExportFixture fixture(fill_two_layers);
  const Json file = parsed(fixture.write("speedscope"));
  expect_valid(file);
  ASSERT_EQ(file["profiles"].size(), 4U);
  EXPECT_EQ(file["activeProfileIndex"], 0);
  EXPECT_EQ(file["name"], "a.hrec");
  EXPECT_EQ(lines_of(file, 0), (std::vector<std::string>{"model;0x9;0x1 1000", "model;conv;0x9;0x2 4000"}));
  EXPECT_EQ(lines_of(file, 1), std::vector<std::string>{"model;0x9;0x1 1000"});
  EXPECT_EQ(lines_of(file, 2), std::vector<std::string>{"(no stack) 500"});
  EXPECT_EQ(lines_of(file, 3).size(), 3U);
}

TEST(Speedscope, WritesTheRequestedMetricFirst) {
  ExportFixture fixture(fill_two_layers);
  EXPECT_EQ(parsed(fixture.write("speedscope", Metric::allocated))["activeProfileIndex"], 3);
  EXPECT_EQ(parsed(fixture.write("speedscope", Metric::leaked))["activeProfileIndex"], 1);
}

TEST(Speedscope, OmitsTemporaryAllocationsForSamples) {
  ExportFixture fixture(fill_sample, {.full = false});
  const Json file = parsed(fixture.write("speedscope"));
  expect_valid(file);
  EXPECT_EQ(file["profiles"].size(), 3U);
  EXPECT_GT(file["profiles"][1]["endValue"], 400000) << "a sample stands for many";
  const Status refused = fixture.try_write("speedscope", Metric::temporary, fixture.path("refused"));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::input);
  EXPECT_FALSE(std::filesystem::exists(fixture.path("refused")));
}

TEST(Speedscope, WritesValidJsonForAnyName) {
  ExportFixture fixture([](test::RecordingBuilder& builder) {
    builder.enter_scope(0, 1, builder.scope("a\"b\\c\n\x01\xff"));
    builder.allocate(0, 10, 0x1000, 100);
  });
  const Json file = parsed(fixture.write("speedscope"));
  expect_valid(file);
  EXPECT_EQ(file["shared"]["frames"][0]["name"], "a\"b\\c\n\x01\xef\xbf\xbd");
}

TEST(Speedscope, WritesEmptyProfilesForAnEmptyRecording) {
  ExportFixture fixture([](auto&) {});
  expect_valid(parsed(fixture.write("speedscope")));
}

class Csv : public testing::Test {
 protected:
  void read(ExportFixture& fixture) {
    rows_.clear();
    const std::string text = fixture.write("csv");  // no name in it needs quotes
    for (const std::string_view line : split(trim(text), '\n')) {
      const auto cells = split(trim(line), ',');
      rows_.emplace_back(cells.begin(), cells.end());
    }
  }
  std::string cell(std::size_t row, const std::string& column) const {
    const auto found = std::find(rows_[0].begin(), rows_[0].end(), column);
    EXPECT_NE(found, rows_[0].end()) << column;
    return rows_.at(row).at(static_cast<std::size_t>(found - rows_[0].begin()));
  }
  std::vector<std::vector<std::string>> rows_;
};

TEST_F(Csv, WritesLayersAndStacksWithEmptyCells) {
  ExportFixture fixture(fill_two_layers);
  read(fixture);
  ASSERT_EQ(rows_.size(), 7U);
  for (const auto& row : rows_) EXPECT_EQ(row.size(), rows_[0].size());
  EXPECT_EQ(cell(1, "kind"), "layer");
  EXPECT_EQ(cell(1, "layer"), "");
  EXPECT_EQ(cell(1, "entries"), "") << "outside is never entered";
  EXPECT_EQ(cell(3, "layer"), "model/conv");
  EXPECT_EQ(cell(3, "stack"), "");
  EXPECT_EQ(cell(3, "peak_allocated_bytes"), "4000");
  EXPECT_EQ(cell(3, "peak_reserved_bytes"), "4016");
  EXPECT_EQ(cell(3, "entries"), "1");
  EXPECT_EQ(cell(2, "allocations"), "2");
  EXPECT_EQ(cell(2, "deallocations"), "2");
  EXPECT_EQ(cell(5, "kind"), "stack");
  EXPECT_EQ(cell(5, "layer"), "model/conv");
  EXPECT_EQ(cell(5, "stack"), "0x9;0x2");
  EXPECT_EQ(cell(5, "at_peak_bytes"), "4000");
  EXPECT_EQ(cell(5, "at_end_bytes"), "0");
  EXPECT_EQ(cell(5, "deallocations"), "");
  EXPECT_EQ(cell(6, "temporary_bytes"), "500");
}

TEST_F(Csv, SamplesLeaveTemporaryCellsEmpty) {
  ExportFixture fixture(fill_sample, {.full = false});
  read(fixture);
  ASSERT_EQ(rows_.size(), 3U);
  EXPECT_EQ(rows_[2].size(), rows_[0].size());
  EXPECT_EQ(cell(2, "temporary_allocations"), "");
  EXPECT_EQ(cell(2, "temporary_bytes"), "");
  EXPECT_GT(std::stoll(cell(2, "at_end_bytes")), 400000);
}

TEST_F(Csv, LeavesCountsOfSampledNodesEmpty) {
  for (const bool full : {false, true}) {
    ExportFixture fixture(fill_run_with_node, {.full = full});
    read(fixture);
    EXPECT_EQ(cell(2, "layer"), "run");
    EXPECT_EQ(cell(2, "allocations"), "11");
    EXPECT_EQ(cell(3, "layer"), "run/conv");
    EXPECT_EQ(rows_[3].size(), rows_[0].size());
    EXPECT_EQ(cell(3, "allocations"), full ? "1" : "");
    EXPECT_EQ(cell(3, "deallocations"), full ? "0" : "");
    EXPECT_EQ(cell(3, "allocated_bytes"), full ? "8000" : "");
    EXPECT_EQ(cell(3, "temporary_allocations"), "");
    EXPECT_EQ(cell(3, "at_peak_bytes"), "8000");
  }
}

TEST_F(Csv, WritesRowsForMappedMemoryAndGpus) {
  ExportFixture fixture(fill_devices);
  read(fixture);
  std::map<std::string, std::vector<std::size_t>> rows;
  for (std::size_t i = 1; i < rows_.size(); ++i) {
    EXPECT_EQ(rows_[i].size(), rows_[0].size());
    rows[cell(i, "kind") + cell(i, "device")].push_back(i);
  }
  const auto row = [&](const std::string& kind) { return rows.at(kind).at(0); };
  EXPECT_EQ(cell(row("mapped"), "at_peak_bytes"), "8192");
  EXPECT_EQ(cell(row("mapped"), "at_end_bytes"), "4096");
  EXPECT_EQ(cell(row("mapped_layer"), "layer"), "model");
  EXPECT_EQ(cell(row("mapped_stack"), "stack"), "0x1");
  EXPECT_EQ(cell(row("mapped_stack"), "at_end_bytes"), "4096");
  EXPECT_EQ(cell(row("device0"), "at_peak_bytes"), "5000") << "pinned memory is the machine's";
  EXPECT_EQ(cell(row("device0"), "at_end_bytes"), "1000");
  EXPECT_EQ(cell(row("device0"), "allocations"), "2");
  EXPECT_EQ(cell(row("device0"), "deallocations"), "1");
  EXPECT_EQ(cell(row("device_layer0"), "layer"), "model");
  EXPECT_EQ(cell(row("device_layer0"), "at_peak_bytes"), "4000");
  EXPECT_EQ(cell(row("device_stack0"), "stack"), "0x2");
  EXPECT_EQ(rows.at("device_stack0").size(), 2U);
  EXPECT_EQ(cell(row("device1"), "at_end_bytes"), "700");
  EXPECT_EQ(cell(row("layer"), "device"), "");
}

using enum Metric;

TEST(StackAccounts, HasEachMetricByLayerAndStack) {
  ExportFixture fixture(fill_two_layers);
  const StackAccounts result = account_stacks(fixture.recording());
  ASSERT_EQ(result.accounts.size(), 3U);
  EXPECT_TRUE(result.has_temporary);
  EXPECT_EQ(result.layers[result.accounts[1].layer].path, "model/conv");
  const auto bytes = [&](std::size_t i) {
    const StackAccount& account = result.accounts[i];
    return std::vector{account[peak].bytes, account[leaked].bytes, account[temporary].bytes,
                       account[allocated].bytes};
  };
  EXPECT_EQ(bytes(0), (std::vector<std::int64_t>{1000, 1000, 0, 1000}));
  EXPECT_EQ(bytes(1), (std::vector<std::int64_t>{4000, 0, 0, 4000}));
  EXPECT_EQ(bytes(2), (std::vector<std::int64_t>{0, 0, 500, 500}));
  EXPECT_EQ(result.accounts[2].stack, StackId{});
}

void expect_the_sums_of_the_analysis(ExportFixture& fixture, std::string_view context) {
  const auto analysis = attribution::analyze_recording(fixture.recording(), {});
  const StackAccounts result = account_stacks(fixture.recording());
  std::array<Amount, kMetrics> sums{};
  for (const StackAccount& account : result.accounts)
    for (std::size_t i = 0; i < kMetrics; ++i) {
      sums[i].blocks += account.amounts[i].blocks;
      sums[i].bytes += account.amounts[i].bytes;
    }
  EXPECT_EQ(sums[0].bytes, analysis.peak_bytes.value) << context;
  EXPECT_EQ(sums[0].blocks, analysis.peak_blocks.value) << context;
  EXPECT_EQ(sums[1].bytes, analysis.leaked_bytes.value) << context;
  EXPECT_EQ(sums[2].blocks, analysis.temporary.value_or(0)) << context;
  std::int64_t allocations = 0, allocated_bytes = 0;
  for (const auto& stack : analysis.stacks) {
    allocations += stack.allocations;
    allocated_bytes += stack.allocated_bytes;
  }
  EXPECT_EQ(sums[3].blocks, allocations) << context;
  EXPECT_EQ(sums[3].bytes, allocated_bytes) << context;
}

TEST(StackAccounts, SumsEqualTheAnalysis) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    ExportFixture fixture([&](auto& builder) { fill_at_random(builder, seed, 2000); });
    expect_the_sums_of_the_analysis(fixture, "seed " + std::to_string(seed));
  }
}

TEST(StackAccounts, SumsEqualTheAnalysisOfSamples) {
  ExportFixture fixture(
      [](test::RecordingBuilder& builder) {
        for (std::uint64_t i = 0; i < 50; ++i) {
          builder.sample(0, 10 * i, 0x1000 + 0x100 * i, 64 + i, {1 + i % 3});
          if (i % 3 == 0) builder.release(0, 10 * i + 1, 0x1000 + 0x100 * i);
        }
        builder.counters(0, 1000, 0, 100000, 6400000, 90000);
      },
      {.full = false});
  expect_the_sums_of_the_analysis(fixture, "samples");
  EXPECT_FALSE(account_stacks(fixture.recording()).has_temporary);
}

}  // namespace

}  // namespace headroom::exporters
