// `headroom trace` from the command line, with the real preload library.
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "cli/command.h"
#include "cli/diff_matchers.h"
#include "recording/recording.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

CommandOptions with(std::vector<std::pair<std::string, std::string>> environment) {
  CommandOptions options;
  options.environment = std::move(environment);
  return options;
}

class Trace : public testing::Test {
 protected:
  // Runs headroom trace FLAGS --out FILE -- COMMAND in a fresh folder.
  CommandResult trace(const Words& command, const Words& flags = {}, CommandOptions options = {}) {
    if (options.folder.empty()) options.folder = folder_.path();
    return run_headroom(joined({{"trace"}, flags, {"--out", recording().string(), "--"}, command}), options);
  }
  CommandResult shell(const std::string& script, const Words& flags = {}) {
    return trace({"/bin/sh", "-c", script}, flags);
  }
  // Sends SIGTERM so many times once the script has made the file "ready".
  CommandResult terminate(const std::string& script, int times) {
    CommandOptions options;
    options.while_running = [&](int conductor) {
      if (!fs::exists(folder_ / "ready")) return true;
      for (int i = 0; i < times; ++i) {
        ::kill(conductor, SIGTERM);
        ::usleep(200);
      }
      return false;
    };
    return trace({"/bin/sh", "-c", script}, {}, options);
  }
  fs::path recording() const { return folder_ / "a.hrec"; }
  fs::path tree() const { return folder_ / "a.hrec.d"; }

  struct Read {
    recording::RecordingInfo info;
    std::uint64_t events = 0, allocations = 0, allocated_bytes = 0;
    std::vector<std::string> problems;
  };
  static Read read(const fs::path& path) {
    auto recording = recording::Recording::open(path);
    EXPECT_TRUE(recording.has_value()) << recording.error().sentence();
    if (!recording) return {};
    Read result;
    recording->for_each_event([&](const MemoryEvent& event) {
      ++result.events;
      if (event.kind != MemoryEventKind::allocate) return;
      ++result.allocations;
      result.allocated_bytes += event.size;
    });
    result.info = recording->info();
    result.problems = recording->problems();
    return result;
  }

  TemporaryFolder folder_;
};

TEST_F(Trace, CommandKeepsItsTerminalOutputAndExitCode) {
  const auto result = shell("echo to-out; echo to-err >&2; exit 7", {"--full"});
  EXPECT_THAT(result, Ends(7, "to-out\n",
                           AllOf(HasSubstr("to-err\n"), HasSubstr("ended with exit code 7"),
                                 HasSubstr("next: headroom report a.hrec\n"))));
  EXPECT_LE(std::count(result.err.begin(), result.err.end(), '\n'), 13);
  const Read recorded = read(recording());
  EXPECT_TRUE(recorded.info.closed);
  EXPECT_TRUE(recorded.info.full);
  EXPECT_GT(recorded.allocations, 0u);
  EXPECT_THAT(recorded.problems, IsEmpty());
  ASSERT_EQ(recorded.info.command.size(), 3u);
  EXPECT_EQ(recorded.info.command[1], "-c");
  EXPECT_FALSE(fs::exists(tree())) << "one process needs no index";
}

// Allocations by mallocx are not recorded, but their releases by free are, and the report notes them.
TEST_F(Trace, ReportsReleasesOfUnseenBlocks) {
  const auto jemalloc = dependency_file(HEADROOM_SYSTEM_LIBRARIES "/libjemalloc.so.2");
  if (!jemalloc) GTEST_SKIP() << absent_message("libjemalloc.so.2");
  for (const bool full : {true, false}) {
    ASSERT_THAT(trace({test::built_path("tests/traced_allocator")},
                      full ? Words{"--full", "--force"} : Words{"--force"},
                      with({{"LD_PRELOAD", jemalloc->string()}})),
                Ends(0));
    Json report = json_of(run_headroom({"report", recording().string(), "--json"}));
    EXPECT_EQ(report["complete"], false);
    ASSERT_EQ(report["problems"].size(), 1u);
    EXPECT_THAT(report["problems"][0].get<std::string>(),
                HasSubstr("frees are without a recorded allocation"));
    EXPECT_EQ(report["unknown_releases"], full ? 500 : 0);
  }
}

TEST_F(Trace, FlagsAfterTheDashesBelongToTheCommand) {
  EXPECT_THAT(trace({"/bin/echo", "--help", "-h", "--"}), Ends(0, Not(HasSubstr("headroom"))));
}

