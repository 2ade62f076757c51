#include "sources/tegrastats_reader.h"

#include "base/text.h"
#include "support/test_support.h"

namespace headroom::sources {
namespace {
using testing::ElementsAre;
using testing::IsEmpty;

SystemSample read(std::string_view line) {
  SystemSample sample;
  read_tegrastats_line(line, sample);
  return sample;
}

std::optional<double> value_of(const std::vector<Reading>& readings, std::string_view name) {
  for (const Reading& reading : readings)
    if (reading.name == name) return reading.value;
  return std::nullopt;
}

EngineReading engine_of(const SystemSample& sample, std::string_view name) {
  for (const EngineReading& engine : sample.engines)
    if (engine.name == name) return engine;
  return {};
}

// Boards and their lines.
std::vector<std::pair<std::string, std::string>> real_lines() {
  std::vector<std::pair<std::string, std::string>> lines;
  const auto path = test::shared_data("tegrastats/real_lines.tsv");
  if (!path) return lines;
  const std::string text = test::read_text(*path);
  for (const std::string_view row : split(text, '\n')) {
    const std::size_t tab = row.find('\t');
    if (row.starts_with("#") || tab == row.npos) continue;
    lines.push_back({std::string(row.substr(0, tab)), std::string(row.substr(tab + 1))});
  }
  return lines;
}

TEST(Tegrastats, ReadsOrinWithJetPack6) {
  const SystemSample sample = read(
      "05-15-2025 18:30:28 RAM 6982/7620MB (lfb 5x1MB) SWAP 2640/16384MB (cached 202MB) CPU "
      "[97%@1984,off,93%@247] EMC_FREQ 18%@3199 GR3D_FREQ 84%@[713] NVENC 1%@115 NVJPG off APE 174 "
      "cv0@-256C cpu@65.562C VDD_IN 17946mW/15710mW");
  EXPECT_EQ(sample.clock_text, "05-15-2025 18:30:28");
  EXPECT_EQ(sample.ram_used, mebibytes(6982));
  EXPECT_EQ(sample.ram_total, mebibytes(7620));
  EXPECT_EQ(sample.largest_free_block, mebibytes(1));
  EXPECT_EQ(sample.largest_free_blocks, 5);
  EXPECT_EQ(sample.swap_used, mebibytes(2640));
  EXPECT_EQ(sample.swap_cached, mebibytes(202));
  EXPECT_THAT(sample.cores,
              ElementsAre(CpuCore{true, 97, 1984e6}, CpuCore{false, {}, {}}, CpuCore{true, 93, 247e6}));
  EXPECT_EQ(sample.cpu_percent, 95);
  EXPECT_EQ(sample.emc_percent, 18);
  EXPECT_EQ(value_of(sample.clocks_hz, "emc"), 3199e6);
  EXPECT_EQ(sample.gpu_percent, 84);
  EXPECT_EQ(value_of(sample.clocks_hz, "gpu"), 713e6);
  EXPECT_THAT(sample.engines,
              ElementsAre(EngineReading{"NVENC", true, 1, 115e6}, EngineReading{"NVJPG", false, {}, {}},
                          EngineReading{"APE", {}, {}, 174e6}));
  EXPECT_THAT(sample.temperatures_celsius, ElementsAre(Reading{"cpu", 65.562}));  // cv0's rail is gated
  EXPECT_THAT(sample.power_watts, ElementsAre(Reading{"VDD_IN", 17.946}));
  EXPECT_THAT(sample.power_average_watts, ElementsAre(Reading{"VDD_IN", 15.71}));
  EXPECT_THAT(sample.unknown_tokens, IsEmpty());
}

// JetPack 7.2: temperatures and power with their peaks; Thor's GPU has clocks but no load.
TEST(Tegrastats, ReadsPeaksAndAGpuWithoutLoad) {
  const SystemSample sample = read(
      "RAM 9101/125811MB (lfb 19x4MB) GR3D_FREQ @[314,315,316] NVENC0_FREQ @1556 VIC 59%@423 PVA0_FREQ off "
      "gpu@35.906C/36.5C VDD_GPU 4925mW/4800mW/5100mW VIN 28548mW");
  EXPECT_EQ(sample.gpu_percent, std::nullopt);
  EXPECT_THAT(sample.clocks_hz,
              ElementsAre(Reading{"gpu", 314e6}, Reading{"gpu1", 315e6}, Reading{"gpu2", 316e6}));
  EXPECT_EQ(engine_of(sample, "NVENC0").percent, std::nullopt);
  EXPECT_EQ(engine_of(sample, "NVENC0").clock_hz, 1556e6);
  EXPECT_EQ(engine_of(sample, "PVA0").on, false);
  EXPECT_THAT(sample.temperature_peaks_celsius, ElementsAre(Reading{"gpu", 36.5}));
  EXPECT_THAT(sample.power_watts, ElementsAre(Reading{"VDD_GPU", 4.925}, Reading{"VIN", 28.548}));
  EXPECT_THAT(sample.power_peak_watts, ElementsAre(Reading{"VDD_GPU", 5.1}));
  EXPECT_THAT(sample.unknown_tokens, IsEmpty());
}

TEST(Tegrastats, ReadsBoardsBeforeOrin) {
  const SystemSample tk1 = read(
      "RAM 714/1876MB (lfb 139x4MB) cpu [25%,7%,off,1%]@2218 EMC 3%@924 AVP 0%@81 VDE 120 GR3D 0%@252 EDP "
      "limit 0");
  EXPECT_EQ(tk1.cores.size(), 4U);
  EXPECT_EQ(tk1.cores[0].clock_hz, 2218e6);
  EXPECT_EQ(tk1.cores[2].clock_hz, std::nullopt);
  EXPECT_EQ(engine_of(tk1, "VDE").clock_hz, 120e6);
  EXPECT_EQ(value_of(tk1.other, "edp_limit"), 0);
  const SystemSample tx1 = read("IRAM 0/252kB(lfb 252kB) CPU [1%@102] MTS fg 0% bg 10% PMIC@100C CPU@37.5C");
  EXPECT_EQ(value_of(tx1.other, "iram_lfb_bytes"), 252 * 1024);
  EXPECT_EQ(engine_of(tx1, "MTS bg").percent, 10);
  EXPECT_THAT(tx1.temperatures_celsius, ElementsAre(Reading{"CPU", 37.5}));  // the PMIC reports a constant
  // The names GPU and CPU stand for a temperature, a rail and a list of cores.
  const SystemSample xavier = read("CPU [5%@1190] GPU@30.5C CPU@31.5C GPU 463/462 CPU 618/618 CV 0/0");
  EXPECT_THAT(xavier.power_watts,
              ElementsAre(Reading{"GPU", 0.463}, Reading{"CPU", 0.618}, Reading{"CV", 0}));
  EXPECT_EQ(value_of(xavier.temperatures_celsius, "GPU"), 30.5);
  EXPECT_EQ(xavier.cores.size(), 1U);
  for (const auto* sample : {&tk1, &tx1, &xavier}) EXPECT_THAT(sample->unknown_tokens, IsEmpty());
}

// tegrastats prints swap only if there is some, between memory and cores.
TEST(Tegrastats, CompleteLineWithoutSwapMeansNoSwap) {
  EXPECT_EQ(read("RAM 100/200MB (lfb 1x4MB) CPU [1%@2]").swap_total, Bytes{});
  EXPECT_EQ(read("RAM 100/200MB (lfb 1x4MB) SWAP 5/16MB (cached 0MB) CPU [1%@2]").swap_total, mebibytes(16));
  for (const char* line : {"RAM 100/200MB (lfb 1x4MB)", "RAM 100/200MB (lfb 1x4MB) CPU [1%@",
                           "RAM 100/200MB SWAP 5/1 CPU [1%@2]", "CPU [1%@2] GPU@45C", "tegrastats", ""})
    EXPECT_EQ(read(line).swap_total, std::nullopt) << line;
}

TEST(Tegrastats, KeepsUnknownTokens) {
  const SystemSample sample =
      read("RAM 100/200MB (lfb 3x NEW_THING 12qux @5 CPU [1%@2,x] VDD_IN 5000mW/ GPU@45.2 APE 174");
  EXPECT_EQ(sample.ram_used, mebibytes(100));
  EXPECT_TRUE(sample.cores.empty());
  EXPECT_THAT(sample.unknown_tokens, ElementsAre("(lfb", "3x", "NEW_THING", "12qux", "@5", "CPU", "[1%@2,x]",
                                                 "VDD_IN", "5000mW/", "GPU@45.2"));
  EXPECT_EQ(sample.engines.size(), 1U);
  SystemSample nothing;
  EXPECT_FALSE(read_tegrastats_line("tegrastats: command not found", nothing));
  EXPECT_EQ(nothing.unknown_tokens.size(), 4U);
}

TEST(Tegrastats, RejectsInvalidNumbers) {
  for (const char* line :
       {"RAM 99999999999999999999/1MB", "RAM 999999999999999/999999999999999GB", "CPU@1.C", "RAM -1/5MB",
        "RAM 1/2", "APE 1e5", "APE 5.", "VDD_IN 1/2/3/4", "VDD_IN 1mW/2", "GR3D_FREQ 5%@[1,2"})
    EXPECT_THAT(read(line).unknown_tokens, testing::Not(IsEmpty())) << line;
}

TEST(Tegrastats, ParsesEveryRealLine) {
  const auto lines = real_lines();
  if (lines.empty()) GTEST_SKIP() << test::absent_message("tegrastats/real_lines.tsv");
  EXPECT_GE(lines.size(), 39U);
  for (const auto& [board, line] : lines) {
    const SystemSample sample = read(line);
    EXPECT_THAT(sample.unknown_tokens, IsEmpty()) << board;
    EXPECT_TRUE(sample.ram_total && sample.ram_used && sample.largest_free_block) << board;
    EXPECT_FALSE(sample.cores.empty()) << board;
    EXPECT_FALSE(sample.temperatures_celsius.empty() && board.find("TK1") == board.npos) << board;
    for (const Reading& temperature : sample.temperatures_celsius)
      EXPECT_TRUE(temperature.value > 0 && temperature.value < 100) << board << " " << temperature.name;
  }
}

// Wherever a line is cut, every figure that is read equals the figure of the whole line.
TEST(Tegrastats, LineCutAtAnyByteGivesNoWrongFigure) {
  const auto lines = real_lines();
  if (lines.empty()) GTEST_SKIP() << test::absent_message("tegrastats/real_lines.tsv");
  for (const auto& [board, line] : lines) {
    const SystemSample whole = read(line);
    for (std::size_t size = 0; size < line.size(); ++size) {
      const SystemSample cut = read(std::string_view(line).substr(0, size));
      for (const auto& [part, all] : {std::pair{&cut.ram_used, &whole.ram_used},
                                      {&cut.ram_total, &whole.ram_total},
                                      {&cut.swap_total, &whole.swap_total},
                                      {&cut.largest_free_block, &whole.largest_free_block}})
        EXPECT_TRUE(!*part || *part == *all) << board << " cut at " << size;
      for (const Reading& temperature : cut.temperatures_celsius)
        EXPECT_EQ(value_of(whole.temperatures_celsius, temperature.name), temperature.value) << board;
      EXPECT_TRUE(cut.cores.empty() || cut.cores.size() == whole.cores.size()) << board << " cut at " << size;
    }
  }
}

}  // namespace
}  // namespace headroom::sources
