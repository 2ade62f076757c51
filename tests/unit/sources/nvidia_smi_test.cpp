#include "sources/nvidia_smi_reader.h"

#include "support/test_support.h"

namespace headroom::sources {
namespace {
using testing::DoubleEq;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

// The layout until R440: two lines per GPU, processes without instances.
constexpr const char* kOldTable = R"(
Sat Aug  7 15:20:49 2021
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 440.33.01    Driver Version: 440.33.01    CUDA Version: 10.2     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla V100-SXM2...  Off  | 00000000:21:01.0 Off |                    0 |
| N/A   57C    P0   231W / 300W |  12427MiB / 16160MiB |     99%      Default |
+-------------------------------+----------------------+----------------------+
|   1  GeForce GTX 1080    On   | 00000000:22:01.0  On |                  N/A |
| 27%  ERR!    P8   N/A / 180W  |      2MiB /  8119MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|    0      9980      C   python train.py --big                       6197MiB |
|    0     10121    C+G   ...                                         6221MiB |
|    1      4711      G   /usr/bin/X                                      N/A |
+-----------------------------------------------------------------------------+
)";

TEST(NvidiaSmi, ReadsTheTableUntilR440) {
  const SmiOutput output = read_nvidia_smi(kOldTable);
  EXPECT_EQ(output.driver_version, "440.33.01");
  ASSERT_EQ(output.gpus.size(), 2U);
  const GpuSample& first = output.gpus[0];
  EXPECT_EQ(first.index, 0);
  EXPECT_EQ(first.name, "Tesla V100-SXM2...");
  EXPECT_EQ(first.pci_bus_id, "00000000:21:01.0");
  EXPECT_THAT(first.temperature_celsius, Optional(DoubleEq(57)));
  EXPECT_THAT(first.power_watts, Optional(DoubleEq(231)));
  EXPECT_THAT(first.power_limit_watts, Optional(DoubleEq(300)));
  EXPECT_EQ(first.memory_used, mebibytes(12427));
  EXPECT_EQ(first.memory_total, mebibytes(16160));
  EXPECT_THAT(first.gpu_percent, Optional(DoubleEq(99)));
  EXPECT_EQ(first.mig_enabled, std::nullopt);
  const GpuSample& second = output.gpus[1];
  EXPECT_EQ(second.temperature_celsius, std::nullopt);  // ERR!
  EXPECT_EQ(second.power_watts, std::nullopt);
  EXPECT_THAT(second.power_limit_watts, Optional(DoubleEq(180)));
  ASSERT_TRUE(output.processes);
  ASSERT_EQ(output.processes->size(), 3U);
  EXPECT_EQ((*output.processes)[0].process.used, mebibytes(6197));
  EXPECT_EQ((*output.processes)[2].gpu, 1);
  EXPECT_EQ((*output.processes)[2].process, (GpuProcess{4711, std::nullopt, {}, {}}));
}

// Since R450: a third line for MIG, and tables of instances and their processes.
constexpr const char* kMigTable = R"(
| NVIDIA-SMI 535.54.03              Driver Version: 535.54.03    CUDA Version: 12.2     |
|   0  NVIDIA A100-SXM4-40GB          On  | 00000000:0F:00.0 Off |                   On |
| N/A   28C    P0              60W / 400W |     45MiB / 40960MiB |     N/A      Default |
|                                         |                      |              Enabled |
+-----------------------------------------+----------------------+----------------------+
|   1  NVIDIA A100-SXM4-40GB          On  | 00000000:47:00.0 Off |                    0 |
| N/A   29C    P0              53W / 400W |      4MiB / 40960MiB |      0%      Default |
|                                         |                      |             Disabled |
+---------------------------------------------------------------------------------------+
| MIG devices:                                                                          |
+------------------+--------------------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |                   Memory-Usage |        Vol|      Shared           |
|      ID  ID  Dev |                     BAR1-Usage | SM     Unc| CE ENC DEC OFA JPG    |
|                  |                                |        ECC|                       |
|==================+================================+===========+=======================|
|  0    1   0   0  |              22MiB / 20096MiB  | 42      0 |  3   0    2    0    0 |
|                  |               0MiB / 32767MiB  |           |                       |
+------------------+--------------------------------+-----------+-----------------------+
|  0    7   0   1  |              12MiB /  4864MiB  | 14      0 |  1   0    0    0    0 |
|                  |               0MiB /  8191MiB  |           |                       |
+------------------+--------------------------------+-----------+-----------------------+
| Processes:                                                                            |
|  GPU   GI   CI        PID   Type   Process name                            GPU Memory |
|        ID   ID                                                             Usage      |
|=======================================================================================|
|    0    1    0    1234567      C   python                                      1234MiB |
+---------------------------------------------------------------------------------------+
)";