TEST_F(Trace, RecordsAndListsEveryProcessOfTheTree) {
  EXPECT_THAT(shell("/bin/ls / > /dev/null; /bin/cat /dev/null; exec /bin/echo done", {"--full"}),
              Ends(0, "done\n"));
  const Json index = json_of(read_text(tree() / "index.json"));
  std::vector<std::string> programs;
  for (const Json& entry : get_member(index, "recordings")) {
    EXPECT_EQ(get_bool(entry, "growing"), false);
    EXPECT_EQ(get_text(entry, "error"), "");
    const Json& command = get_member(entry, "command");
    ASSERT_FALSE(command.empty());
    programs.push_back(fs::path(command[0].get<std::string>()).filename());
    const fs::path file = tree() / get_text(entry, "file");
    EXPECT_EQ(read(file).info.pid, get_integer(entry, "pid"));
  }
  EXPECT_EQ(programs.front(), "sh");
  for (const char* program : {"ls", "cat", "echo"}) EXPECT_THAT(programs, testing::Contains(program));
}

// ls makes thousands of small allocations, sort a hundred and a buffer of several megabytes.
TEST_F(Trace, ShowsTheProcessWithTheLargestPeak) {
  EXPECT_THAT(shell("/bin/ls -la /usr/bin /usr/lib > /dev/null; echo one | /usr/bin/sort", {"--full"}),
              Ends(0, testing::_, testing::ContainsRegex("sort [0-9]+ \\(largest peak\\)")));
}

TEST_F(Trace, NamesTheSignalAndKeepsTheRecording) {
  EXPECT_THAT(shell("kill -9 $$", {"--full"}),
              Ends(128 + SIGKILL, testing::_,
                   AllOf(HasSubstr("SIGKILL (signal 9)"), HasSubstr("not closed by the process"))));
  const Read recorded = read(recording());
  EXPECT_FALSE(recorded.info.closed);
  EXPECT_GT(recorded.allocations, 0u);
  EXPECT_THAT(recorded.problems, IsEmpty());
}

TEST_F(Trace, ForwardsSignalsToTheCommand) {
  EXPECT_THAT(terminate("trap 'echo got it; exit 5' TERM; : > ready; while :; do sleep 0.05; done", 1),
              Ends(5, "got it\n"));
  EXPECT_TRUE(fs::exists(recording()));
}

// `timeout` signals the command that it started, and then its group. Here the signals continue while the
// recordings are finished.
TEST_F(Trace, SignalsAfterTheCommandEndedLoseNothing) {
  const auto result = terminate("/bin/true; : > ready; while :; do sleep 0.05; done", 2000);
  EXPECT_EQ(result.signal, 0);
  EXPECT_THAT(result, Ends(128 + SIGTERM, testing::_,
                           AllOf(HasSubstr("ended with SIGTERM"), HasSubstr("next: headroom report"))));
  EXPECT_TRUE(fs::exists(tree() / "index.json"));
}

TEST_F(Trace, CountsProcessesThatOutliveTheCommand) {
  // The shell ends once `sleep`, which its forked child executes, records.
  const auto result =
      shell("sleep 60 > /dev/null 2>&1 & echo $!; until ls a.hrec.d/$!-1.hrec > /dev/null 2>&1; do :; done");
  const pid_t survivor = std::stoi(result.out);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(::kill(survivor, 0), 0) << "it was killed or crashed";
  const Json index = json_of(read_text(tree() / "index.json"));
  int growing = 0;
  for (const Json& entry : get_member(index, "recordings")) growing += get_bool(entry, "growing") == true;
  EXPECT_EQ(growing, 1);
  EXPECT_THAT(result.err, HasSubstr("1 of its processes; their recordings keep growing"));
  ::kill(survivor, SIGKILL);
}

TEST_F(Trace, RecordingUsesOnlyTheDiskSpaceItNeeds) {
  ASSERT_EQ(shell("exit 0", {"--full"}).exit_code, 0);
  struct stat info {};
  ASSERT_EQ(::stat(recording().c_str(), &info), 0);
  EXPECT_LT(info.st_blocks * 512, 128 << 10);
  EXPECT_LT(info.st_size, (4 << 20) + (128 << 10));
}

