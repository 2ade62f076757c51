#include "sources/text_samples.h"

#include "base/text.h"
#include "support/test_support.h"

namespace headroom::sources {
namespace {
using testing::ElementsAre;
using testing::IsEmpty;

std::vector<SystemSample> samples_of(std::string_view kind, std::string_view text) {
  std::vector<SystemSample> samples;
  const auto keep = [&](SystemSample& sample) { samples.push_back(sample); };
  const auto reader = make_text_reader(kind);
  for (const std::string_view line : split(text, '\n')) reader->read_line(line, keep);
  reader->finish(keep);
  return samples;
}

TEST(TextSamples, KindsThatAreKnown) {
  EXPECT_THAT(text_reader_names(), ElementsAre("tegrastats", "nvidia-smi", "meminfo"));
  EXPECT_EQ(make_text_reader("top"), nullptr);
}

TEST(TextSamples, EachLineOfTegrastatsIsASample) {
  const auto samples = samples_of("tegrastats", "RAM 1/2MB\n\nRAM 2/2MB what\n");
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_THAT(samples[0].unknown_tokens, IsEmpty());
  EXPECT_EQ(samples[1].ram_used, mebibytes(2));
  EXPECT_THAT(samples[1].unknown_tokens, ElementsAre("what"));
}

// Each dump begins with a figure that the one before has.
TEST(TextSamples, DumpsOfMeminfo) {
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

TEST(TextSamples, RowsOfSeveralGpusAreOneSampleUntilOneComesAgain) {
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

TEST(TextSamples, TablesOfNvidiaSmi) {
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

TEST(TextSamples, GarbageIsGivenOutBeforeItFillsTheMemory) {
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
