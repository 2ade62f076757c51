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
#include "cli/watch_fixture.h"

namespace headroom::test {
namespace {
using testing::HasSubstr;
using testing::Not;

// A machine as a file tree: only data under the root is read, nothing of the test's machine.
TEST_F(Watch, ReadsAnotherMachineUnderSysroot) {
  write(
      "proc/meminfo",
      "MemTotal: 8000000 kB\nMemFree: 1000000 kB\nBuffers: 0 kB\nCached: 500000 kB\nNvMapMemUsed: 3000 kB\n");
  write("sys/class/thermal/thermal_zone0/type", "gpu-thermal\n");
  write("sys/class/thermal/thermal_zone0/temp", "45500\n");
  const auto result =
      watch({"--sysroot", folder_.path().string(), "--interval", "5ms", "--duration", "50ms", "--jsonl"});
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

TEST_F(Watch, FollowsACommandAndReturnsItsStatus) {
  const auto result = watch({"--interval", "20ms", "--output", "run.jsonl", "--plot", path("run.svg"), "--",
                             "sh", "-c", "sleep 0.3; echo said; exit 7"});
  EXPECT_EQ(result.exit_code, 7) << result.err;
  EXPECT_EQ(result.out, "said\n");
  EXPECT_THAT(result.err, HasSubstr("Followed: resident"));
  EXPECT_THAT(read("run.svg"), HasSubstr("Followed processes"));
  const std::string text = read("run.jsonl");
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

TEST_F(Watch, ShowsDescriptorsAndPerCentOfTheBoard) {
  const auto result =
      watch({"--interval", "20ms", "--output", "a.jsonl", "--", "sh", "-c",
             "exec 7< /dev/null 8< /dev/null 9< /dev/null; while ! [ -s a.jsonl ]; do :; done; "
             "sleep 0.1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("Followed: open descriptors"));
  EXPECT_THAT(result.err, HasSubstr("RAM used, share of the board"));
  EXPECT_THAT(result.err, HasSubstr("Open files of the machine"));
  double descriptors = 0;
  const std::string log = read("a.jsonl");
  for (const std::string_view line : split(trim(log), '\n')) {
    const auto sample = parse_json(line, "a.jsonl");
    ASSERT_TRUE(sample);
    EXPECT_GT(get_number(*sample, "open_files"), 0);
    EXPECT_GT(get_number(*sample, "ram_used_percent"), 0);
    for (const Json& process : get_member(*sample, "process_table"))
      descriptors = std::max(descriptors, get_number(process, "descriptors").value_or(0));
  }
  EXPECT_GE(descriptors, 6);
}

TEST_F(Watch, SignalEndsWithACompleteLogAndSummary) {
  CommandOptions options;
  options.while_running = [&](int pid) {
    const std::string log = read_if_there("a.csv");
    if (std::count(log.begin(), log.end(), '\n') < 4) return true;
    ::kill(pid, SIGINT);
    return false;
  };
  const auto result = watch({"--interval", "10ms", "--quiet", "--output", "a.csv"}, options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("RAM used"));
  const std::string log = read("a.csv");
  EXPECT_EQ(log.back(), '\n');
  const auto lines = split(trim(log), '\n');
  for (const std::string_view line : lines)
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), std::count(lines[0].begin(), lines[0].end(), ','))
        << line;
}

TEST_F(Watch, EndsWithTheFollowedProcess) {
  SpawnOptions spawn;
  spawn.command = {"sleep", "0.4"};
  auto child = Subprocess::spawn(spawn);
  ASSERT_TRUE(child);
  const auto result = watch({"--interval", "20ms", "--pid", std::to_string(child->pid()), "--quiet"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Followed processes"));
  child->wait();
  const auto gone = watch({"--pid", std::to_string(child->pid())});
  EXPECT_EQ(gone.exit_code, 2);
  EXPECT_THAT(gone.err, HasSubstr("does not exist"));
}

// Like a full disk: the file ends with a whole line, and the error reports how many samples are missing.
TEST_F(Watch, ReportsMissingSamplesOnAFullDisk) {
  CommandOptions options;
  options.most_file_bytes = 4000;
  const auto result =
      watch({"--interval", "5ms", "--duration", "300ms", "--quiet", "--output", "a.jsonl"}, options);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("samples are missing"));
  EXPECT_THAT(result.out, HasSubstr("RAM used"));
  const std::string log = read("a.jsonl");
  EXPECT_TRUE(log.empty() || log.back() == '\n');
}

TEST_F(Watch, PrintsTheBaselineOfThisMachine) {
  const auto result = watch({"--baseline", "--interval", "20ms", "--duration", "200ms"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* words : {"Baseline:", "kernel and others", "cache (reclaimable)", "total"})
    EXPECT_THAT(result.out, HasSubstr(words));
}

// After being stopped for many intervals, the watch continues at its pace and reports the missed samples.
TEST_F(Watch, CountsIntervalsMissedWhileStopped) {
  const std::string log = path("a.jsonl");
  CommandOptions options;
  int calls_since = 0;
  options.while_running = [&](int pid) {
    // Stops the process only after its first sample: starting may take longer than the stop.
    if (calls_since == 0 && read_if_there("a.jsonl").empty()) return true;
    if (++calls_since == 1) ::kill(pid, SIGSTOP);
    if (calls_since == 11) ::kill(pid, SIGCONT);
    return calls_since < 11;
  };
  const auto result = watch({"--interval", "10ms", "--duration", "600ms", "--output", log}, options);
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
TEST_F(Watch, BlockedReaderDoesNotStopLogOrAlerts) {
  write("rules.toml",
        "[[rule]]\nname = \"always\"\nfigure = \"ram_used_percent\"\nabove = 0\nseverity = \"critical\"\n"
        "[[action]]\nfile = \"" +
            path("told") + "\"\n");
  auto pipe = Pipe::create();
  ASSERT_TRUE(pipe);
  ASSERT_GT(::fcntl(pipe->write_end.get(), F_SETPIPE_SZ, 4096), 0);
  SpawnOptions spawn;
  spawn.command = {built_path("bin/headroom"),
                   "watch",
                   "--interval",
                   "5ms",
                   "--jsonl",
                   "--processes",
                   "30",
                   "--alerts",
                   path("rules.toml"),
                   "--output",
                   path("a.jsonl")};
  spawn.stdout_fd = spawn.stderr_fd = pipe->write_end.get();
  auto child = Subprocess::spawn(spawn);
  ASSERT_TRUE(child);
  constexpr std::uintmax_t kBeyondAllBuffers = 600 << 10;
  std::error_code code;
  int tries = 0;  // a limit of 60 s against a hang
  const auto size = [&] {
    const auto bytes = std::filesystem::file_size(folder_ / "a.jsonl", code);
    return code ? 0 : bytes;
  };
  while (size() < kBeyondAllBuffers && ++tries < 600) ::usleep(100'000);
  EXPECT_GE(size(), kBeyondAllBuffers);
  EXPECT_THAT(read("told"), HasSubstr("\"alert\":\"always\""));
  child->signal(SIGTERM);
  const auto end = child->wait_for(Nanoseconds{60'000'000'000});
  ASSERT_TRUE(end) << "the watch did not end";
  EXPECT_TRUE(end->success()) << end->describe();
  const std::string log = read("a.jsonl");
  EXPECT_EQ(log.back(), '\n');
}

// Only standard output is blocked: the skipped samples are reported and counted.
TEST_F(Watch, CountsSamplesThatWereNotShown) {
  auto pipe = Pipe::create();
  ASSERT_TRUE(pipe);
  CommandOptions options;
  options.stdout_fd = pipe->write_end.get();
  options.while_running = [&](int pid) {
    const auto log = folder_ / "a.jsonl";
    if (!std::filesystem::exists(log) || std::filesystem::file_size(log) < 900'000) return true;
    ::kill(pid, SIGTERM);
    return false;
  };
  const auto result =
      watch({"--interval", "5ms", "--jsonl", "--processes", "30", "--output", path("a.jsonl")}, options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("standard output is blocked: samples are skipped"));
  EXPECT_THAT(result.err, HasSubstr("samples were not shown"));
}

// If standard output is the only output, no sample is skipped, however late it is read. A signal ends the
// watch.
TEST_F(Watch, WaitsForTheReaderWhenReadingAFile) {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "RAM " + std::to_string(i) + "/7620MB\n";
  write("log", text);
  const std::vector<std::string> command{"watch", "--from", "tegrastats:" + path("log"), "--jsonl"};
  const std::string program = built_path("bin/headroom");
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

// The watch runs in the same control group as a program that fills memory, thrashes on file pages and is
// finally killed. benchmarks/monitor_survives.py measures how late the samples are.
TEST_F(Watch, SurvivesAThrashingControlGroupAndAnOomKill) {
#if defined(HEADROOM_SANITIZED)  // a sanitizer adds 160 MiB to the watch
  constexpr const char* kLimit = "272MiB";
#else
  constexpr const char* kLimit = "112MiB";
#endif
  if (!hard_limits_work()) GTEST_SKIP() << "cannot create a control group on this machine";
  if (::access("/dev/kmsg", R_OK) != 0) GTEST_SKIP() << "the kernel log is not readable here";
  write("data", std::string(160 << 20, 'x'));
  write("victim.py",
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
  const std::string headroom = built_path("bin/headroom");
  const auto result =
      run_headroom({"run", "--limit", kLimit, "--", headroom, "watch", "--interval", "100ms", "--output",
                    path("a.jsonl"), "--", "python3", path("victim.py"), path("data")});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("the kernel killed python3"));
  const std::string log = read("a.jsonl");
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

TEST_F(Watch, WarnsIfNoProcessHasTheName) {
  const auto result = watch({"--name", "no such process", "--interval", "10ms", "--duration", "50ms"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string warning = "no process has 'no such process' in its name yet; waiting for one";
  const std::size_t first = result.err.find(warning);
  EXPECT_NE(first, std::string::npos) << result.err;
  EXPECT_EQ(result.err.find(warning, first + 1), std::string::npos) << "one line only";
}

TEST_F(Watch, RejectsConflictingFlags) {
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