TEST_F(Trace, KeepsAllocationsOfAnUnloadedLibraryApart) {
  const auto library = [](const std::string& name) { return test::built_path("tests/lib") + name + ".so"; };
  for (const char* stacks : {"unwind", "fp"}) {
    const auto result = trace(
        {test::built_path("tests/traced_successor"), library("traced_plugin_a"), library("traced_plugin_b")},
        {"--full", "--force", "--stacks", stacks});
    ASSERT_EQ(result.exit_code, 0);
    const std::size_t line = result.out.find('\n') + 1;
    if (result.out.substr(0, line) != result.out.substr(line))
      GTEST_SKIP() << "the loader mapped the second library elsewhere: " << result.out;
    const auto report = run_headroom({"report", recording().string(), "--json"});
    ASSERT_THAT(report, Ends(0));
    const Json json = json_of(report);
    std::map<std::int64_t, std::string> innermost;
    for (const Json& stack : json["stacks"])
      innermost[stack["at_end_bytes"].get<std::int64_t>()] = stack["frames"][0].get<std::string>();
    EXPECT_THAT(innermost[99902], HasSubstr("allocate_for_a")) << stacks;
    EXPECT_THAT(innermost[99903], HasSubstr("allocate_for_b")) << stacks;
    std::map<std::string, std::int64_t> modules;
    for (const Json& share : json["peak_shares"])
      if (share.contains("module"))
        modules[share["module"].get<std::string>()] += share["bytes"].get<std::int64_t>();
    EXPECT_EQ(modules["libtraced_plugin_a.so"], 99902) << stacks;
    EXPECT_EQ(modules["libtraced_plugin_b.so"], 99903) << stacks;
  }
}

TEST_F(Trace, RejectsSamplingFlagsInFullMode) {
  for (const char* flag : {"--large", "--sample-period"}) {
    EXPECT_THAT(
        trace({"/bin/true"}, {"--full", flag, "8KiB"}),
        IsRefused(AllOf(HasSubstr(std::string(flag) + " and --full"), HasSubstr("remove one of them"))));
    EXPECT_FALSE(fs::exists(recording()));
  }
  // The command line overrides the environment, in both directions.
  CommandOptions options = with({{"HEADROOM_LARGE", "8KiB"}, {"HEADROOM_SAMPLE_PERIOD", "1MiB"}});
  EXPECT_EQ(trace({"/bin/true"}, {"--full", "--force"}, options).exit_code, 0);
  EXPECT_TRUE(read(recording()).info.full);
  options.environment = {{"HEADROOM_FULL", "true"}};
  EXPECT_EQ(trace({"/bin/true"}, {"--large", "8KiB", "--force"}, options).exit_code, 0);
  EXPECT_FALSE(read(recording()).info.full);
  EXPECT_EQ(read(recording()).info.large_bytes, 8192u);
  options.environment = {{"HEADROOM_FULL", "true"}, {"HEADROOM_LARGE", "8KiB"}};
  EXPECT_EQ(trace({"/bin/true"}, {"--force"}, options).exit_code, 2);
  options.environment = {{"HEADROOM_RING", "64MiB"}};
  EXPECT_EQ(trace({"/bin/true"}, {"--force"}, options).exit_code, 0);
  EXPECT_TRUE(read(recording()).info.ring);
  EXPECT_EQ(trace({"/bin/true"}, {"--force", "--max-size", "64MiB"}, options).exit_code, 0);
  EXPECT_FALSE(read(recording()).info.ring);
}

TEST_F(Trace, DefaultOutputIsARunFolder) {
  CommandOptions options;
  options.folder = folder_.path();
  const auto result = run_headroom({"trace", "--", "/bin/true"}, options);
  EXPECT_EQ(result.exit_code, 0);
  std::vector<fs::path> runs;
  for (const auto& entry : fs::directory_iterator(folder_ / "outputs")) runs.push_back(entry.path());
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_TRUE(fs::exists(runs[0] / "true.hrec"));
  EXPECT_THAT(result.err,
              HasSubstr("next: headroom report outputs/" + runs[0].filename().string() + "/true.hrec"));
}

TEST_F(Trace, OverwritesNothingUnlessAsked) {
  ASSERT_EQ(shell("exit 0").exit_code, 0);
  EXPECT_THAT(shell("echo ran"), Ends(2, "", AllOf(HasSubstr("already exists"), HasSubstr("--force"))))
      << "the command ran";
  EXPECT_EQ(shell("exit 0", {"--force"}).exit_code, 0);
}

