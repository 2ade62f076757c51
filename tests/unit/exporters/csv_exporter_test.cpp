#include <map>

#include "export_fixture.h"

#include "base/text.h"

namespace headroom::exporters {
namespace {

// Rows of cells. Quoted cells keep their separators.
std::vector<std::vector<std::string>> parse_csv(std::string_view text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row{""};
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' && quoted && i + 1 < text.size() && text[i + 1] == '"') {
      row.back() += text[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      row.emplace_back();
    } else if (c == '\r' && !quoted) {
      rows.push_back(std::exchange(row, {""}));
      ++i;  // \n
    } else {
      row.back() += c;
    }
  }
  return rows;
}

class Csv : public testing::Test {
 protected:
  void read(ExportFixture& fixture) { rows_ = parse_csv(fixture.write("csv")); }
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

TEST_F(Csv, QuotesSeparators) {
  ExportFixture fixture([](test::RecordingBuilder& builder) {
    builder.enter_scope(0, 1, builder.scope("a,\"b\"\nc"));
    builder.allocate(0, 10, 0x1000, 100, {2});
  });
  read(fixture);
  ASSERT_EQ(rows_.size(), 4U);
  EXPECT_EQ(cell(2, "layer"), "a,\"b\"\nc");
  EXPECT_EQ(cell(3, "layer"), "a,\"b\"\nc");
}

TEST_F(Csv, SamplesLeaveTemporaryCellsEmpty) {
  test::RecordingOptions sampled;
  sampled.full = false;
  ExportFixture fixture(
      [](auto& builder) {
        builder.sample(0, 10, 0x1000, 100, {2});
        builder.counters(0, 20, 0, 10'000, 1'000'000, 0);  // the allocations that the sample represents
      },
      sampled);
  read(fixture);
  ASSERT_EQ(rows_.size(), 3U);
  EXPECT_EQ(rows_[2].size(), rows_[0].size());
  EXPECT_EQ(cell(2, "temporary_allocations"), "");
  EXPECT_EQ(cell(2, "temporary_bytes"), "");
  EXPECT_GT(std::stoll(cell(2, "at_end_bytes")), 400000);
}

TEST_F(Csv, LeavesCountsOfSampledNodesEmpty) {
  test::RecordingOptions options;
  for (const bool full : {false, true}) {
    options.full = full;
    ExportFixture fixture(fill_run_with_node, options);
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

}  // namespace
}  // namespace headroom::exporters
