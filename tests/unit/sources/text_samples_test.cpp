#include "sources/text_samples.h"

#include "base/text.h"
#include "support/test_support.h"

namespace headroom::sources {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<SystemSample> samples_of(std::string_view kind, std::string_view text,
                                     const std::vector<std::string>& columns = {}) {
  std::vector<SystemSample> samples;
  const auto keep = [&](SystemSample& sample) { samples.push_back(sample); };
  const auto reader = make_text_reader(kind, columns);
  for (const std::string_view line : split(text, '\n')) reader->read_line(line, keep);
  reader->finish(keep);
  return samples;
}

ParseProblem problem_of(std::string_view text, const std::vector<std::string>& columns = {}) {
  const auto reader = make_text_reader("nvidia-smi", columns);
  for (const std::string_view line : split(text, '\n')) reader->read_line(line, [](SystemSample&) {});
  reader->finish([](SystemSample&) {});
  return reader->problem();
}

TEST(TextSamples, ListsKnownKinds) {
  EXPECT_THAT(text_reader_names(), ElementsAre("tegrastats", "nvidia-smi", "meminfo"));
  EXPECT_EQ(make_text_reader("top"), nullptr);
}

TEST(TextSamples, EachTegrastatsLineIsASample) {
  const auto samples = samples_of("tegrastats", "RAM 1/2MB\n\nRAM 2/2MB what\n");
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_THAT(samples[0].unknown_tokens, IsEmpty());
  EXPECT_EQ(samples[1].ram_used, mebibytes(2));
  EXPECT_THAT(samples[1].unknown_tokens, ElementsAre("what"));
}

// Each dump begins with a key that the previous dump has.
TEST(TextSamples, SplitsMeminfoDumps) {
  const auto samples = samples_of("meminfo",
                                  "MemTotal: 1000 kB\nMemFree: 600 kB\nBuffers: 100 kB\nCached: 50 "
                                  "kB\nHugePages_Total: 3\nHugepagesize: 2048 kB\n"
                                  "== next\nMemTotal: 1000 kB\nMemFree: 500 kB\nNoNumber: x kB\n");
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].ram_used, kibibytes(250));
  EXPECT_EQ(samples[0].huge_pages_total, mebibytes(6));
  EXPECT_EQ(samples[1].ram_free, kibibytes(500));
  EXPECT_EQ(samples[1].ram_used, std::nullopt);
  EXPECT_EQ(samples[1].huge_pages_total, std::nullopt);
  EXPECT_THAT(samples[0].unknown_tokens, ElementsAre("== next"));
  EXPECT_THAT(samples[1].unknown_tokens, ElementsAre("NoNumber: x kB"));
}

TEST(TextSamples, GroupsGpuRowsIntoOneSampleUntilAGpuRepeats) {
  const auto samples = samples_of("nvidia-smi",
                                  "timestamp, index, memory.used [MiB], utilization.gpu [%]\n"
                                  "2026/08/10 00:00:00.000, 0, 100 MiB, 5 %\n"
                                  "2026/08/10 00:00:00.010, 1, 200 MiB, 9 %\n"
                                  "2026/08/10 00:00:01.000, 0, 101 MiB, [N/A]\n");
  ASSERT_EQ(samples.size(), 2U);
  ASSERT_EQ(samples[0].gpus.size(), 2U);
  EXPECT_EQ(samples[0].clock_text, "2026/08/10 00:00:00.000");
  EXPECT_EQ(samples[0].gpu_percent, 9);
  EXPECT_EQ(samples[0].gpus[1].memory_used, mebibytes(200));
  EXPECT_EQ(samples[1].clock_text, "2026/08/10 00:00:01.000");
  EXPECT_EQ(samples[1].gpu_percent, std::nullopt);
}

TEST(TextSamples, ReadsNvidiaSmiTables) {
  const std::string table =
      "| NVIDIA-SMI 595.78                 Driver Version: 595.78         CUDA Version: 13.2     |\n"
      "|   0  NVIDIA Thor                    Off |   00000000:01:00.0 Off |                  N/A |\n"
      "| N/A   35C  N/A               1W /  N/A  | Not Supported          |     97%      Default |\n"
      "|                                         |                        |             Disabled |\n"
      "|    0   N/A  N/A            3507      G   /usr/lib/xorg/Xorg                       12MiB |\n";
  const auto samples = samples_of("nvidia-smi", table + table);
  ASSERT_EQ(samples.size(), 2U);
  for (const SystemSample& sample : samples) {
    EXPECT_EQ(sample.gpu_percent, 97);
    ASSERT_EQ(sample.gpus.size(), 1U);
    EXPECT_EQ(sample.gpus[0].memory_used, std::nullopt);
    ASSERT_TRUE(sample.gpus[0].processes && sample.gpus[0].processes->size() == 1);
    EXPECT_EQ(sample.gpus[0].processes->front().used, mebibytes(12));
    EXPECT_THAT(sample.unknown_tokens, IsEmpty());
  }
}