TEST_F(Trace, RejectsUntraceableCommandsBeforeTheyRun) {
  const fs::path plain = folder_ / "plain";
  write_text(plain, "#!/bin/sh\n");
  const auto refused = [&](const Words& command, const Words& flags, const char* why) {
    EXPECT_THAT(refusal_of(trace(command, flags)), HasSubstr(why));
    EXPECT_FALSE(fs::exists(recording()));
  };
  refused({"no-such-program-anywhere"}, {}, "PATH");
  refused({"/nowhere/app"}, {}, "No such file");
  refused({plain.string()}, {}, "not executable");
  refused({""}, {}, "without a name");
  refused({folder_.path().string()}, {}, "folder");
  refused({}, {}, "needs a command");
  refused({"/bin/true"}, {"--ring", "1MiB"}, "too small");
  refused({"/bin/true"}, {"--ring", "64MiB", "--max-events", "5"}, "cannot be combined");
  refused({"/bin/true"}, {"--large", "0B"}, "zero");
  refused({"/bin/true"}, {"--max-size", "64"}, "--max-size");
  EXPECT_THAT(run_headroom({"trace", "/bin/true", "--", "x"}), IsRefused(HasSubstr("before --")));
}

TEST_F(Trace, NamesALibraryThatIsMissingOrDoesNotRecord) {
  EXPECT_THAT(trace({"/bin/true"}, {}, with({{"HEADROOM_TRACER", "/nowhere/libheadroom_trace.so"}})),
              IsRefused(HasSubstr("/nowhere/libheadroom_trace.so")));

  // For a library that loads but records nothing, the command's exit code is kept, unless it is 0. The C
  // library serves as one, and unlike our own needs no sanitizer runtime before it.
  Dl_info c_library{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&gnu_get_libc_version), &c_library), 0);
  const auto options = with({{"HEADROOM_TRACER", c_library.dli_fname}});
  EXPECT_THAT(trace({"/bin/sh", "-c", "exit 9"}, {}, options),
              Ends(9, testing::_, HasSubstr("no recording was written")));
  EXPECT_EQ(trace({"/bin/true"}, {}, options).exit_code, 3);
}

TEST_F(Trace, RecordingStaysWithinItsSize) {
  if (!dependency_file("/usr/bin/python3")) GTEST_SKIP() << absent_message("python3");
  const Words program{"/usr/bin/python3", "-S", "-c", "for i in range(3000000): bytearray(600)"};
  for (const char* bound : {"--max-size", "--ring"}) {
    ASSERT_EQ(trace(program, {"--full", "--force", bound, "16MiB"}).exit_code, 0);
    EXPECT_LE(fs::file_size(recording()), 16u << 20) << bound;
    const Read recorded = read(recording());
    EXPECT_GT(recorded.events, 100'000u) << bound;
    EXPECT_GT(recorded.info.events_dropped + recorded.info.segments_overwritten, 0u) << bound;
  }
  ASSERT_EQ(trace(program, {"--full", "--force", "--max-events", "1000"}).exit_code, 0);
  EXPECT_LE(read(recording()).events, 1100u);
}

// If a file exceeds the file size limit (ulimit -f), a signal kills the process.
TEST_F(Trace, FileSizeLimitEndsTheRecordingNotTheProgram) {
  if (!dependency_file("/usr/bin/python3")) GTEST_SKIP() << absent_message("python3");
  CommandOptions options;
  options.most_file_bytes = 6 << 20;
  const Words program{"/usr/bin/python3", "-S", "-c",
                      "for i in range(600000): bytearray(600)\nprint('at its end')"};
  EXPECT_THAT(trace(program, {"--full"}, options),
              Ends(0, "at its end\n",
                   AllOf(HasSubstr("ulimit -f limits each recording to 6.0 MiB"),
                         HasSubstr("events: raise the limit on file sizes (ulimit -f)"))));
  EXPECT_LE(fs::file_size(recording()), options.most_file_bytes);
  const Read recorded = read(recording());
  EXPECT_GT(recorded.events, 100'000u);
  EXPECT_GT(recorded.info.events_dropped, 0u);
  EXPECT_TRUE(recorded.info.closed);
}

TEST_F(Trace, RunsNothingIfTheFileSizeLimitIsTooSmall) {
  CommandOptions options;
  options.most_file_bytes = 1 << 20;
  const auto result = trace({"/bin/echo", "ran"}, {}, options);
  EXPECT_THAT(result, Ends(2, "", HasSubstr("ulimit -f")));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

// Headroom ignores that signal for itself, but the command gets it as usual.
TEST_F(Trace, CommandThatExceedsItsFileSizeLimitIsKilled) {
  EXPECT_THAT(shell("ulimit -f 64; exec head -c 1000000 /dev/zero > big"),
              Ends(128 + SIGXFSZ, testing::_, HasSubstr("SIGXFSZ")));
  EXPECT_TRUE(fs::exists(recording()));
}

}  // namespace
}  // namespace headroom::test
