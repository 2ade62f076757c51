// Output of nvidia-smi as samples: CSV, tables and lists, also the real output in the shared test data.

#include "base/text.h"
#include "sources_test_support.h"

namespace headroom::sources {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;

std::vector<SystemSample> samples_of(std::string_view text, const std::vector<std::string>& columns = {}) {
  return text_samples("nvidia-smi", text, columns);
}

// The GPUs of all samples.
std::vector<GpuSample> gpus_of(std::string_view text, const std::vector<std::string>& columns = {}) {
  std::vector<GpuSample> gpus;
  for (const SystemSample& sample : samples_of(text, columns))
    gpus.insert(gpus.end(), sample.gpus.begin(), sample.gpus.end());
  return gpus;
}

std::vector<std::string> figures_in(std::string_view text, const std::vector<std::string>& columns = {}) {
  std::vector<std::string> figures;
  for (const GpuSample& gpu : gpus_of(text, columns)) figures.push_back(figures_of(gpu));
  return figures;
}

std::size_t unknown_in(std::string_view text, const std::vector<std::string>& columns = {}) {
  std::size_t unknown = 0;
  for (const SystemSample& sample : samples_of(text, columns)) unknown += sample.unknown_tokens.size();
  return unknown;
}

// The text of the section of the shared data whose title begins with this; empty without the data.
std::string section(const std::string& beginning) {
  const auto file = test::shared_data("nvidia_smi/samples.txt");
  if (!file) return {};
  std::string section;
  bool is_in_it = false;
  const std::string text = test::read_text(*file);
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with("== "))
      is_in_it = line.substr(line.find("] ") + 2).starts_with(beginning);
    else if (is_in_it)
      section += std::string(line) + "\n";
  }
  EXPECT_FALSE(section.empty()) << beginning;
  return section;
}

TEST(NvidiaSmi, ReadsRealOutput) {
  if (!test::shared_data("nvidia_smi/samples.txt"))
    GTEST_SKIP() << test::absent_message("nvidia_smi/samples.txt");
  const std::vector<std::string> telemetry{"name", "memory.total", "memory.used", "utilization.gpu",
                                           "power.draw"};
  const std::vector<std::string> beszel{
      "index", "name", "temperature.gpu", "memory.used", "memory.total", "utilization.gpu", "power.draw"};
  const std::vector<std::string> without_power(telemetry.begin(), telemetry.end() - 1);
  const struct {
    const char* section;
    std::vector<std::string> columns, gpus;
    std::size_t unknown = 0;
  } cases[] = {
      {"Orin JP6.x table", {}, {"0 name=Orin (nvgpu)"}},
      {"Jetson AGX Thor JP7.0", {}, {"0 name=NVIDIA Thor bus=00000000:01:00.0 gpu%=0 mig=false"}},
      {"Jetson AGX Thor JP7.2",
       {},
       {"0 name=NVIDIA Thor bus=00000000:01:00.0 gpu%=0 watts=1 celsius=35 mig=false"}},
      // The line with the typed command is unknown.
      {"DGX Spark GB10 CSV (driver", {}, {"0 gpu%=0 watts=11.17 celsius=35"}, 1},
      {"DGX Spark GB10 CSV | ", {}, {"0"}},
      {"Jetson Orin telemetry CSV row", telemetry, {"0 name=Orin (nvgpu)"}},
      {"Thor row, util works", without_power, {"0 name=NVIDIA Thor gpu%=97"}},
      // Each header replaces the one before, and begins another sample.
      {"L4, T4, laptop",
       {},
       {"0 name=NVIDIA L4 total=23034MiB used=21094MiB gpu%=0 celsius=46", "1 total=15GiB used=7462MiB",
        "2 name=NVIDIA GeForce RTX 4060 Laptop GPU gpu%=0 memory%=0 graphics=210000000 memory=405000000 "
        "watts=1.81 celsius=49",
        "1 total=8188MiB used=71MiB free=7887MiB", "1 total=32607MiB used=31104MiB gpu%=0"}},
      // Three cells, but a header with four.
      {"2x 80GB server", {}, {"0 total=80GiB used=0B gpu%=0", "1 total=80GiB used=0B gpu%=0"}, 2},
      {"Telegraf thread 2017", {}, {"0 gpu%=0 watts=11.04 celsius=34"}},
      {"beszel noheader,nounits",
       beszel,
       {"0 name=NVIDIA GeForce RTX 3050 Ti Laptop GPU total=4GiB used=12MiB gpu%=26.3 watts=12.73 celsius=48",
        "1 name=NVIDIA A100-PCIE-40GB total=40GiB used=74MiB watts=36.79 celsius=38",
        "0 name=NVIDIA A10 total=23028MiB used=19676MiB gpu%=0 watts=58.98 celsius=45"}},
      {"timestamped log",
       {},
       {"0 used=100MiB free=200MiB gpu%=1 memory%=2 sm=210000000 memory=405000000 celsius=50"}},
      {"MIG list",
       {},
       {"0 name=NVIDIA H100 80GB HBM3 uuid=GPU-c08d91cb-e324-655c-71ba-7570956445bc mig=true "
        "[0 MIG 1c.3g.40gb MIG-c788539f-c1ea-5a36-8b4d-9b07d024b1bb] "
        "[3 MIG 1g.10gb MIG-b4b2228d-6933-5839-bc0e-41ab9edb61c6]"}},
      {"MIG profile table", {}, {}},
      {"NVML under MIG", {}, {}, 2},
      {"raw NVML on GB10", {}, {}, 2},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(each.section);
    EXPECT_EQ(figures_in(section(each.section), each.columns), each.gpus);
    EXPECT_EQ(unknown_in(section(each.section), each.columns), each.unknown);
  }
  // A log that ends in process rows.
  const auto samples = samples_of(section("Jetson AGX Thor JP7.2") + section("Thor R38.4 process rows"));
  ASSERT_EQ(samples.size(), 1U);
  EXPECT_THAT(samples[0].gpus[0].processes, Optional(ElementsAre(GpuProcess{3507, Bytes{}, {}, {}})));
}

