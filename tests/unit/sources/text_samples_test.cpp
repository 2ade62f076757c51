#include "sources/text_samples.h"

#include "sources_test_support.h"

namespace headroom::sources {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(TextSamples, EachTegrastatsLineIsASample) {
  const auto samples = text_samples("tegrastats", "RAM 1/2MB\n\nRAM 2/2MB what\n");
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_THAT(samples[0].unknown_tokens, IsEmpty());
  EXPECT_EQ(samples[1].ram_used, mebibytes(2));
  EXPECT_THAT(samples[1].unknown_tokens, ElementsAre("what"));
}

// Each dump begins with a key that the previous dump has.
TEST(TextSamples, SplitsMeminfoDumps) {
  const auto samples = text_samples("meminfo",
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

TEST(TextSamples, EndlessInstanceTableIsPassedOnInParts) {
  std::string text = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n";
  for (int i = 0; i < 10000; ++i) text += "  MIG 1g.10gb     Device  0: (UUID: MIG-1)\n";
  for (const SystemSample& sample : text_samples("nvidia-smi", text))
    for (const GpuSample& gpu : sample.gpus) EXPECT_LE(gpu.mig_instances.size(), 4096U);
}

TEST(TextSamples, GarbageIsPassedOnInParts) {
  std::string garbage;
  for (int i = 0; i < 10000; ++i) garbage += "? " + std::to_string(i) + "\n";
  for (const std::string& kind : text_reader_names()) {
    std::size_t words = 0;
    for (const SystemSample& sample : text_samples(kind, garbage)) {
      EXPECT_LE(sample.unknown_tokens.size(), 4096U);
      words += sample.unknown_tokens.size();
    }
    EXPECT_GE(words, 10000U) << kind;
  }
}

// Lines may have 64 KiB each.
TEST(TextSamples, LongGarbageIsPassedOnInParts) {
  std::string garbage;
  for (int i = 0; i < 100; ++i) garbage += std::string(60'000, '?') + "\n";
  for (const std::string& kind : text_reader_names())
    for (const SystemSample& sample : text_samples(kind, garbage))
      EXPECT_LE(sample.unknown_tokens.size(), 5U) << kind << ": 256 KiB and the line beyond it";
}

ParseProblem problem_of(std::string_view text, const std::vector<std::string>& columns = {}) {
  const auto reader = make_text_reader("nvidia-smi", columns);
  for (const std::string_view line : split(text, '\n')) reader->read_line(line, [](SystemSample&) {});
  return reader->problem();
}

TEST(TextSamples, ExplainsUnparsedNvidiaSmiLines) {
  const std::vector<std::string> columns{"index", "memory.used"};
  const struct {
    const char* text;
    std::vector<std::string> columns;
    const char *why, *fix;
  } cases[] = {
      {"0, 4000", {}, "'0, 4000' has no header that names its columns", "--columns"},
      {"0, 97 %", columns, "'97 %' is not a value of memory.used", ""},
      {"7, 97 %", {"pid", "used_memory"}, "'97 %' is not a value of used_memory", ""},
      {"0, 5, 6", columns, "'0, 5, 6' has 3 cells for 2 columns", ""},
      {"0", columns, "'0' has 1 cell for 2 columns", "--columns"},
      {"index, memory.used [MiB]\n0", {}, "'0' has 1 cell for 2 columns", "header"},
      {"pstate, fan.speed [%]\nP0, 30 %", {}, "'pstate, fan.speed [%]' has no column that Headroom uses", ""},
      {"0\x1b[31m, 4000", {}, "'0 [31m, 4000' has no header that names its columns", ""},
      // The first message explains the lines around it. It is not the name of a GPU.
      {"0, 4000\nNo devices were found\nNVIDIA-SMI has failed because of that\n",
       {"name"},
       "nvidia-smi printed 'No devices were found'",
       "lspci"},
      {"Failed to initialize NVML: Driver/library version mismatch",
       {},
       "nvidia-smi printed 'Failed to initialize NVML: Driver/library version mismatch'",
       "restart"},
      // Text of other kinds has no explanation.
      {"", {}, "", ""},
      {"MemTotal:  8000000 kB", {}, "", ""},
      {"hello, world", {}, "", ""},
      {"index, memory.used [MiB]\n0, 5 MiB", {}, "", ""},
  };
  for (const auto& each : cases) {
    EXPECT_EQ(problem_of(each.text, each.columns).why, each.why) << each.text;
    EXPECT_THAT(problem_of(each.text, each.columns).fix, HasSubstr(each.fix)) << each.text;
  }
}

}  // namespace
}  // namespace headroom::sources