// GPUs without an index in the query are numbered in order of appearance.
TEST(TextSamples, NumbersGpusWithoutIndex) {
  for (const char* column : {"uuid", "pci.bus_id", "name"}) {
    const auto samples = samples_of("nvidia-smi", "timestamp, " + std::string(column) +
                                                      ", memory.used [MiB]\n"
                                                      "2026/08/10 00:00:00.000, first, 100 MiB\n"
                                                      "2026/08/10 00:00:00.010, second, 200 MiB\n"
                                                      "2026/08/10 00:00:01.000, first, 101 MiB\n"
                                                      "2026/08/10 00:00:01.010, second, 201 MiB\n");
    ASSERT_EQ(samples.size(), 2U) << column;
    for (const SystemSample& sample : samples) {
      ASSERT_EQ(sample.gpus.size(), 2U) << column;
      EXPECT_EQ(sample.gpus[0].index, 0) << column;
      EXPECT_EQ(sample.gpus[1].index, 1) << column;
    }
    EXPECT_EQ(samples[1].gpus[1].memory_used, mebibytes(201)) << column;
    EXPECT_EQ(samples[1].clock_text, "2026/08/10 00:00:01.000") << column;
  }
}

// The same index as for a GPU with a name, so that its figures have the same names.
TEST(TextSamples, GpuWithoutAnyNameHasIndexZero) {
  const auto samples = samples_of("nvidia-smi", "temperature.gpu, power.draw [W]\n35, 11.17 W\n36, 12 W\n");
  ASSERT_EQ(samples.size(), 2U);
  for (const SystemSample& sample : samples) {
    ASSERT_EQ(sample.gpus.size(), 1U);
    EXPECT_EQ(sample.gpus[0].index, 0);
  }
}

TEST(TextSamples, FigureWithAWrongUnitIsAnUnknownToken) {
  const auto samples = samples_of("nvidia-smi", "index, memory.used [MiB]\n0, 97 %\n0, 98 MiB\n");
  ASSERT_EQ(samples.size(), 1U);
  EXPECT_THAT(samples[0].unknown_tokens, ElementsAre("0, 97 %"));
  ASSERT_EQ(samples[0].gpus.size(), 1U);
  EXPECT_EQ(samples[0].gpus[0].memory_used, mebibytes(98));
}

// With a single column "name"; otherwise each message would be a GPU of that name.
TEST(TextSamples, NvidiaSmiMessagesAreNotRows) {
  const auto samples = samples_of("nvidia-smi", "name\nNo devices were found\n", {"name"});
  ASSERT_EQ(samples.size(), 1U);
  EXPECT_THAT(samples[0].gpus, IsEmpty());
  EXPECT_THAT(samples[0].unknown_tokens, ElementsAre("No devices were found"));
}

TEST(TextSamples, ExplainsUnparsedNvidiaSmiLines) {
  EXPECT_EQ(problem_of("0, 4000").why, "'0, 4000' has no header that names its columns");
  EXPECT_THAT(problem_of("0, 4000").fix, HasSubstr("--columns"));
  EXPECT_EQ(problem_of("0, 97 %", {"index", "memory.used"}).why, "'97 %' is not a value of memory.used");
  EXPECT_EQ(problem_of("7, 97 %", {"pid", "used_memory"}).why, "'97 %' is not a value of used_memory");
  EXPECT_EQ(problem_of("x, 97", {"index", "memory.used"}).why, "'x' is not a value of index");
  EXPECT_EQ(problem_of("0, 5, 6", {"index", "memory.used"}).why, "'0, 5, 6' has 3 cells for 2 columns");
  EXPECT_EQ(problem_of("0", {"index", "memory.used"}).why, "'0' has 1 cell for 2 columns");
  EXPECT_THAT(problem_of("0", {"index", "memory.used"}).fix, HasSubstr("--columns"));
  EXPECT_THAT(problem_of("index, memory.used [MiB]\n0").fix, HasSubstr("header"));
  EXPECT_EQ(problem_of("pstate, fan.speed [%]\nP0, 30 %").why,
            "'pstate, fan.speed [%]' has no column that Headroom uses");
  EXPECT_EQ(problem_of("0\x1b[31m, 4000").why, "'0 [31m, 4000' has no header that names its columns");
  // Text of other kinds has no explanation.
  for (const char* text :
       {"", "MemTotal:  8000000 kB", "hello", "hello, world", "RAM 1/2MB CPU [1%@729,off]"})
    EXPECT_EQ(problem_of(text).why, "") << text;
  EXPECT_EQ(problem_of("index, memory.used [MiB]\n0, 5 MiB").why, "");
}