TEST(NvidiaSmi, TreatsAllPlaceholdersAsAbsent) {
  const std::vector<std::string> memory{"name", "memory.total", "memory.used", "memory.free",
                                        "driver_version"};
  const struct {
    const char* line;
    std::vector<std::string> columns;
    std::string gpu;
  } cases[] = {
      {"GPU-5, [Not Supported], [Not Supported]", {"uuid", "utilization.gpu", "memory.used"}, "0 uuid=GPU-5"},
      {"NVIDIA Thor, Not Supported, Not Supported, Not Supported, 580.00", memory, "0 name=NVIDIA Thor"},
      {"NVIDIA Thor, [N/A], [N/A], [N/A], 580.00", memory, "0 name=NVIDIA Thor"},
      {"NVIDIA A2, 15356, [N/A]",
       {"name", "memory.total", "mig.mode.current"},
       "0 name=NVIDIA A2 total=15356MiB"},
      {"Quadro, with comma, 8192, 8000",
       {"name", "memory.total", "memory.free"},
       "0 name=Quadro, with comma total=8GiB free=8000MiB"},
      {"[GPU is lost], 41", {"memory.used", "temperature.gpu"}, "0 lost celsius=41"},
  };
  for (const auto& each : cases)
    EXPECT_THAT(figures_in(each.line, each.columns), ElementsAre(each.gpu)) << each.line;
}

// The layout until R440: two lines per GPU, processes without instances. Then GPUs that are lost.
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
|   2  GeForce GTX 1080    ERR! | 00000000:23:01.0 ERR! |                 ERR! |
| ERR!  ERR!  ERR!  ERR! / ERR! |          GPU is lost  |     ERR!        ERR! |
+-------------------------------+----------------------+----------------------+
|   3  GeForce GTX 1080     Off | ERR!            ERR! |   GPU requires reset |
| 27%   41C    P8    9W / 180W  |      3MiB /  8119MiB |      0%      Default |

| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|    0      9980      C   python train.py --big                       6197MiB |
|    0     10121    C+G   ...                                         6221MiB |
|    1      4711      G   /usr/bin/X                                      N/A |
+-----------------------------------------------------------------------------+
)";

TEST(NvidiaSmi, ReadsTheTableUntilR440) {
  EXPECT_THAT(
      figures_in(kOldTable),
      ElementsAre(
          "0 name=Tesla V100-SXM2... bus=00000000:21:01.0 total=16160MiB used=12427MiB gpu%=99 "
          "watts=231 most_watts=300 celsius=57 processes 9980:6197MiB 10121:6221MiB",
          "1 name=GeForce GTX 1080 bus=00000000:22:01.0 total=8119MiB used=2MiB gpu%=0 "
          "most_watts=180 processes 4711:",
          "2 name=GeForce GTX 1080 bus=00000000:23:01.0 lost",
          testing::AllOf(testing::StartsWith("3 name=GeForce GTX 1080 lost "), HasSubstr(" used=3MiB "))));
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
| GPU  GI  CI  MIG |                   Memory-Usage |        Vol|      Shared           |
|  0    1   0   0  |              22MiB / 20096MiB  | 42      0 |  3   0    2    0    0 |
|                  |               0MiB / 32767MiB  |           |                       |
|  0    7   0   1  |              12MiB /  4864MiB  | 14      0 |  1   0    0    0    0 |
|    0    1    0    1234567      C   python                                      1234MiB |
)";