TEST(NvidiaSmi, ReadsTheTableOfMig) {
  const SmiOutput output = read_nvidia_smi(kMigTable);
  ASSERT_EQ(output.gpus.size(), 2U);
  const GpuSample& gpu = output.gpus[0];
  EXPECT_EQ(gpu.mig_enabled, true);
  EXPECT_EQ(gpu.gpu_percent, std::nullopt);
  ASSERT_EQ(gpu.mig_instances.size(), 2U);
  EXPECT_EQ(gpu.mig_instances[0], (MigInstance{0, "", "", 1, 0, mebibytes(20096), mebibytes(22), {}, {}}));
  EXPECT_EQ(gpu.mig_instances[1].gpu_instance, 7);
  EXPECT_EQ(gpu.mig_instances[1].memory_total, mebibytes(4864));
  EXPECT_EQ(output.gpus[1].mig_enabled, false);
  EXPECT_THAT(output.gpus[1].mig_instances, IsEmpty());
  ASSERT_TRUE(output.processes);
  ASSERT_EQ(output.processes->size(), 1U);
  EXPECT_EQ(output.processes->front().process, (GpuProcess{1234567, mebibytes(1234), 1, 0}));
}

TEST(NvidiaSmi, ReadsProcessesInCsv) {
  const SmiOutput output = read_nvidia_smi(
      "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"
      "GPU-1, 100, python a, b.py, 512 MiB\n"
      "GPU-1, 101, /bin/x, [N/A]\n"
      "GPU-1, soon, /bin/x, 5 MiB\n");
  ASSERT_TRUE(output.processes);
  ASSERT_EQ(output.processes->size(), 2U);
  EXPECT_EQ((*output.processes)[0].gpu_uuid, "GPU-1");
  EXPECT_EQ((*output.processes)[0].process.used, mebibytes(512));
  EXPECT_EQ((*output.processes)[1].process, (GpuProcess{101, std::nullopt, {}, {}}));
  EXPECT_EQ(output.unparsed_lines, 1);
  EXPECT_TRUE(output.gpus.empty());
  EXPECT_THAT(read_nvidia_smi("pid, used_memory [MiB]\n").processes, Optional(IsEmpty()));
  EXPECT_EQ(read_nvidia_smi("index, memory.used [MiB]\n0, 5 MiB\n").processes, std::nullopt);
}

TEST(NvidiaSmi, IgnoresProcessRowsWithoutPids) {
  for (const char* text : {"process_name, used_gpu_memory [MiB]\npython, 512 MiB\n/bin/x, [N/A]\n",
                           "gpu_uuid, used_memory [MiB]\nGPU-1, 512 MiB\nGPU-1, 5 MiB\n",
                           "gpu_uuid, process_name\nGPU-1, python\n"}) {
    const SmiOutput output = read_nvidia_smi(text);
    EXPECT_THAT(output.gpus, IsEmpty()) << text;
    EXPECT_EQ(output.processes, std::nullopt) << text;
    EXPECT_EQ(output.unparsed_lines, 0) << text;
  }
}

TEST(NvidiaSmi, ProcessMemoryWithoutUnitIsInMebibytes) {
  for (const char* name : {"used_memory", "used_gpu_memory"}) {
    const SmiOutput with_header = read_nvidia_smi("pid, " + std::string(name) + "\n7, 512\n");
    const SmiOutput without = read_nvidia_smi("7, 512\n", {"pid", name});
    for (const SmiOutput& output : {with_header, without}) {
      ASSERT_TRUE(output.processes && output.processes->size() == 1) << name;
      EXPECT_EQ(output.processes->front().process.used, mebibytes(512)) << name;
    }
  }
}