// A message explains the lines around it, and the first message is kept.
TEST(TextSamples, NvidiaSmiMessageIsTheReason) {
  const ParseProblem problem =
      problem_of("0, 4000\nNo devices were found\nNVIDIA-SMI has failed because of that\n");
  EXPECT_EQ(problem.why, "nvidia-smi printed 'No devices were found'");
  EXPECT_THAT(problem.fix, HasSubstr("lspci"));
  EXPECT_THAT(problem_of("Failed to initialize NVML: Driver/library version mismatch").fix,
              HasSubstr("restart"));
}

TEST(TextSamples, UsesGivenColumnsForACsvWithoutHeader) {
  const auto samples = samples_of("nvidia-smi",
                                  "2026/08/10 00:00:00.000, 0, 100\n"
                                  "2026/08/10 00:00:00.010, 1, 200\n"
                                  "2026/08/10 00:00:01.000, 0, 101\n",
                                  {"timestamp", "index", "memory.used"});
  ASSERT_EQ(samples.size(), 2U);
  ASSERT_EQ(samples[0].gpus.size(), 2U);
  EXPECT_EQ(samples[0].gpus[1].memory_used, mebibytes(200));
  EXPECT_EQ(samples[0].clock_text, "2026/08/10 00:00:00.000");
  EXPECT_EQ(samples[1].clock_text, "2026/08/10 00:00:01.000");
}

TEST(TextSamples, ProcessQueryBelongsToTheGpusBeforeIt) {
  const std::string gpus = "timestamp, uuid, memory.used [MiB]\n2026/08/10 00:00:00.000, GPU-1, 100 MiB\n";
  auto samples = samples_of("nvidia-smi", gpus + "gpu_uuid, pid, used_memory [MiB]\nGPU-1, 7, 90 MiB\n");
  ASSERT_EQ(samples.size(), 1U);
  ASSERT_EQ(samples[0].gpus.size(), 1U);
  ASSERT_TRUE(samples[0].gpus[0].processes && samples[0].gpus[0].processes->size() == 1);
  EXPECT_EQ(samples[0].gpus[0].processes->front(), (GpuProcess{7, mebibytes(90), {}, {}}));
  // Without a pid there is no process, no GPU and no separate sample.
  samples = samples_of("nvidia-smi",
                       gpus + "process_name, used_memory [MiB]\npython, 90 MiB\npython, 80 MiB\n" + gpus);
  ASSERT_EQ(samples.size(), 2U);
  for (const SystemSample& sample : samples) {
    EXPECT_EQ(sample.gpus.size(), 1U);
    EXPECT_EQ(sample.clock_text, "2026/08/10 00:00:00.000");
    EXPECT_THAT(sample.unknown_tokens, IsEmpty());
  }
}

TEST(TextSamples, DropsProcessesWithoutGpus) {
  std::string text = "gpu_uuid, pid, used_memory [MiB]\n";
  for (int i = 0; i < 10000; ++i) text += "GPU-1, 7, 90 MiB\n";
  const auto samples = samples_of("nvidia-smi", text + "uuid, memory.used [MiB]\nGPU-1, 100 MiB\n");
  ASSERT_EQ(samples.size(), 1U);
  ASSERT_EQ(samples[0].gpus.size(), 1U);
  EXPECT_EQ(samples[0].gpus[0].processes, std::nullopt);
}

TEST(TextSamples, EndlessInstanceTableIsPassedOnInParts) {
  std::string text = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n";
  for (int i = 0; i < 10000; ++i) text += "  MIG 1g.10gb     Device  0: (UUID: MIG-1)\n";
  for (const SystemSample& sample : samples_of("nvidia-smi", text))
    for (const GpuSample& gpu : sample.gpus) EXPECT_LE(gpu.mig_instances.size(), 4096U);
}

// The second table begins before the first has printed its GPU's figures.
TEST(TextSamples, HandlesATableThatIsCutOff) {
  const auto samples =
      samples_of("nvidia-smi",
                 "|   0  NVIDIA Thor                    Off |   00000000:01:00.0 Off |         N/A |\n"
                 "| NVIDIA-SMI 595.78        Driver Version: 595.78         CUDA Version: 13.2     |\n"
                 "| N/A   35C  N/A               1W /  N/A  | Not Supported          | 97% Default |\n");
  ASSERT_EQ(samples.size(), 1U);
  EXPECT_EQ(samples[0].gpus.size(), 1U);
  EXPECT_EQ(samples[0].gpu_percent, std::nullopt);
}

TEST(TextSamples, GarbageIsPassedOnInParts) {
  std::string garbage;
  for (int i = 0; i < 10000; ++i) garbage += "? " + std::to_string(i) + "\n";
  for (const std::string& kind : text_reader_names()) {
    std::size_t words = 0;
    for (const SystemSample& sample : samples_of(kind, garbage)) {
      EXPECT_LE(sample.unknown_tokens.size(), 4096U);
      words += sample.unknown_tokens.size();
    }
    EXPECT_GE(words, 10000U) << kind;
  }
}

}  // namespace
}  // namespace headroom::sources