TEST(NvidiaSmi, ReadsTheTableOfMig) {
  // The second table begins another sample, also if the first one was cut off.
  const auto samples =
      samples_of("|   0  NVIDIA A100 On  | 00000000:0F:00.0 Off |      On |" + std::string(kMigTable));
  ASSERT_EQ(samples.size(), 2U);
  ASSERT_EQ(samples[1].gpus.size(), 2U);
  const GpuSample& gpu = samples[1].gpus[0];
  EXPECT_EQ(gpu.mig_enabled, true);
  EXPECT_EQ(gpu.gpu_percent, std::nullopt);
  EXPECT_THAT(gpu.mig_instances,
              ElementsAre(MigInstance{0, "", "", 1, 0, mebibytes(20096), mebibytes(22), {}, {}},
                          MigInstance{1, "", "", 7, 0, mebibytes(4864), mebibytes(12), {}, {}}));
  EXPECT_THAT(gpu.processes, Optional(ElementsAre(GpuProcess{1234567, mebibytes(1234), 1, 0})));
  EXPECT_EQ(samples[1].gpus[1].mig_enabled, false);
  EXPECT_THAT(samples[1].gpus[1].mig_instances, IsEmpty());
}

TEST(NvidiaSmi, ReadsClockReasons) {
  const auto gpus =
      gpus_of("index, clocks_event_reasons.active\n0, 0x0000000000000004\n1, 0x0000000000000001\n2, 4\n");
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[0].throttled, true);
  EXPECT_THAT(gpus[0].throttle_reasons, ElementsAre("software power cap"));
  EXPECT_EQ(gpus[1].throttled, false);
  EXPECT_THAT(gpus[1].clock_limits, ElementsAre("idle"));
}

// A figure must have its column's quantity, whether the unit is in the row, in the header, or missing. A name
// may contain a comma, but a separate figure belongs to an unnamed column.
TEST(NvidiaSmi, RejectsRowsThatDoNotFitTheirColumns) {
  const std::vector<std::string> plain{"index", "memory.used"}, named{"name", "memory.used"};
  const struct {
    const char* text;
    std::vector<std::string> columns;
  } cases[] = {{"0, lots", plain},
               {"0, 5 parsecs", plain},
               {"0, -5", plain},
               {"0, nan", plain},
               {"0, 1e999", plain},
               {"0", plain},
               {"x, 5", plain},
               {"0, 5, 6", plain},
               {"0, 99999999999999999999999", plain},
               {"NVIDIA Thor, [N/A], [N/A], 97 %", named},
               {"NVIDIA Thor, 5, 97", named},
               {"NVIDIA Thor", named},
               {"index, memory.used [MiB]\n0, 97 %\n", {}},
               {"index, memory.used [%]\n0, 97\n", {}},
               {"index, utilization.gpu [%]\n0, 97 MiB\n", {}},
               {"index, power.draw [W]\n0, 97 C\n", {}},
               {"index, temperature.gpu\n0, 97 W\n", {}},
               {"pid, used_gpu_memory [MiB]\n7, 97 %\n", {}}};
  for (const auto& each : cases) {
    EXPECT_THAT(gpus_of(each.text, each.columns), IsEmpty()) << each.text;
    EXPECT_EQ(unknown_in(each.text, each.columns), 1U) << each.text;
  }
}

TEST(NvidiaSmi, ConvertsUnitsOfTheSameQuantity) {
  EXPECT_THAT(
      figures_in("index, encoder.stats.sessionCount, memory.used [MiB], memory.total [GiB], power.draw [W]\n"
                 "0, 0, 97, 2, 1500 mW\n"
                 "1, 0, 5 KiB, 2 GiB, 15\n"),
      ElementsAre("0 total=2GiB used=97MiB watts=1.5", "1 total=2GiB used=5KiB watts=15"));
}

TEST(NvidiaSmi, KnowsColumnNames) {
  for (const char* name : {"timestamp", "index", "memory.used", "gpu_name", "pid",
                           "clocks_throttle_reasons.active", "ecc.mode.current", "pcie.link.gen.max"})
    EXPECT_TRUE(is_nvidia_smi_column(name)) << name;
  for (const char* name : {"", "foo", "memory.usd", "memory", "memory.used [MiB]", "ecc", "INDEX"})
    EXPECT_FALSE(is_nvidia_smi_column(name)) << name;
  EXPECT_EQ(closest_nvidia_smi_column("memory.used [MiB]"), "memory.used");
  EXPECT_EQ(closest_nvidia_smi_column("utilisation.gpu"), "utilization.gpu");
  EXPECT_EQ(closest_nvidia_smi_column("something_else"), "");
}

