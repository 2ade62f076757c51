// `headroom watch --from`: text of other tools and its own logs.
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/subprocess.h"
#include "base/text.h"
#include "cli/watch_fixture.h"

namespace headroom::test {
namespace {
using testing::HasSubstr;
using testing::Not;

class WatchInput : public Watch {
 protected:
  // A script in place of tegrastats, which only Jetsons have.
  CommandOptions with_tegrastats(const std::string& script) const {
    write("tegrastats", "#!/bin/sh\n" + script);
    std::filesystem::permissions(folder_ / "tegrastats", std::filesystem::perms::owner_all);
    CommandOptions options;
    options.environment = {{"PATH", folder_.path().string() + ":/usr/bin:/bin"}};
    return options;
  }
};

TEST_F(WatchInput, ConvertsATegrastatsLogToJsonLines) {
  write("stats.log",
        "04-11-2025 23:59:59 RAM 4321/62801MB (lfb 1759x4MB) CPU [0%@729,off] GR3D_FREQ 3%@[0,0]\n"
        "04-12-2025 00:00:01 RAM 4322/62801MB NEW 5q\n");
  const auto result = watch({"--from", "tegrastats:stats.log", "--jsonl"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto lines = split(trim(result.out), '\n');
  ASSERT_EQ(lines.size(), 2U);
  const auto first = parse_json(lines[0]), second = parse_json(lines[1]);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(get_integer(*first, "ram_used_bytes"), std::int64_t{4321} << 20);
  EXPECT_EQ(get_integer(*first, "time_ns"), 0);
  EXPECT_TRUE((*first)["unknown_tokens"].empty());
  EXPECT_FALSE(first->contains("swap_used_bytes"));
  EXPECT_EQ(get_integer(*second, "time_ns"), 2'000'000'000);  // across midnight
  EXPECT_EQ((*second)["unknown_tokens"], Json({"NEW", "5q"}));
  EXPECT_FALSE(second->contains("largest_free_block_bytes"));
  EXPECT_THAT(result.err, HasSubstr("cannot read 2 tokens in 2 samples"));
}

// Spreadsheets write semicolons, decimal commas, quotation marks and a byte order mark, PowerShell UTF-16.
TEST_F(WatchInput, ReadsNvidiaSmiSavedByOtherPrograms) {
  using namespace std::string_literals;
  const std::string row = "2026/05/02 10:00:00.001, 100 MiB, 7.5 W\r\n";
  std::string utf16 = "\xff\xfe"s;
  for (const char letter : "timestamp, memory.used [MiB], power.draw [W]\r\n" + row)
    utf16 += std::string{letter, '\0'};
  for (
      const std::string& text :
      {utf16,
       "\xef\xbb\xbftimestamp;memory.used [MiB];power.draw [W]\r\n02.05.2026 10:00:00;100 MiB;7,5 W\r\n"s,
       "\"timestamp\",\"memory.used [MiB]\",\"power.draw [W]\"\n\"2026/05/02 10:00:00.001\",\"100 MiB\",\"7.5 W\"\n"s}) {
    write("smi.csv", text);
    const auto result = watch({"--from", "nvidia-smi:smi.csv", "--jsonl"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("\"memory_used_bytes\":104857600")) << text;
    EXPECT_THAT(result.out, HasSubstr("\"power_watts\":7.5")) << text;
    EXPECT_THAT(result.out, HasSubstr("\"unknown_tokens\":[]")) << text;
  }
  for (const char* name : {"13a-nvidia-smi-utf16.csv", "13b-nvidia-smi-bom-semicolon.csv"}) {
    const auto file = shared_data(std::string("field_cases/") + name);
    if (!file) GTEST_SKIP() << absent_message(name);
    const auto result = watch({"--from", "nvidia-smi:" + file->string(), "--jsonl"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(split(trim(result.out), '\n').size(), 2U) << name;
  }
}

TEST_F(WatchInput, ReadsNvidiaSmi) {
  write("smi.csv", "0, 100\n1, 200\n0, 101\n1, 201\n");
  auto result = watch({"--from", "nvidia-smi:smi.csv", "--columns", "index, memory.used", "--jsonl"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto lines = split(trim(result.out), '\n');
  ASSERT_EQ(lines.size(), 2U);
  const auto second = parse_json(lines[1]);
  ASSERT_TRUE(second && (*second)["gpus"].size() == 2);
  EXPECT_EQ(get_integer((*second)["gpus"][1], "memory_used_bytes"), std::int64_t{201} << 20);
  // A value that does not fit its column is reported, not taken for a size.
  write("smi.csv", "index, memory.used [MiB]\n0, 97 %\n0, 98 MiB\n");
  result = watch({"--from", "nvidia-smi:smi.csv", "--jsonl"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("\"unknown_tokens\":[\"0, 97 %\"]"));
  EXPECT_THAT(result.out, Not(HasSubstr("\"memory_used_bytes\":97,")));
  EXPECT_THAT(result.err, HasSubstr("cannot read 1 token in 1 sample: '97 %' is not a value of memory.used"));
  // Known columns that Headroom does not use, and columns named '-', are skipped.
  write("smi.csv", "0, 30, of tomorrow, 100\n");
  result = watch({"--from", "nvidia-smi:smi.csv", "--columns", "index,fan.speed,-,memory.used", "--jsonl"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\"memory_used_bytes\":104857600"));
  write("smi.csv", "temperature.gpu, power.draw [W]\n35, 11.17 W\n36, 12 W\n");
  result = watch({"--from", "nvidia-smi:smi.csv"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, testing::AllOf(HasSubstr("Temperature gpu0"), HasSubstr("Power gpu0")));
}

// A script must not mistake an empty table for a healthy machine. There is one message, and its fix fits the
// fault.
TEST_F(WatchInput, FailsWithOneSentence) {
  const std::string meminfo = "MemTotal:  8000000 kB\nMemFree: 1000000 kB\n", smi = "nvidia-smi:";
  struct Case {
    std::vector<std::string> arguments;
    std::string text, message;
  };
  const std::vector<Case> cases{
      {{"--from", "tegrastats:no.log"}, "", "cannot open"},
      {{"--from", "tegrastat:x"}, "", "did you mean tegrastats:FILE?"},
      {{"--from", "meminfo:."}, "", "it is a folder"},
      {{"--from", "tegrastats:text"}, meminfo, "cannot read any of its tokens"},
      {{"--from", "headroom:text"}, "\x1f\x8b\x08\x7f and so on", "it is damaged at the beginning"},
      {{"--from", smi + "text", "--columns", "name,memory.used", "--jsonl"},
       "NVIDIA Thor, [N/A], [N/A], 97 %\n",
       "has 4 cells for 2 columns; pass all names of the query to --columns"},
      {{"--from", smi + "text", "--columns", "index,memory.usd"},
       "0, 100\n",
       "unknown column 'memory.usd' in --columns: nvidia-smi has no such column; did you mean "
       "'memory.used'?"},
      {{"--from", smi + "text"},
       "0, 4000\n0, 4001\n",
       "'0, 4000' has no header that names its columns; name them as in the query, for example --columns "
       "timestamp,index,memory.used"},
      {{"--from", smi + "text"},
       "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the "
       "latest NVIDIA driver is installed and running.\n",
       "modprobe nvidia"}};
  for (const Case& each : cases) {
    write("text", each.text);
    const auto result = watch(each.arguments);
    EXPECT_EQ(result.exit_code, 2) << each.message << result.out;
    EXPECT_THAT(result.err, HasSubstr(each.message));
    EXPECT_EQ(split(trim(result.err), '\n').size(), 1U) << result.err;
    EXPECT_THAT(result.out, Not(HasSubstr("metric"))) << "no empty table";
  }
  write("text", meminfo);
  EXPECT_EQ(watch({"--from", "meminfo:text"}).exit_code, 0);
  write("text.svg", meminfo);
  EXPECT_EQ(watch({"--from", "meminfo:text.svg", "--plot", "text.svg"}).exit_code, 2);
  EXPECT_EQ(read("text.svg"), meminfo);
}

// A line without end must not fill memory, and the text after it is read.
TEST_F(WatchInput, HandlesAVeryLongLine) {
  write("log", std::string(400'000, 'x') + "\nRAM 1/2MB\n");
  const auto result = watch({"--from", "tegrastats:log", "--jsonl"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("\"ram_used_bytes\":1048576"));
}

TEST_F(WatchInput, ReadsItsOwnLog) {
  // Memory pressure of another test may fire an alert here.
  ASSERT_EQ(watch({"--interval", "10ms", "--duration", "100ms", "--quiet", "--alerts", "off", "--output",
                   "a.jsonl"})
                .exit_code,
            0);
  const auto again = watch({"--from", "headroom:a.jsonl", "--jsonl"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.out, read("a.jsonl"));
  EXPECT_EQ(watch({"--quiet", "--duration", "1ms", "--output", "a.jsonl"}).exit_code, 2) << "the file exists";
}

// The logs that top --replay opens: compressed, with several gzip members, and damaged.
TEST_F(WatchInput, ReadsItsOwnCompressedLog) {
  const auto made = watch(
      {"--duration", "60ms", "--interval", "5ms", "--quiet", "--processes", "3", "--output", "a.jsonl.gz"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const auto again = watch({"--from", "headroom:a.jsonl.gz", "--jsonl"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  const auto lines = split(trim(again.out), '\n');
  EXPECT_GE(lines.size(), 2U);
  for (const std::string_view line : lines) EXPECT_THAT(std::string(line), HasSubstr("\"process_table\""));
  EXPECT_THAT(again.err, HasSubstr("RAM used"));

  write("a.jsonl.gz", read("a.jsonl.gz") + "\x1f\x8b\x08\x7f and so on");
  const auto damaged = watch({"--from", "headroom:a.jsonl.gz", "--jsonl"});
  EXPECT_EQ(damaged.exit_code, 0) << damaged.err;
  EXPECT_EQ(damaged.out, again.out);
  EXPECT_THAT(damaged.err, HasSubstr("is damaged after " + std::to_string(lines.size()) + " samples"));
}

// A line with many processes is longer than any line of another tool.
TEST_F(WatchInput, ReadsALongLineOfItsOwnLog) {
  std::string line = "{\"time_ns\":0,\"process_table\":[";
  for (int pid = 1; pid <= 2000; ++pid)
    line += (pid > 1 ? "," : "") + std::string("{\"pid\":") + std::to_string(pid) +
            ",\"parent\":0,\"name\":\"a process\",\"rss_bytes\":1}";
  write("a.jsonl", line + "],\"ram_used_bytes\":1048576}\n");
  const auto result = watch({"--from", "headroom:a.jsonl", "--jsonl"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\"pid\":2000"));
  EXPECT_THAT(result.out, HasSubstr("\"unknown_tokens\":[]"));
}

TEST_F(WatchInput, StartsTegrastatsItself) {
  CommandOptions options = with_tegrastats(
      "[ \"$1 $2\" = \"--interval 20\" ] || exit 1\n"
      "for i in 1 2 3; do echo \"RAM $i/7620MB (lfb 5x1MB) CPU [1%@729]\"; sleep 0.02; done\n");
  const auto result = watch({"--from", "tegrastats", "--interval", "20ms", "--jsonl"}, options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto lines = split(trim(result.out), '\n');
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(get_integer(*parse_json(lines[2]), "ram_used_bytes"), 3 << 20);
  EXPECT_GT(get_integer(*parse_json(lines[2]), "time_ns"), get_integer(*parse_json(lines[0]), "time_ns"));
  options.environment = {{"PATH", "/nonexistent"}};
  const auto none = watch({"--from", "tegrastats"}, options);
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("cannot start tegrastats"));
}

// Measured by the lines' times, or by the clock if a pipe is silent.
TEST_F(WatchInput, DurationLimitsTextInput) {
  std::string text;
  for (int second = 10; second < 50; ++second)
    text += "04-11-2025 10:00:" + std::to_string(second) + " RAM 1/2MB\n";
  write("stats.log", text);
  const auto file = watch({"--from", "tegrastats:stats.log", "--duration", "4s", "--jsonl"});
  EXPECT_EQ(file.exit_code, 0) << file.err;
  EXPECT_EQ(std::count(file.out.begin(), file.out.end(), '\n'), 5);
  const auto tool = watch({"--from", "tegrastats", "--duration", "200ms", "--jsonl"},
                          with_tegrastats("echo 'RAM 1/2MB'\nexec sleep 1000\n"));
  EXPECT_EQ(tool.exit_code, 0) << tool.err;
}

// A watch that loses its source must not end as if successful. Earlier samples stay complete.
TEST_F(WatchInput, FailsIfTegrastatsFails) {
  const auto at_once = watch({"--from", "tegrastats"}, with_tegrastats("exit 3\n"));
  EXPECT_EQ(at_once.exit_code, 1) << at_once.err;
  EXPECT_THAT(at_once.err, HasSubstr("tegrastats ended: exit code 3"));
  const auto later = watch({"--from", "tegrastats", "--output", "a.jsonl"},
                           with_tegrastats("echo 'RAM 1/2MB'\nkill -9 $$\n"));
  EXPECT_EQ(later.exit_code, 1) << later.err;
  EXPECT_THAT(later.err, HasSubstr("SIGKILL"));
  EXPECT_THAT(later.out, HasSubstr("RAM used"));
  EXPECT_THAT(read("a.jsonl"), HasSubstr("\"ram_used_bytes\":1048576"));
  EXPECT_THAT(watch({"--from", "tegrastats"}, with_tegrastats("exit 0\n")).err,
              HasSubstr("no tegrastats sample in tegrastats"));
}

// The writer of a FIFO may come late, and a signal must end the wait for it.
TEST_F(WatchInput, WaitsForAFifoWriter) {
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  CommandOptions options;
  int calls = 0;  // a limit of 60 s against a hang
  options.while_running = [&calls](int pid) {
    ++calls;
    if (calls == 10) ::kill(pid, SIGTERM);
    if (calls == 3000) ::kill(pid, SIGKILL);
    return calls < 3000;
  };
  EXPECT_NE(watch({"--from", "tegrastats:fifo"}, options).signal, SIGKILL);

  SpawnOptions spawn;
  spawn.command = {"sh", "-c", "sleep 0.3; { echo 'RAM 1/2MB'; sleep 0.3; echo 'RAM 2/2MB'; } > \"$1\"", "sh",
                   (folder_ / "fifo").string()};
  auto writer = Subprocess::spawn(spawn);
  ASSERT_TRUE(writer);
  const auto late = watch({"--from", "tegrastats:fifo", "--jsonl"});
  EXPECT_EQ(late.exit_code, 0) << late.err;
  EXPECT_EQ(std::count(late.out.begin(), late.out.end(), '\n'), 2) << late.out;
}

}  // namespace
}  // namespace headroom::test
