// Runs `headroom watch` as a user would.
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/files.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "command.h"

namespace headroom::test {
namespace {
using testing::HasSubstr;
using testing::Not;

TEST(Watch, ConvertsATegrastatsLogToJsonLines) {
  TemporaryFolder folder;
  write_text(folder / "stats.log",
             "04-11-2025 23:59:59 RAM 4321/62801MB (lfb 1759x4MB) CPU [0%@729,off] GR3D_FREQ 3%@[0,0]\n"
             "04-12-2025 00:00:01 RAM 4322/62801MB NEW 5q\n");
  const auto result =
      run_headroom({"watch", "--from", "tegrastats:" + (folder / "stats.log").string(), "--jsonl"});
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

TEST(Watch, ReadsANvidiaSmiCsvWithoutHeader) {
  TemporaryFolder folder;
  write_text(folder / "smi.csv", "0, 100\n1, 200\n0, 101\n1, 201\n");
  const auto result = run_headroom({"watch", "--from", "nvidia-smi:" + (folder / "smi.csv").string(),
                                    "--columns", "index, memory.used", "--jsonl"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto lines = split(trim(result.out), '\n');
  ASSERT_EQ(lines.size(), 2U);
  const auto second = parse_json(lines[1]);
  ASSERT_TRUE(second && (*second)["gpus"].size() == 2);
  EXPECT_EQ(get_integer((*second)["gpus"][1], "memory_used_bytes"), std::int64_t{201} << 20);
}

TEST(Watch, ReportsUnreadableInputInOneSentence) {
  TemporaryFolder folder;
  const auto none = run_headroom({"watch", "--from", "tegrastats:" + (folder / "no.log").string()});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("cannot open"));
  const auto slip = run_headroom({"watch", "--from", "tegrastat:x"});
  EXPECT_EQ(slip.exit_code, 2);
  EXPECT_THAT(slip.err, HasSubstr("did you mean tegrastats:FILE?"));
  const auto directory = run_headroom({"watch", "--from", "meminfo:" + folder.path().string()});
  EXPECT_EQ(directory.exit_code, 2);
  EXPECT_THAT(directory.err, HasSubstr("it is a folder"));
}

std::vector<std::string> watch_of_nvidia_smi(const std::filesystem::path& file,
                                             const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"watch", "--from", "nvidia-smi:" + file.string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(Watch, RejectsAValueThatDoesNotFitItsColumn) {
  TemporaryFolder folder;
  write_text(folder / "smi.csv", "index, memory.used [MiB]\n0, 97 %\n0, 98 MiB\n");
  auto result = run_headroom(watch_of_nvidia_smi(folder / "smi.csv", {"--jsonl"}));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("\"unknown_tokens\":[\"0, 97 %\"]"));
  EXPECT_THAT(result.out, Not(HasSubstr("\"memory_used_bytes\":97,")));
  EXPECT_THAT(result.err, HasSubstr("cannot read 1 token in 1 sample: '97 %' is not a value of memory.used"));
  write_text(folder / "thor.csv", "NVIDIA Thor, [N/A], [N/A], 97 %\n");
  result =
      run_headroom(watch_of_nvidia_smi(folder / "thor.csv", {"--columns", "name,memory.used", "--jsonl"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.out, Not(HasSubstr("memory_used_bytes")));
  EXPECT_THAT(result.err, HasSubstr("has 4 cells for 2 columns; pass all names of the query to --columns"));
}

TEST(Watch, RejectsUnknownNvidiaSmiColumns) {
  TemporaryFolder folder;
  write_text(folder / "smi.csv", "0, 100\n");
  auto result = run_headroom(watch_of_nvidia_smi(folder / "smi.csv", {"--columns", "index,memory.usd"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("unknown column 'memory.usd' in --columns: nvidia-smi has no such "
                                    "column; did you mean 'memory.used'?"));
  result = run_headroom(watch_of_nvidia_smi(folder / "smi.csv", {"--columns", "foo,bar"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("'foo'"));
  EXPECT_THAT(result.err, HasSubstr("--help-query-gpu lists all columns"));
  // Known columns that Headroom does not use, and columns named '-', are skipped.
  write_text(folder / "smi.csv", "0, 30, of tomorrow, 100\n");
  result = run_headroom(
      watch_of_nvidia_smi(folder / "smi.csv", {"--columns", "index,fan.speed,-,memory.used", "--jsonl"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\"memory_used_bytes\":104857600"));
}

// There is one message, and its fix fits the fault.
TEST(Watch, CsvWithoutHeaderSuggestsColumnsFlag) {
  TemporaryFolder folder;
  write_text(folder / "c.csv", "0, 4000\n0, 4001\n");
  const auto result = run_headroom(watch_of_nvidia_smi(folder / "c.csv"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("'0, 4000' has no header that names its columns; name them as in the "
                                    "query, for example --columns timestamp,index,memory.used"));
  EXPECT_THAT(result.err, Not(HasSubstr("zcat")));
  EXPECT_EQ(split(trim(result.err), '\n').size(), 1U) << result.err;
  EXPECT_THAT(result.out, Not(HasSubstr("metric"))) << result.out;  // no empty table
}

TEST(Watch, ReportsAnErrorMessageOfNvidiaSmi) {
  TemporaryFolder folder;
  for (const auto& [said, cure] : {std::pair{"No devices were found", "lspci"},
                                   std::pair{"NVIDIA-SMI has failed because it couldn't communicate with the "
                                             "NVIDIA driver. Make sure that the "
                                             "latest NVIDIA driver is installed and running.",
                                             "modprobe nvidia"}}) {
    write_text(folder / "smi.csv", std::string(said) + "\n");
    const auto result = run_headroom(watch_of_nvidia_smi(folder / "smi.csv"));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("nvidia-smi printed '" + std::string(said) + "'; "));
    EXPECT_THAT(result.err, HasSubstr(cure));
    EXPECT_EQ(split(trim(result.err), '\n').size(), 1U) << result.err;
  }
}

TEST(Watch, NamesAGpuWithoutIndexGpu0) {
  TemporaryFolder folder;
  write_text(folder / "smi.csv", "temperature.gpu, power.draw [W]\n35, 11.17 W\n36, 12 W\n");
  const auto result = run_headroom(watch_of_nvidia_smi(folder / "smi.csv"));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Temperature gpu0"));
  EXPECT_THAT(result.out, HasSubstr("Power gpu0"));
}

// A script must not mistake an empty table for a healthy machine.
TEST(Watch, FailsIfNothingCanBeParsed) {
  TemporaryFolder folder;
  write_text(folder / "words", "MemTotal:  8000000 kB\nMemFree: 1000000 kB\n");
  for (const char* kind : {"tegrastats:", "nvidia-smi:", "headroom:"}) {
    const auto result = run_headroom({"watch", "--from", kind + (folder / "words").string()});
    EXPECT_EQ(result.exit_code, 2) << kind << result.out;
    EXPECT_THAT(result.err, HasSubstr("cannot read any of its tokens")) << kind;
  }
  EXPECT_EQ(run_headroom({"watch", "--from", "meminfo:" + (folder / "words").string()}).exit_code, 0);
  const auto nowhere = run_headroom({"watch", "--sysroot", (folder / "none").string(), "--duration", "20ms"});
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_THAT(nowhere.err, HasSubstr("has neither proc nor sys"));
}

// A line without end must not fill memory, and the text after it is read.
TEST(Watch, HandlesAVeryLongLine) {
  TemporaryFolder folder;
  write_text(folder / "log", std::string(400'000, 'x') + "\nRAM 1/2MB\n");
  const auto result = run_headroom({"watch", "--from", "tegrastats:" + (folder / "log").string(), "--jsonl"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("\"ram_used_bytes\":1048576"));
}

// A machine as a file tree: only data under the root is read, nothing of the test's machine.
TEST(Watch, ReadsAnotherMachineUnderSysroot) {
  TemporaryFolder folder;
  const auto file = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories((folder.path() / path).parent_path());
    write_text(folder.path() / path, text);
  };
  file(
      "proc/meminfo",
      "MemTotal: 8000000 kB\nMemFree: 1000000 kB\nBuffers: 0 kB\nCached: 500000 kB\nNvMapMemUsed: 3000 kB\n");
  file("sys/class/thermal/thermal_zone0/type", "gpu-thermal\n");
  file("sys/class/thermal/thermal_zone0/temp", "45500\n");
  const auto result = run_headroom(
      {"watch", "--sysroot", folder.path().string(), "--interval", "5ms", "--duration", "50ms", "--jsonl"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto lines = split(trim(result.out), '\n');
  ASSERT_GE(lines.size(), 2U);
  const auto sample = parse_json(lines.back());
  ASSERT_TRUE(sample);
  EXPECT_EQ(get_integer(*sample, "nvmap_used_bytes"), 3000 * 1024);
  EXPECT_EQ((*sample)["temperature_celsius"], Json({{"gpu-thermal", 45.5}}));
  EXPECT_FALSE(sample->contains("cpu_percent"));
  EXPECT_FALSE(sample->contains("cgroup"));
  EXPECT_THAT(result.err,
              HasSubstr("NvMap (inside RAM used)"));  // the summary must not mix with data on stdout
}

TEST(Watch, FollowsACommandAndReturnsItsStatus) {
  TemporaryFolder folder;
  const auto result =
      run_headroom({"watch", "--interval", "20ms", "--output", (folder / "run.jsonl").string(), "--plot",
                    (folder / "run.svg").string(), "--", "sh", "-c", "sleep 0.3; echo said; exit 7"});
  EXPECT_EQ(result.exit_code, 7) << result.err;
  EXPECT_EQ(result.out, "said\n");
  EXPECT_THAT(result.err, HasSubstr("Followed: resident"));
  EXPECT_THAT(read_text(folder / "run.svg"), HasSubstr("Followed processes"));
  const std::string text = read_text(folder / "run.jsonl");
  const auto lines = split(trim(text), '\n');
  ASSERT_GE(lines.size(), 3U);
  const auto sample = parse_json(lines[lines.size() / 2]);
  ASSERT_TRUE(sample);
  // The shell and its child process.
  EXPECT_GE(get_number((*sample)["other"], "followed_processes"), 1);
  EXPECT_GE((*sample)["process_table"].size(), 1U);
  EXPECT_FALSE(
      (*sample)["process_table"][0].contains("pss_bytes"));  // no PSS at 20 ms: reading it is too slow
}

TEST(Watch, SignalEndsWithACompleteLogAndSummary) {
  TemporaryFolder folder;
  CommandOptions options;
  options.while_running = [&](int pid) {
    const std::string log = std::filesystem::exists(folder / "a.csv") ? read_text(folder / "a.csv") : "";
    if (std::count(log.begin(), log.end(), '\n') < 4) return true;
    ::kill(pid, SIGINT);
    return false;
  };
  const auto result = run_headroom(
      {"watch", "--interval", "10ms", "--quiet", "--output", (folder / "a.csv").string()}, options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("RAM used"));
  const std::string log = read_text(folder / "a.csv");
  EXPECT_EQ(log.back(), '\n');
  const auto lines = split(trim(log), '\n');
  for (const std::string_view line : lines)
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), std::count(lines[0].begin(), lines[0].end(), ','))
        << line;
}

TEST(Watch, EndsWithTheFollowedProcess) {
  SpawnOptions spawn;
  spawn.command = {"sleep", "0.4"};
  auto child = Subprocess::spawn(spawn);
  ASSERT_TRUE(child);
  const auto result =
      run_headroom({"watch", "--interval", "20ms", "--pid", std::to_string(child->pid()), "--quiet"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Followed processes"));
  child->wait();
  const auto gone = run_headroom({"watch", "--pid", std::to_string(child->pid())});
  EXPECT_EQ(gone.exit_code, 2);
  EXPECT_THAT(gone.err, HasSubstr("does not exist"));
}

// Like a full disk: the file ends with a whole line, and the error reports how many samples are missing.
TEST(Watch, ReportsMissingSamplesOnAFullDisk) {
  TemporaryFolder folder;
  CommandOptions options;
  options.most_file_bytes = 4000;
  const auto result = run_headroom({"watch", "--interval", "5ms", "--duration", "300ms", "--quiet",
                                    "--output", (folder / "a.jsonl").string()},
                                   options);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("samples are missing"));
  EXPECT_THAT(result.out, HasSubstr("RAM used"));
  const std::string log = read_text(folder / "a.jsonl");
  EXPECT_TRUE(log.empty() || log.back() == '\n');
}

TEST(Watch, PrintsTheBaselineOfThisMachine) {
  const auto result = run_headroom({"watch", "--baseline", "--interval", "20ms", "--duration", "200ms"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* words : {"Baseline:", "kernel and others", "cache (reclaimable)", "total"})
    EXPECT_THAT(result.out, HasSubstr(words));
}

TEST(Watch, ReadsItsOwnLog) {
  TemporaryFolder folder;
  const std::string log = (folder / "a.jsonl").string();
  // Memory pressure of another test may fire an alert here.
  ASSERT_EQ(run_headroom({"watch", "--interval", "10ms", "--duration", "100ms", "--quiet", "--alerts", "off",
                          "--output", log})
                .exit_code,
            0);
  const auto again = run_headroom({"watch", "--from", "headroom:" + log, "--jsonl"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.out, read_text(log));
  EXPECT_EQ(run_headroom({"watch", "--quiet", "--duration", "1ms", "--output", log}).exit_code,
            2);  // the file exists
}

// The logs that top --replay opens: compressed, with several gzip members, and damaged.
TEST(Watch, ReadsItsOwnCompressedLog) {
  TemporaryFolder folder;
  const std::string packed = (folder / "a.jsonl.gz").string();
  const auto made = run_headroom({"watch", "--duration", "60ms", "--interval", "5ms", "--quiet",
                                  "--processes", "3", "--output", packed});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const auto again = run_headroom({"watch", "--from", "headroom:" + packed, "--jsonl"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  const auto lines = split(trim(again.out), '\n');
  EXPECT_GE(lines.size(), 2U);
  for (const std::string_view line : lines) EXPECT_THAT(std::string(line), HasSubstr("\"process_table\""));
  EXPECT_THAT(again.err, HasSubstr("RAM used"));

  const std::string whole = read_text(packed);
  write_text(packed, whole + "\x1f\x8b\x08\x7f and so on");
  const auto damaged = run_headroom({"watch", "--from", "headroom:" + packed, "--jsonl"});
  EXPECT_EQ(damaged.exit_code, 0) << damaged.err;
  EXPECT_EQ(damaged.out, again.out);
  EXPECT_THAT(damaged.err, HasSubstr("is damaged after " + std::to_string(lines.size()) + " samples"));
  write_text(packed, "\x1f\x8b\x08\x7f and so on");
  const auto nothing = run_headroom({"watch", "--from", "headroom:" + packed});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("it is damaged at the beginning"));
}

// A line with many processes is longer than any line of another tool.
TEST(Watch, ReadsALongLineOfItsOwnLog) {
  TemporaryFolder folder;
  std::string line = "{\"time_ns\":0,\"process_table\":[";
  for (int pid = 1; pid <= 2000; ++pid)
    line += (pid > 1 ? "," : "") + std::string("{\"pid\":") + std::to_string(pid) +
            ",\"parent\":0,\"name\":\"a process\",\"rss_bytes\":1}";
  write_text(folder / "a.jsonl", line + "],\"ram_used_bytes\":1048576}\n");
  const auto result =
      run_headroom({"watch", "--from", "headroom:" + (folder / "a.jsonl").string(), "--jsonl"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\"pid\":2000"));
  EXPECT_THAT(result.out, HasSubstr("\"unknown_tokens\":[]"));
}

// A script that prints a line per interval replaces tegrastats, which only Jetsons have.
TEST(Watch, StartsTegrastatsItself) {
  TemporaryFolder folder;
  write_text(folder / "tegrastats",
             "#!/bin/sh\n[ \"$1 $2\" = \"--interval 20\" ] || exit 1\n"
             "for i in 1 2 3; do echo \"RAM $i/7620MB (lfb 5x1MB) CPU [1%@729]\"; sleep 0.02; done\n");
  std::filesystem::permissions(folder / "tegrastats", std::filesystem::perms::owner_all);
  CommandOptions options;
  options.environment = {{"PATH", folder.path().string() + ":/usr/bin:/bin"}};
  const auto result =
      run_headroom({"watch", "--from", "tegrastats", "--interval", "20ms", "--jsonl"}, options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto lines = split(trim(result.out), '\n');
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(get_integer(*parse_json(lines[2]), "ram_used_bytes"), 3 << 20);
  EXPECT_GT(get_integer(*parse_json(lines[2]), "time_ns"), get_integer(*parse_json(lines[0]), "time_ns"));
  options.environment = {{"PATH", "/nonexistent"}};
  const auto none = run_headroom({"watch", "--from", "tegrastats"}, options);
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("cannot start tegrastats"));
}

// Measured by the lines' times, or by the clock if a pipe is silent.
TEST(Watch, DurationLimitsTextInput) {
  TemporaryFolder folder;
  std::string text;
  for (int second = 10; second < 50; ++second)
    text += "04-11-2025 10:00:" + std::to_string(second) + " RAM 1/2MB\n";
  write_text(folder / "stats.log", text);
  const auto file = run_headroom(
      {"watch", "--from", "tegrastats:" + (folder / "stats.log").string(), "--duration", "4s", "--jsonl"});
  EXPECT_EQ(file.exit_code, 0) << file.err;
  EXPECT_EQ(std::count(file.out.begin(), file.out.end(), '\n'), 5);

  CommandOptions options;
  options.environment = {{"PATH", folder.path().string() + ":/usr/bin:/bin"}};
  write_text(folder / "tegrastats", "#!/bin/sh\necho 'RAM 1/2MB'\nexec sleep 1000\n");
  std::filesystem::permissions(folder / "tegrastats", std::filesystem::perms::owner_all);
  const auto tool =
      run_headroom({"watch", "--from", "tegrastats", "--duration", "200ms", "--jsonl"}, options);
  EXPECT_EQ(tool.exit_code, 0) << tool.err;
}

// A watch that loses its source must not end as if successful. Earlier samples stay complete.
TEST(Watch, FailsIfTegrastatsFails) {
  TemporaryFolder folder;
  CommandOptions options;
  options.environment = {{"PATH", folder.path().string() + ":/usr/bin:/bin"}};
  write_text(folder / "tegrastats", "#!/bin/sh\nexit 3\n");
  std::filesystem::permissions(folder / "tegrastats", std::filesystem::perms::owner_all);
  const auto at_once = run_headroom({"watch", "--from", "tegrastats"}, options);
  EXPECT_EQ(at_once.exit_code, 1) << at_once.err;
  EXPECT_THAT(at_once.err, HasSubstr("tegrastats ended: exit code 3"));

  write_text(folder / "tegrastats", "#!/bin/sh\necho 'RAM 1/2MB'\nkill -9 $$\n");
  const std::string log = (folder / "a.jsonl").string();
  const auto later = run_headroom({"watch", "--from", "tegrastats", "--output", log}, options);
  EXPECT_EQ(later.exit_code, 1) << later.err;
  EXPECT_THAT(later.err, HasSubstr("SIGKILL"));
  EXPECT_THAT(later.out, HasSubstr("RAM used"));
  EXPECT_THAT(read_text(log), HasSubstr("\"ram_used_bytes\":1048576"));

  write_text(folder / "tegrastats", "#!/bin/sh\nexit 0\n");
  EXPECT_THAT(run_headroom({"watch", "--from", "tegrastats"}, options).err,
              HasSubstr("no tegrastats sample in tegrastats"));
}

// After being stopped for many intervals, the watch continues at its pace and reports the missed samples.
TEST(Watch, CountsIntervalsMissedWhileStopped) {
  TemporaryFolder folder;
  const std::string log = (folder / "a.jsonl").string();
  CommandOptions options;
  int calls_since = 0;
  options.while_running = [&](int pid) {
    // Stops the process only after its first sample: starting may take longer than the stop.
    if (calls_since == 0 && (!std::filesystem::exists(log) || read_text(log).empty())) return true;
    if (++calls_since == 1) ::kill(pid, SIGSTOP);
    if (calls_since == 11) ::kill(pid, SIGCONT);
    return calls_since < 11;
  };
  const auto result =
      run_headroom({"watch", "--interval", "10ms", "--duration", "600ms", "--output", log}, options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("samples were late"));
  const std::string text = read_text(log);
  const auto lines = split(trim(text), '\n');
  std::int64_t last = -1;
  for (const std::string_view line : lines) {
    const auto time = get_integer(*parse_json(line), "time_ns").value_or(-1);
    EXPECT_GT(time, last);
    last = time;
  }
  EXPECT_LE(lines.size(), 60U);  // missed samples are not made up
}

// ssh without a network, Ctrl-S or `| less`: a reader that blocks standard output and standard error must
// not stop the log, the alerts, or the answer to a signal.
TEST(Watch, BlockedReaderDoesNotStopLogOrAlerts) {
  TemporaryFolder folder;
  write_text(
      folder / "rules.toml",
      "[[rule]]\nname = \"always\"\nfigure = \"ram_used_percent\"\nabove = 0\nseverity = \"critical\"\n"
      "[[action]]\nfile = \"" +
          (folder / "told").string() + "\"\n");
  auto pipe = Pipe::create();
  ASSERT_TRUE(pipe);
  ASSERT_GT(::fcntl(pipe->write_end.get(), F_SETPIPE_SZ, 4096), 0);
  SpawnOptions spawn;
  spawn.command = {(executable_folder() / "../bin/headroom").string(),
                   "watch",
                   "--interval",
                   "5ms",
                   "--jsonl",
                   "--processes",
                   "30",
                   "--alerts",
                   (folder / "rules.toml").string(),
                   "--output",
                   (folder / "a.jsonl").string()};
  spawn.stdout_fd = spawn.stderr_fd = pipe->write_end.get();
  auto child = Subprocess::spawn(spawn);
  ASSERT_TRUE(child);
  constexpr std::uintmax_t kBeyondAllBuffers = 600 << 10;
  std::error_code code;
  int tries = 0;  // a limit of 60 s against a hang
  const auto size = [&] {
    const auto bytes = std::filesystem::file_size(folder / "a.jsonl", code);
    return code ? 0 : bytes;
  };
  while (size() < kBeyondAllBuffers && ++tries < 600) ::usleep(100'000);
  EXPECT_GE(size(), kBeyondAllBuffers);
  EXPECT_THAT(read_text(folder / "told"), HasSubstr("\"alert\":\"always\""));
  child->signal(SIGTERM);
  const auto end = child->wait_for(Nanoseconds{60'000'000'000});
  ASSERT_TRUE(end) << "the watch did not end";
  EXPECT_TRUE(end->success()) << end->describe();
  const std::string log = read_text(folder / "a.jsonl");
  EXPECT_EQ(log.back(), '\n');
}

// Only standard output is blocked: the skipped samples are reported and counted.
TEST(Watch, CountsSamplesThatWereNotShown) {
  TemporaryFolder folder;
  auto pipe = Pipe::create();
  ASSERT_TRUE(pipe);
  CommandOptions options;
  options.stdout_fd = pipe->write_end.get();
  options.while_running = [&](int pid) {
    const auto log = folder / "a.jsonl";
    if (!std::filesystem::exists(log) || std::filesystem::file_size(log) < 900'000) return true;
    ::kill(pid, SIGTERM);
    return false;
  };
  const auto result = run_headroom({"watch", "--interval", "5ms", "--jsonl", "--processes", "30", "--output",
                                    (folder / "a.jsonl").string()},
                                   options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("standard output is blocked: samples are skipped"));
  EXPECT_THAT(result.err, HasSubstr("samples were not shown"));
}

// The writer of a FIFO may come late, and a signal must end the wait for it.
TEST(Watch, WaitsForAFifoWriter) {
  TemporaryFolder folder;
  const std::string fifo = (folder / "fifo").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  CommandOptions options;
  int calls = 0;  // a limit of 60 s against a hang
  options.while_running = [&calls](int pid) {
    ++calls;
    if (calls == 10) ::kill(pid, SIGTERM);
    if (calls == 3000) ::kill(pid, SIGKILL);
    return calls < 3000;
  };
  const auto none = run_headroom({"watch", "--from", "tegrastats:" + fifo}, options);
  EXPECT_NE(none.signal, SIGKILL);

  SpawnOptions spawn;
  spawn.command = {"sh", "-c", "sleep 0.3; { echo 'RAM 1/2MB'; sleep 0.3; echo 'RAM 2/2MB'; } > \"$1\"", "sh",
                   fifo};
  auto writer = Subprocess::spawn(spawn);
  ASSERT_TRUE(writer);
  const auto late = run_headroom({"watch", "--from", "tegrastats:" + fifo, "--jsonl"});
  EXPECT_EQ(late.exit_code, 0) << late.err;
  EXPECT_EQ(std::count(late.out.begin(), late.out.end(), '\n'), 2) << late.out;
}

// If standard output is the only output, no sample is skipped, however late it is read. A signal ends the
// watch.
TEST(Watch, WaitsForTheReaderWhenReadingAFile) {
  TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "RAM " + std::to_string(i) + "/7620MB\n";
  write_text(folder / "log", text);
  const std::vector<std::string> command{"watch", "--from", "tegrastats:" + (folder / "log").string(),
                                         "--jsonl"};
  const std::string program = (executable_folder() / "../bin/headroom").string();
  auto pipe = Pipe::create();
  ASSERT_TRUE(pipe);
  SpawnOptions spawn;
  spawn.command = {"sh", "-c", "\"$@\" | (sleep 1; wc -l)", "sh", program};
  spawn.command.insert(spawn.command.end(), command.begin(), command.end());
  spawn.stdout_fd = pipe->write_end.get();
  auto late = Subprocess::spawn(spawn);
  ASSERT_TRUE(late);
  EXPECT_TRUE(late->wait().success());
  char lines[16]{};
  ASSERT_GT(::read(pipe->read_end.get(), lines, sizeof lines - 1), 0);
  EXPECT_EQ(trim(lines), "20000");

  CommandOptions options;  // without a reader
  options.stdout_fd = pipe->write_end.get();
  options.while_running = [&pipe](int pid) {
    int waiting = 0;
    if (::ioctl(pipe->read_end.get(), FIONREAD, &waiting) != 0 || waiting == 0) return true;
    ::kill(pid, SIGTERM);
    return false;
  };
  EXPECT_EQ(run_headroom(command, options).exit_code, 0);
}

// A real OOM kill in a control group: the victim is named, and the log continues to the end.
TEST(Watch, ReportsAnOomKillWithItsVictim) {
  if (!hard_limits_work()) GTEST_SKIP() << "cannot create a control group on this machine";
  if (::access("/dev/kmsg", R_OK) != 0) GTEST_SKIP() << "the kernel log is not readable here";
  TemporaryFolder folder;
  const auto result =
      run_headroom({"watch", "--interval", "20ms", "--output", (folder / "a.jsonl").string(), "--",
                    (executable_folder() / "../bin/headroom").string(), "run", "--limit", "64MiB", "--",
                    "perl", "-e", "my @x; push @x, 'x' x 4000000 while 1"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("the kernel killed perl"));
  const std::string log = read_text(folder / "a.jsonl");
  EXPECT_THAT(log, HasSubstr("\"kind\":\"oom_kill\""));
  EXPECT_THAT(log, HasSubstr("\"process\":\"perl\""));
  EXPECT_EQ(log.back(), '\n');
}

// The watch runs in the same control group as a program that fills memory, thrashes on file pages and is
// finally killed. benchmarks/monitor_survives.py measures how late the samples are.
TEST(Watch, SurvivesAThrashingControlGroupAndAnOomKill) {
#if defined(HEADROOM_SANITIZED)  // a sanitizer adds 160 MiB to the watch
  constexpr const char* kLimit = "272MiB";
#else
  constexpr const char* kLimit = "112MiB";
#endif
  if (!hard_limits_work()) GTEST_SKIP() << "cannot create a control group on this machine";
  if (::access("/dev/kmsg", R_OK) != 0) GTEST_SKIP() << "the kernel log is not readable here";
  TemporaryFolder folder;
  write_text(folder / "data", std::string(160 << 20, 'x'));
  write_text(folder / "victim.py",
             "import mmap, random, sys, time\n"
             "held = []\n"
             "def fill():\n"
             "    held.append(bytearray(b'x' * (4 << 20)))\n"
             "    time.sleep(0.8)\n"
             "while len(held) < 20: fill()\n"
             "end = time.monotonic() + 8\n"
             "file = open(sys.argv[1], 'rb')\n"
             "pages = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\n"
             "while time.monotonic() < end: pages[random.randrange(len(pages))]\n"
             "while True: fill()\n");
  const std::string headroom = (executable_folder() / "../bin/headroom").string();
  const std::string path = (folder / "a.jsonl").string();
  const auto result =
      run_headroom({"run", "--limit", kLimit, "--", headroom, "watch", "--interval", "100ms", "--output",
                    path, "--", "python3", (folder / "victim.py").string(), (folder / "data").string()});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("the kernel killed python3"));
  const std::string log = read_text(path);
  ASSERT_FALSE(log.empty());
  EXPECT_EQ(log.back(), '\n');
  std::int64_t last = -1, alert = -1, kill = -1;
  for (const std::string_view line : split(trim(log), '\n')) {
    const auto sample = parse_json(line);
    ASSERT_TRUE(sample) << line;
    const std::int64_t time = get_integer(*sample, "time_ns").value_or(-1);
    EXPECT_GT(time, last);
    last = time;
    for (const Json& event : get_member(*sample, "alerts"))
      if (alert < 0 && get_text(event, "alert") == "memory_runs_out") alert = time;
    for (const Json& event : get_member(*sample, "kernel_events"))
      if (kill < 0 && get_text(event, "process") == "python3") kill = time;
  }
  EXPECT_GE(alert, 0) << result.err;
  EXPECT_GT(kill, alert) << result.err;
}

TEST(Watch, RejectsConflictingFlags) {
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"watch", "--jsonl", "--csv"},
           {"watch", "--pid", "1", "--name", "x"},
           {"watch", "--plot", "a.png"},
           {"watch", "--output", "a.txt"},
           {"watch", "--plot", "/no/such/folder/a.svg", "--duration", "1ms"},
           {"watch", "--rotate", "1MB", "--duration", "1ms"},
           {"watch", "--keep", "2", "--duration", "1ms"},
           {"watch", "--from", "meminfo:x", "--baseline"},
           {"watch", "--from", "meminfo:x", "--columns", "index"},
           {"watch", "--columns", "index", "--duration", "1ms"},
           {"watch", "--from", "nvidia-smi:x", "--columns", "index,,name"},
           {"watch", "--from", "meminfo:x", "--processes", "3"},
           {"watch", "--interval", "0"},
           {"watch", "--", "/no/such/program"}})
    EXPECT_EQ(run_headroom(arguments).exit_code, 2) << testing::PrintToString(arguments);
}

}  // namespace
}  // namespace headroom::test