TEST(NvidiaSmi, MarksALostGpuInATable) {
  const SmiOutput output = read_nvidia_smi(
      "|   0  GeForce GTX 1080    ERR! | 00000000:21:01.0 ERR! |                 ERR! |\n"
      "| ERR!  ERR!  ERR!  ERR! / ERR! |          GPU is lost  |     ERR!        ERR! |\n"
      "+-------------------------------+----------------------+----------------------+\n"
      "|   1  GeForce GTX 1080     Off | 00000000:22:01.0  On |   GPU requires reset |\n"
      "| 27%   41C    P8    9W / 180W  |      2MiB /  8119MiB |      0%      Default |\n"
      "+-------------------------------+----------------------+----------------------+\n"
      "|   2  GeForce GTX 1080    ERR! | ERR!            ERR! |                  N/A |\n"
      "| 27%   42C    P8    9W / 180W  |      3MiB /  8119MiB |      0%      Default |\n");
  ASSERT_EQ(output.gpus.size(), 3U);
  EXPECT_TRUE(output.gpus[0].lost);
  EXPECT_EQ(output.gpus[0].name, "GeForce GTX 1080");
  EXPECT_EQ(output.gpus[0].memory_used, std::nullopt);
  EXPECT_TRUE(output.gpus[1].lost);
  EXPECT_FALSE(output.gpus[2].lost);
  EXPECT_EQ(output.gpus[2].pci_bus_id, "");
  EXPECT_EQ(output.gpus[2].memory_used, mebibytes(3));
}

TEST(NvidiaSmi, MarksALostGpu) {
  const SmiOutput output = read_nvidia_smi("[GPU is lost], 41\n30, 42\n", {"memory.used", "temperature.gpu"});
  ASSERT_EQ(output.gpus.size(), 2U);
  EXPECT_TRUE(output.gpus[0].lost);
  EXPECT_EQ(output.gpus[0].memory_used, std::nullopt);
  EXPECT_FALSE(output.gpus[1].lost);
}

TEST(NvidiaSmi, ReadsClockReasons) {
  const SmiOutput output = read_nvidia_smi(
      "index, clocks_event_reasons.active\n0, 0x0000000000000004\n1, 0x0000000000000001\n2, 4\n");
  ASSERT_EQ(output.gpus.size(), 2U);
  EXPECT_EQ(output.gpus[0].throttled, true);
  EXPECT_THAT(output.gpus[0].throttle_reasons, ElementsAre("software power cap"));
  EXPECT_EQ(output.gpus[1].throttled, false);
  EXPECT_THAT(output.gpus[1].clock_limits, ElementsAre("idle"));
  EXPECT_EQ(output.unparsed_lines, 1);
}

TEST(NvidiaSmi, RejectsRowsWithAWordInsteadOfANumber) {
  const std::vector<std::string> columns{"index", "memory.used"};
  for (const char* line : {"0, lots", "0, 5 parsecs", "0, -5", "0, inf", "0, nan", "0, 1e999", "0", "x, 5",
                           "0, 5, 6", "0, 99999999999999999999999"}) {
    const SmiOutput output = read_nvidia_smi(line, columns);
    EXPECT_TRUE(output.gpus.empty()) << line;
    EXPECT_EQ(output.unparsed_lines, 1) << line;
  }
}

// A figure must have its column's quantity, whether the unit is in the row, in the header, or missing.
TEST(NvidiaSmi, RejectsRowsWithAWrongUnit) {
  for (const char* text : {"index, memory.used [MiB]\n0, 97 %\n", "index, memory.used [MiB]\n0, 97 W\n",
                           "index, memory.used [MiB]\n0, 97 MHz\n", "index, memory.used [%]\n0, 97\n",
                           "index, utilization.gpu [%]\n0, 97 MiB\n", "index, power.draw [W]\n0, 97 C\n",
                           "index, temperature.gpu\n0, 97 W\n", "pid, used_gpu_memory [MiB]\n7, 97 %\n"}) {
    const SmiOutput output = read_nvidia_smi(text);
    EXPECT_THAT(output.gpus, IsEmpty()) << text;
    EXPECT_THAT(output.processes.value_or(std::vector<SmiProcess>{}), IsEmpty()) << text;
    EXPECT_EQ(output.unparsed_lines, 1) << text;
  }
}

