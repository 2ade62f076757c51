// Reads every sample of the shared test data: real output of Jetsons, desktops and servers.
#include <algorithm>
#include <array>
#include <map>

#include "base/text.h"
#include "sources/nvidia_smi_reader.h"
#include "support/test_support.h"

namespace headroom::sources {
namespace {
using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;

// The samples by the beginning of their titles. A test below reads each of them.
constexpr std::array<std::string_view, 18> kSamples{"Orin JP6.x table",
                                                    "Jetson AGX Thor JP7.0",
                                                    "Thor R38.4 process rows",
                                                    "Jetson AGX Thor JP7.2",
                                                    "DGX Spark GB10 CSV (driver",
                                                    "DGX Spark GB10 CSV | ",
                                                    "Jetson Orin telemetry CSV row",
                                                    "Thor row, util works",
                                                    "L4, T4, laptop",
                                                    "2x 80GB server",
                                                    "Telegraf thread 2017",
                                                    "beszel noheader,nounits",
                                                    "[Not Supported] / N/A",
                                                    "timestamped log",
                                                    "MIG list",
                                                    "MIG profile table",
                                                    "NVML under MIG",
                                                    "raw NVML on GB10"};

// "[real] MIG list (NVIDIA MIG guide)" begins with "MIG list".
bool begins_with(std::string_view title, std::string_view beginning) {
  const std::size_t kind = title.find("] ");
  return kind != title.npos && title.substr(kind + 2).starts_with(beginning);
}

class SmiSamples : public testing::Test {
 protected:
  // "== [real] TITLE | source", and the lines to the next of them.
  static void SetUpTestSuite() {
    const auto file = test::shared_data("nvidia_smi/samples.txt");
    if (!file) return;
    const std::string text = test::read_text(*file);
    std::string title;
    for (const std::string_view line : split(text, '\n')) {
      if (line.starts_with("== "))
        sections().emplace(title = trim(line.substr(3)), "");
      else if (!title.empty())
        sections()[title] += std::string(line) + "\n";
    }
  }
  void SetUp() override {
    if (sections().empty()) GTEST_SKIP() << test::absent_message("nvidia_smi/samples.txt");
  }
  static std::map<std::string, std::string>& sections() {
    static std::map<std::string, std::string> all;
    return all;
  }
  // The text of the only section whose title begins with this.
  static std::string text_of(const std::string& beginning) {
    EXPECT_THAT(kSamples, testing::Contains(std::string_view(beginning)));
    std::string text;
    int found = 0;
    for (const auto& [title, body] : sections()) {
      if (!begins_with(title, beginning)) continue;
      text = body;
      ++found;
    }
    EXPECT_EQ(found, 1) << beginning;
    return text;
  }
  static SmiOutput read(const std::string& beginning, const std::vector<std::string>& columns = {}) {
    return read_nvidia_smi(text_of(beginning), columns);
  }
  // The line of a section that contains this text.
  static std::string line_of(const std::string& beginning, std::string_view text) {
    static std::string kept;
    kept = text_of(beginning);
    for (const std::string_view line : split(kept, '\n'))
      if (line.find(text) != line.npos) return std::string(line);
    ADD_FAILURE() << "no line with " << text;
    return {};
  }
};

void expect_no_memory(const GpuSample& gpu) {
  EXPECT_EQ(gpu.memory_total, std::nullopt);
  EXPECT_EQ(gpu.memory_used, std::nullopt);
  EXPECT_EQ(gpu.memory_free, std::nullopt);
}

TEST_F(SmiSamples, OrinWithJetPack6ReportsOnlyItsName) {
  const SmiOutput output = read("Orin JP6.x table");
  EXPECT_EQ(output.driver_version, "540.4.0");
  ASSERT_EQ(output.gpus.size(), 1U);
  GpuSample only_its_name;
  only_its_name.index = 0;
  only_its_name.name = "Orin (nvgpu)";
  EXPECT_EQ(output.gpus[0], only_its_name);
  EXPECT_EQ(output.unparsed_lines, 0);
}

TEST_F(SmiSamples, ThorWithJetPack70ReportsOnlyLoad) {
  const SmiOutput output = read("Jetson AGX Thor JP7.0");
  ASSERT_EQ(output.gpus.size(), 1U);
  const GpuSample& gpu = output.gpus[0];
  EXPECT_EQ(gpu.name, "NVIDIA Thor");
  EXPECT_EQ(gpu.pci_bus_id, "00000000:01:00.0");
  EXPECT_THAT(gpu.gpu_percent, Optional(DoubleEq(0)));
  EXPECT_EQ(gpu.temperature_celsius, std::nullopt);
  EXPECT_EQ(gpu.power_watts, std::nullopt);
  EXPECT_EQ(gpu.power_limit_watts, std::nullopt);
  EXPECT_EQ(gpu.mig_enabled, false);
  expect_no_memory(gpu);
}

TEST_F(SmiSamples, ReadsAProcessRowOfThor) {
  const SmiOutput output = read("Thor R38.4 process rows");
  ASSERT_TRUE(output.processes);
  ASSERT_EQ(output.processes->size(), 1U);
  const SmiProcess& row = output.processes->front();
  EXPECT_EQ(row.gpu, 0);
  EXPECT_EQ(row.process, (GpuProcess{3507, Bytes{0}, {}, {}}));
}

TEST_F(SmiSamples, ThorWithJetPack72ReportsTemperatureAndPower) {
  const SmiOutput output = read("Jetson AGX Thor JP7.2");
  EXPECT_EQ(output.driver_version, "595.78");
  ASSERT_EQ(output.gpus.size(), 1U);
  EXPECT_THAT(output.gpus[0].temperature_celsius, Optional(DoubleEq(35)));
  EXPECT_THAT(output.gpus[0].power_watts, Optional(DoubleEq(1)));
  EXPECT_EQ(output.gpus[0].power_limit_watts, std::nullopt);
  expect_no_memory(output.gpus[0]);
  EXPECT_THAT(output.processes, Optional(IsEmpty()));
}

TEST_F(SmiSamples, DgxSparkHasNoDedicatedMemory) {
  SmiOutput output = read("DGX Spark GB10 CSV (driver");
  ASSERT_EQ(output.gpus.size(), 1U);
  expect_no_memory(output.gpus[0]);
  EXPECT_THAT(output.gpus[0].gpu_percent, Optional(DoubleEq(0)));
  EXPECT_THAT(output.gpus[0].power_watts, Optional(DoubleEq(11.17)));
  EXPECT_THAT(output.gpus[0].temperature_celsius, Optional(DoubleEq(35)));
  EXPECT_EQ(output.unparsed_lines, 1);  // the line with the typed command
  output = read("DGX Spark GB10 CSV | ");
  ASSERT_EQ(output.gpus.size(), 1U);
  expect_no_memory(output.gpus[0]);
}

TEST_F(SmiSamples, ReadsJetsonRowsWithoutHeader) {
  SmiOutput output = read("Jetson Orin telemetry CSV row",
                          {"name", "memory.total", "memory.used", "utilization.gpu", "power.draw"});
  ASSERT_EQ(output.gpus.size(), 1U);
  EXPECT_EQ(output.gpus[0].name, "Orin (nvgpu)");
  expect_no_memory(output.gpus[0]);
  output = read("Thor row, util works", {"name", "memory.total", "memory.used", "utilization.gpu"});
  ASSERT_EQ(output.gpus.size(), 1U);
  EXPECT_THAT(output.gpus[0].gpu_percent, Optional(DoubleEq(97)));
  expect_no_memory(output.gpus[0]);
}

TEST_F(SmiSamples, NewHeaderReplacesThePreviousOne) {
  const SmiOutput output = read("L4, T4, laptop");
  ASSERT_EQ(output.gpus.size(), 5U);
  EXPECT_EQ(output.gpus[0].name, "NVIDIA L4");
  EXPECT_EQ(output.gpus[0].memory_used, mebibytes(21094));
  EXPECT_EQ(output.gpus[0].memory_total, mebibytes(23034));
  EXPECT_THAT(output.gpus[0].temperature_celsius, Optional(DoubleEq(46)));
  EXPECT_EQ(output.gpus[1].memory_total, mebibytes(15360));
  EXPECT_EQ(output.gpus[2].name, "NVIDIA GeForce RTX 4060 Laptop GPU");
  EXPECT_THAT(output.gpus[2].graphics_clock_hz, Optional(DoubleEq(210e6)));
  EXPECT_THAT(output.gpus[2].memory_clock_hz, Optional(DoubleEq(405e6)));
  EXPECT_THAT(output.gpus[2].power_watts, Optional(DoubleEq(1.81)));
  EXPECT_EQ(output.gpus[3].memory_free, mebibytes(7887));
  EXPECT_EQ(output.gpus[4].memory_used, mebibytes(31104));
  EXPECT_EQ(output.unparsed_lines, 0);
}

TEST_F(SmiSamples, RejectsRowsThatDoNotFitTheirHeader) {
  const SmiOutput output = read("2x 80GB server");
  ASSERT_EQ(output.gpus.size(), 2U);
  EXPECT_EQ(output.gpus[1].index, 1);
  EXPECT_EQ(output.gpus[1].memory_used, Bytes{0});
  EXPECT_EQ(output.gpus[1].memory_total, mebibytes(81920));
  EXPECT_EQ(output.unparsed_lines, 2);  // three fields, but a header with four
  const SmiOutput bare =
      read_nvidia_smi(line_of("2x 80GB server", "1, 0, 0"), {"index", "memory.used", "utilization.gpu"});
  ASSERT_EQ(bare.gpus.size(), 1U);
  EXPECT_EQ(bare.gpus[0].index, 1);
  EXPECT_EQ(bare.gpus[0].memory_used, Bytes{0});
}

TEST_F(SmiSamples, SkipsUnknownColumns) {
  const SmiOutput output = read("Telegraf thread 2017");
  ASSERT_EQ(output.gpus.size(), 1U);
  EXPECT_THAT(output.gpus[0].power_watts, Optional(DoubleEq(11.04)));
  EXPECT_THAT(output.gpus[0].temperature_celsius, Optional(DoubleEq(34)));
}

TEST_F(SmiSamples, ReadsRowsWithoutHeaderAndUnits) {
  const SmiOutput output = read("beszel noheader,nounits", {"index", "name", "temperature.gpu", "memory.used",
                                                            "memory.total", "utilization.gpu", "power.draw"});
  ASSERT_EQ(output.gpus.size(), 3U);
  EXPECT_EQ(output.gpus[0].name, "NVIDIA GeForce RTX 3050 Ti Laptop GPU");
  EXPECT_EQ(output.gpus[0].memory_used, mebibytes(12));
  EXPECT_THAT(output.gpus[0].gpu_percent, Optional(DoubleEq(26.3)));
  EXPECT_EQ(output.gpus[1].gpu_percent, std::nullopt);
  EXPECT_THAT(output.gpus[1].power_watts, Optional(DoubleEq(36.79)));
  EXPECT_EQ(output.gpus[2].memory_total, mebibytes(23028));
}

TEST_F(SmiSamples, TreatsAllPlaceholdersAsAbsent) {
  const std::string section = "[Not Supported] / N/A";
  const auto one = [&](std::string_view line, const std::vector<std::string>& columns) {
    const SmiOutput output = read_nvidia_smi(line_of(section, line), columns);
    EXPECT_EQ(output.gpus.size(), 1U) << line;
    return output.gpus.empty() ? GpuSample{} : output.gpus[0];
  };
  GpuSample gpu = one("GPU-50205d95", {"uuid", "utilization.gpu", "memory.used"});
  EXPECT_EQ(gpu.uuid, "GPU-50205d95-57b6-f541-2bcb-86c09afed564");
  EXPECT_EQ(gpu.gpu_percent, std::nullopt);
  EXPECT_EQ(gpu.memory_used, std::nullopt);
  gpu = one("TITAN X",
            {"index", "uuid", "name", "temperature.gpu", "utilization.gpu", "memory.used", "memory.total"});
  EXPECT_EQ(gpu.index, 2);
  EXPECT_EQ(gpu.name, "GeForce GTX TITAN X");
  EXPECT_EQ(gpu.gpu_percent, std::nullopt);
  EXPECT_EQ(gpu.memory_used, mebibytes(8520));
  EXPECT_EQ(gpu.memory_total, mebibytes(12287));
  const std::vector<std::string> memory{"name", "memory.total", "memory.used", "memory.free",
                                        "driver_version"};
  expect_no_memory(one("Thor, Not Supported", memory));
  expect_no_memory(one("Thor, [N/A]", memory));
  gpu = one("NVIDIA A2", {"name", "memory.total", "mig.mode.current"});
  EXPECT_EQ(gpu.memory_total, mebibytes(15356));
  EXPECT_EQ(gpu.mig_enabled, std::nullopt);
  gpu = one("with comma", {"name", "memory.total", "memory.free"});
  EXPECT_EQ(gpu.name, "Quadro, with comma");
  EXPECT_EQ(gpu.memory_total, mebibytes(8192));
  EXPECT_EQ(gpu.memory_free, mebibytes(8000));

  const SmiOutput whole = read(section);
  EXPECT_TRUE(whole.gpus.empty());  // without column names nothing is read
  EXPECT_THAT(whole.messages,
              ElementsAre("WARNING: something", "No devices were found",
                          HasSubstr("communicate with the NVIDIA driver"),
                          HasSubstr("has fallen off the bus"), HasSubstr("Permission denied")));
}

TEST_F(SmiSamples, ReadsALogWithTimes) {
  const SmiOutput output = read("timestamped log");
  ASSERT_EQ(output.gpus.size(), 1U);
  EXPECT_EQ(output.gpus[0].index, 0);
  EXPECT_THAT(output.gpus[0].memory_percent, Optional(DoubleEq(2)));
  EXPECT_EQ(output.gpus[0].power_watts, std::nullopt);
  EXPECT_THAT(output.gpus[0].sm_clock_hz, Optional(DoubleEq(210e6)));
}

TEST_F(SmiSamples, ReadsMigInstancesOfTheList) {
  const SmiOutput output = read("MIG list");
  ASSERT_EQ(output.gpus.size(), 1U);
  EXPECT_EQ(output.gpus[0].name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(output.gpus[0].uuid, "GPU-c08d91cb-e324-655c-71ba-7570956445bc");
  ASSERT_EQ(output.gpus[0].mig_instances.size(), 2U);
  EXPECT_EQ(output.gpus[0].mig_instances[1].index, 3);
  EXPECT_EQ(output.gpus[0].mig_instances[1].name, "MIG 1g.10gb");
  EXPECT_EQ(output.gpus[0].mig_instances[1].uuid, "MIG-b4b2228d-6933-5839-bc0e-41ab9edb61c6");
}

TEST_F(SmiSamples, IgnoresOutputOfOtherTools) {
  for (const char* section : {"NVML under MIG", "raw NVML on GB10"}) {
    const SmiOutput output = read(section);
    EXPECT_TRUE(output.gpus.empty()) << section;
    EXPECT_EQ(output.unparsed_lines, 2) << section;
  }
}

TEST_F(SmiSamples, IgnoresTheTableOfMigProfiles) {
  const SmiOutput output = read("MIG profile table");
  EXPECT_TRUE(output.gpus.empty());
  EXPECT_EQ(output.processes, std::nullopt);
}

// A new sample in the data needs a test here.
TEST_F(SmiSamples, EverySampleHasATest) {
  for (const auto& [title, text] : sections())
    EXPECT_EQ(std::count_if(kSamples.begin(), kSamples.end(),
                            [&, &name = title](std::string_view known) { return begins_with(name, known); }),
              1)
        << title;
}

}  // namespace
}  // namespace headroom::sources