TEST(NvidiaSmi, GroupsRowsIntoOneSampleUntilAGpuRepeats) {
  const std::string rows =
      "2026/08/10 00:00:00.000, 0, 100 MiB, 5 %\n"
      "2026/08/10 00:00:00.010, 1, 200 MiB, 9 %\n"
      "2026/08/10 00:00:01.000, 0, 101 MiB, [N/A]\n";
  const std::vector<std::string> columns{"timestamp", "index", "memory.used", "utilization.gpu"};
  for (const auto& samples : {samples_of("timestamp, index, memory.used [MiB], utilization.gpu [%]\n" + rows),
                              samples_of(rows, columns)}) {
    ASSERT_EQ(samples.size(), 2U);
    ASSERT_EQ(samples[0].gpus.size(), 2U);
    EXPECT_EQ(samples[0].clock_text, "2026/08/10 00:00:00.000");
    EXPECT_EQ(samples[0].gpu_percent, 9);
    EXPECT_EQ(samples[0].gpus[1].memory_used, mebibytes(200));
    EXPECT_EQ(samples[1].clock_text, "2026/08/10 00:00:01.000");
    EXPECT_EQ(samples[1].gpu_percent, std::nullopt);
  }
}

// In order of appearance. A GPU without any name is number 0, so that its figures always have the same names.
TEST(NvidiaSmi, NumbersGpusWithoutIndex) {
  for (const char* column : {"uuid", "pci.bus_id", "name"}) {
    const auto samples = samples_of(std::string(column) +
                                    ", memory.used [MiB]\nfirst, 100 MiB\nsecond, 200 MiB\n"
                                    "first, 101 MiB\nsecond, 201 MiB\n");
    ASSERT_EQ(samples.size(), 2U) << column;
    for (const SystemSample& sample : samples) {
      ASSERT_EQ(sample.gpus.size(), 2U) << column;
      EXPECT_EQ(sample.gpus[0].index, 0) << column;
      EXPECT_EQ(sample.gpus[1].index, 1) << column;
    }
    EXPECT_EQ(samples[1].gpus[1].memory_used, mebibytes(201)) << column;
  }
  for (const GpuSample& gpu : gpus_of("temperature.gpu, power.draw [W]\n35, 11.17 W\n36, 12 W\n"))
    EXPECT_EQ(gpu.index, 0);
}

TEST(NvidiaSmi, ProcessQueryBelongsToTheGpusBeforeIt) {
  const std::string gpus = "timestamp, uuid, memory.used [MiB]\n2026/08/10 00:00:00.000, GPU-1, 100 MiB\n";
  auto samples =
      samples_of(gpus +
                 "gpu_uuid, pid, process_name, used_memory [MiB]\n"
                 "GPU-1, 7, python a, b.py, 90\nGPU-1, 8, /bin/x, [N/A]\nGPU-1, soon, /bin/x, 5 MiB\n");
  ASSERT_EQ(samples.size(), 1U);
  ASSERT_EQ(samples[0].gpus.size(), 1U);
  EXPECT_THAT(samples[0].gpus[0].processes, Optional(ElementsAre(GpuProcess{7, mebibytes(90), {}, {}},
                                                                 GpuProcess{8, std::nullopt, {}, {}})));
  EXPECT_THAT(samples[0].unknown_tokens, ElementsAre("GPU-1, soon, /bin/x, 5 MiB"));
  // Without a pid there is no process, no GPU and no separate sample.
  samples = samples_of(gpus + "process_name, used_memory [MiB]\npython, 90 MiB\npython, 80 MiB\n" + gpus);
  ASSERT_EQ(samples.size(), 2U);
  for (const SystemSample& sample : samples) {
    EXPECT_EQ(sample.gpus.size(), 1U);
    EXPECT_EQ(sample.clock_text, "2026/08/10 00:00:00.000");
    EXPECT_THAT(sample.unknown_tokens, IsEmpty());
  }
  // Without GPUs the processes belong to no sample, however many they are.
  std::string endless = "gpu_uuid, pid, used_memory [MiB]\n";
  for (int i = 0; i < 10000; ++i) endless += "GPU-1, 7, 90 MiB\n";
  const auto found = gpus_of(endless + "uuid, memory.used [MiB]\nGPU-1, 100 MiB\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].processes, std::nullopt);
}

}  // namespace
}  // namespace headroom::sources