TEST(NvidiaSmi, ConvertsUnitsOfTheSameQuantity) {
  const SmiOutput output = read_nvidia_smi(
      "index, memory.used [MiB], memory.total [GiB], power.draw [W], temperature.gpu\n"
      "0, 97, 2, 1500 mW, 35 C\n"
      "1, 5 KiB, 2 GiB, 15, 35\n");
  ASSERT_EQ(output.gpus.size(), 2U);
  EXPECT_EQ(output.gpus[0].memory_used, mebibytes(97));
  EXPECT_EQ(output.gpus[0].memory_total, mebibytes(2048));
  EXPECT_THAT(output.gpus[0].power_watts, Optional(DoubleEq(1.5)));
  EXPECT_EQ(output.gpus[1].memory_used, kibibytes(5));
  EXPECT_THAT(output.gpus[1].power_watts, Optional(DoubleEq(15)));
  EXPECT_THAT(output.gpus[1].temperature_celsius, Optional(DoubleEq(35)));
}

// A name may contain a comma, but a separate figure belongs to an unnamed column.
TEST(NvidiaSmi, DoesNotMergeUnnamedColumnsIntoAName) {
  const std::vector<std::string> columns{"name", "memory.used"};
  for (const char* line : {"NVIDIA Thor, [N/A], [N/A], 97 %", "NVIDIA Thor, 5, 97",
                           "NVIDIA Thor, 5 MiB, 97 MiB", "NVIDIA Thor"}) {
    const SmiOutput output = read_nvidia_smi(line, columns);
    EXPECT_THAT(output.gpus, IsEmpty()) << line;
    EXPECT_EQ(output.unparsed_lines, 1) << line;
  }
  const SmiOutput output = read_nvidia_smi("Quadro, with comma, 97", columns);
  ASSERT_EQ(output.gpus.size(), 1U);
  EXPECT_EQ(output.gpus[0].name, "Quadro, with comma");
  EXPECT_EQ(output.gpus[0].memory_used, mebibytes(97));
}

TEST(NvidiaSmi, AcceptsCapitalsInHeaders) {
  const SmiOutput output = read_nvidia_smi(
      "index, encoder.stats.sessionCount, pci.baseClass, memory.used [MiB]\n0, 0, 0x3, 97 MiB\n");
  ASSERT_EQ(output.gpus.size(), 1U);
  EXPECT_EQ(output.gpus[0].memory_used, mebibytes(97));
}

TEST(NvidiaSmi, KnowsColumnNames) {
  for (const char* name : {"timestamp", "index", "memory.used", "gpu_name", "fan.speed", "clocks.max.sm",
                           "pid", "used_gpu_memory", "clocks_throttle_reasons.active", "ecc.mode.current",
                           "encoder.stats.averageFps", "pcie.link.gen.max"})
    EXPECT_TRUE(is_nvidia_smi_column(name)) << name;
  for (const char* name : {"", "foo", "memory.usd", "memory", "memory.used [MiB]", "ecc", "INDEX"})
    EXPECT_FALSE(is_nvidia_smi_column(name)) << name;
  EXPECT_EQ(closest_nvidia_smi_column("memory.usd"), "memory.used");
  EXPECT_EQ(closest_nvidia_smi_column("memory.used [MiB]"), "memory.used");
  EXPECT_EQ(closest_nvidia_smi_column("utilisation.gpu"), "utilization.gpu");
  EXPECT_EQ(closest_nvidia_smi_column("something_else"), "");
}

TEST(NvidiaSmi, EmptyTextGivesEmptyOutput) {
  for (const char* text : {"", "\n\n", "|", "||||", "+--+", "|   0  |", "| 0 1 2 3 |"}) {
    const SmiOutput output = read_nvidia_smi(text);
    EXPECT_TRUE(output.gpus.empty()) << text;
    EXPECT_EQ(output.processes, std::nullopt) << text;
    EXPECT_TRUE(output.messages.empty()) << text;
  }
}

}  // namespace
}  // namespace headroom::sources
