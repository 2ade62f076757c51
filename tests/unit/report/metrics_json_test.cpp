#include "report/run/report_json.h"

#include <sstream>

#include "base/json.h"
#include "support/test_support.h"

namespace headroom::report {
namespace {
using testing::HasSubstr;

MetricsLine full_line() {
  MetricsLine line;
  line.since_start = {1'500'000'000};
  line.phase = "inference";
  line.model = "yolox";
  SystemSample& system = line.system;
  system.cpu_percent = 81.25, system.gpu_percent = 3;
  system.ram_total = Bytes{1}, system.ram_free = Bytes{2}, system.ram_available = Bytes{3};
  system.ram_cached = Bytes{4}, system.ram_shared = Bytes{5}, system.ram_used = Bytes{6};
  system.swap_total = Bytes{7}, system.swap_used = Bytes{0}, system.nvmap_used = Bytes{9};
  system.psi_some_avg10 = 0.5, system.psi_full_avg10 = 0;
  system.pages_swapped_in = 10, system.pages_swapped_out = 11, system.refaults = 12, system.oom_kills = 0;
  system.temperatures_celsius = {{"cpu-thermal", 41.5}, {"gpu/thermal \"x\"", 39}};
  system.power_watts = {{"VDD_IN", 4.75}};
  system.clocks_hz = {{"cpu0", 1.5e9}};
  system.throttled = false;
  GpuSample gpu;
  gpu.index = 0, gpu.name = "NVIDIA H200", gpu.uuid = "GPU-1", gpu.pci_bus_id = "00000000:41:00.0";
  gpu.memory_total = Bytes{100}, gpu.memory_used = Bytes{0}, gpu.memory_free = Bytes{90};
  gpu.memory_reserved = Bytes{10};
  gpu.gpu_percent = 37, gpu.memory_percent = 12.5, gpu.encoder_percent = 0, gpu.decoder_percent = 1;
  gpu.graphics_clock_hz = 1.98e9, gpu.sm_clock_hz = 1.97e9, gpu.memory_clock_hz = 3.2e9;
  gpu.power_watts = 76.5, gpu.power_limit_watts = 700, gpu.temperature_celsius = 31;
  gpu.throttled = true, gpu.throttle_reasons = {"software power cap"}, gpu.clock_limits = {"idle"};
  gpu.mig_enabled = true;
  gpu.mig_instances = {{3, "MIG 1g.18gb", "MIG-1", 7, 0, Bytes{20}, Bytes{5}, Bytes{14}, Bytes{1}}};
  gpu.processes = {{{4242, Bytes{77}, 7, 0}, {4243, std::nullopt, std::nullopt, std::nullopt}}};
  GpuSample lost;
  lost.index = 1, lost.lost = true;
  system.gpus = {gpu, lost};
  NamedProcessMemory process;
  process.model = "yolox", process.pid = 4242, process.phase = "warm";
  process.memory = {Bytes{20}, Bytes{21}, Bytes{22},       Bytes{23}, Bytes{24},
                    Bytes{25}, Bytes{26}, Nanoseconds{27}, 28};
  line.processes = {process};
  return line;
}

void expect_equal(const MetricsLine& a, const MetricsLine& b) {
  EXPECT_EQ(a.since_start, b.since_start);
  EXPECT_EQ(a.phase, b.phase);
  EXPECT_EQ(a.model, b.model);
  EXPECT_TRUE(a.system == b.system);
  ASSERT_EQ(a.processes.size(), b.processes.size());
  for (std::size_t i = 0; i < a.processes.size(); ++i) {
    EXPECT_EQ(a.processes[i].model, b.processes[i].model);
    EXPECT_EQ(a.processes[i].pid, b.processes[i].pid);
    EXPECT_EQ(a.processes[i].phase, b.processes[i].phase);
    EXPECT_TRUE(a.processes[i].memory == b.processes[i].memory);
  }
}

// A run's folder is untrusted input, and its figures are added and multiplied.
Result<std::vector<MetricsLine>> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<MetricsLine> lines;
  auto read = read_metrics(stream, [&](MetricsLine line) { lines.push_back(std::move(line)); });
  if (!read) return forward_error(read);
  return lines;
}

TEST(MetricsJson, RefusesFiguresOfALineThatAreTooLarge) {
  const auto problem_of = [](const char* text) {
    const auto line = metrics_line_from_json(*parse_json(text));
    return line ? std::string() : line.error().why;
  };
  EXPECT_EQ(problem_of(R"({"time_ns":1,"ram_free_bytes":72057594037927000})"), "");
  EXPECT_THAT(problem_of(R"({"time_ns":1,"ram_free_bytes":72057594037927936})"),
              HasSubstr("/ram_free_bytes is too large for any machine"));
  EXPECT_THAT(problem_of(R"({"time_ns":1,"gpus":[{"memory_used_bytes":9223372036854775807}]})"),
              HasSubstr("/gpus/0/memory_used_bytes is too large"));
  EXPECT_THAT(problem_of(R"({"time_ns":1,"processes":[{"rss_bytes":-72057594037927936}]})"),
              HasSubstr("/processes/0/rss_bytes is too large"));
  EXPECT_THAT(problem_of(R"({"time_ns":9223372036854775807})"), HasSubstr("/time_ns is too large"));
}

TEST(MetricsJson, ReadsBackALine) {
  const std::string text = to_line(to_json(full_line()));
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto lines = lines_of(text + "\n");
  ASSERT_TRUE(lines) << lines.error().sentence();
  ASSERT_EQ(lines->size(), 1U);
  expect_equal(lines->front(), full_line());
}

TEST(MetricsJson, SeparatesAbsentFromZero) {
  const Json line = to_json(full_line());
  EXPECT_EQ(get_integer(line, "swap_used_bytes"), 0);
  const Json bare = to_json(MetricsLine{});
  for (const char* key :
       {"cpu_percent", "ram_used_bytes", "swap_used_bytes", "temperature_celsius", "throttled", "gpus"})
    EXPECT_FALSE(bare.contains(key)) << key;
  EXPECT_TRUE(bare["processes"].empty());
  // A lost GPU has only this state. Its processes are unknown, which is different from none.
  EXPECT_EQ(line["gpus"][1], (Json{{"index", 1}, {"lost", true}}));
  EXPECT_FALSE(line["gpus"][0].contains("lost"));
  EXPECT_FALSE(line["gpus"][0]["processes"][1].contains("used_bytes"));
}

TEST(MetricsJson, SkipsAnIncompleteLastLine) {
  const std::string line = to_line(to_json(full_line()));
  for (std::size_t cut = 1; cut < line.size(); cut += 7) {
    const auto lines = lines_of(line + "\n" + line + "\n" + line.substr(0, cut));
    ASSERT_TRUE(lines) << lines.error().sentence();
    EXPECT_EQ(lines->size(), 2U) << cut;
  }
  EXPECT_EQ(lines_of(line + "\n" + line)->size(), 2U);  // the line is complete, only its newline is missing
}

TEST(MetricsJson, ReportsTheNumberOfAnInvalidLine) {
  const std::string line = to_line(to_json(full_line()));
  EXPECT_THAT(lines_of(line + "\nnot json\n" + line + "\n").error().why, HasSubstr("line 2"));
  EXPECT_THAT(lines_of("{\"a\":1}\n").error().why, HasSubstr("line 1: it has no time_ns"));
  EXPECT_THAT(lines_of("{\"time_ns\":1,\"clock_hz\":{\"cpu0\":\"fast\"}}\n").error().why,
              HasSubstr("/clock_hz/cpu0 is a string"));
  EXPECT_THAT(lines_of("[]\n").error().why, HasSubstr("not an object"));
  EXPECT_THAT(lines_of(line + "\n" + std::string(2 << 20, ' ') + "\n").error().why,
              HasSubstr("line 2: it is longer than 1 MiB"));
}

// Calculations with the figures of a log (sums, multiples, casts) must not overflow.
TEST(MetricsJson, RefusesFiguresThatAreTooLarge) {
  const auto read = [](const std::string& fields) {
    return system_sample_from_json(*parse_json("{\"time_ns\":1," + fields + "}"));
  };
  for (const char* const bearable :
       {R"("unix_time_ns":1784000000000000000)", R"("ram_total_bytes":72057594037927000)",
        R"("temperature_celsius":{"cpu":-256})", R"("psi_some_stalled_ns":90000000000000000)"})
    EXPECT_TRUE(read(bearable)) << bearable;
  const struct {
    const char *fields, *place;
  } cases[] = {
      {R"("ram_free_bytes":9223372036854775807)", "/ram_free_bytes"},
      {R"("ram_total_bytes":-9223372036854775808)", "/ram_total_bytes"},
      {R"("ram_used_bytes":72057594037927936)", "/ram_used_bytes"},
      {R"("refaults":18446744073709551615)", "/refaults"},
      {R"("cpu_percent":1e300)", "/cpu_percent"},
      {R"("power_watts":{"VDD_IN":-1e17})", "/power_watts/VDD_IN"},
      {R"("gpus":[{"index":0,"memory_used_bytes":4611686018427387904}])", "/gpus/0/memory_used_bytes"},
      {R"("unix_time_ns":4611686018427387904)", "/unix_time_ns"},
      {R"("unix_time_ns":-5)", "/unix_time_ns"},
  };
  for (const auto& each : cases) {
    const auto sample = read(each.fields);
    ASSERT_FALSE(sample) << each.fields;
    EXPECT_THAT(sample.error().why, HasSubstr(each.place));
  }
  EXPECT_FALSE(system_sample_from_json(*parse_json(R"({"time_ns":9223372036854775807})")));
}

TEST(MetricsJson, ReadsAnEmptyFileAsNoLines) {
  EXPECT_TRUE(lines_of("")->empty());
  EXPECT_TRUE(lines_of("\n\n")->empty());
}

}  // namespace
}  // namespace headroom::report
