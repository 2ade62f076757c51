// How processes start and end.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstring>
#include <filesystem>

#include "unit/preload/traced_program.h"

namespace headroom::test {
namespace {

ProgramRun run_process(TracedProgram& traced, const std::string& mode) {
  return traced.run({program_path("traced_process"), mode});
}

TEST(TraceProcess, EveryOrderlyExitClosesTheRecording) {
  for (const char* mode : {"exit", "_exit", "_Exit", "quick_exit"}) {
    TracedProgram traced;
    EXPECT_EQ(run_process(traced, mode).status.exit_code, 7) << mode;
    const SeenRecording seen = traced.root();
    EXPECT_TRUE(seen.info.closed) << mode;
    EXPECT_EQ(seen.allocations_of(77701), 3u) << mode;
    EXPECT_EQ(seen.released_of(77701), 3u) << mode;
    EXPECT_EQ(seen.allocations_of(77702), 0u) << mode;
    EXPECT_THAT(seen.problems, testing::IsEmpty()) << mode;
  }
}

// Flips a bit in the header, in the metadata and in a segment that was never full.
TEST(TraceProcess, DetectsAFlippedBitAfterEveryOrderlyExit) {
  for (const char* mode : {"exit", "_exit", "quick_exit", "exec-untraced-execve"}) {
    TracedProgram traced;
    run_process(traced, mode);
    ASSERT_THAT(traced.root().problems, testing::IsEmpty()) << mode;
    const std::string good = test::read_text(traced.root_path());
    constexpr std::size_t kMetadata = recording::kHeaderBytes + sizeof(recording::MetadataHeader) + 4;
    constexpr std::size_t kRecords =
        recording::kHeaderBytes + recording::kDefaultMetadataBytes + sizeof(recording::SegmentHeader) + 20;
    for (const std::size_t at : {offsetof(recording::FileHeader, pid), kMetadata, kRecords}) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ 16);
      test::write_text(traced.root_path(), bytes);
      EXPECT_THAT(traced.root().problems, testing::Contains(testing::HasSubstr("checksum"))) << mode << at;
    }
  }
}

TEST(TraceProcess, ACrashLeavesAnIntactRecordingThatIsNotClosed) {
  for (const auto& [mode, signal] : {std::pair{"abort", SIGABRT}, std::pair{"kill", SIGKILL}}) {
    TracedProgram traced;
    EXPECT_EQ(run_process(traced, mode).status.signal, signal);
    const SeenRecording seen = traced.root();
    EXPECT_FALSE(seen.info.closed) << mode;
    EXPECT_EQ(seen.allocations_of(77701), 3u) << mode;
    EXPECT_THAT(seen.problems, testing::IsEmpty()) << mode;
  }
}

// Default mode with thresholds so high that almost nothing is recorded.
constexpr const char* kOnlyCounts = "full=0,large=1000000,period=1000000000000";

std::uint64_t counted_bytes(const SeenRecording& recording) {
  std::uint64_t bytes = 0;
  for (const SeenEvent& seen : recording.events)
    if (seen.event.kind == MemoryEventKind::counters) bytes += seen.event.size;
  return bytes;
}

TEST(TraceProcess, CrashInDefaultModeLosesNoCounts) {
  TracedProgram traced(kOnlyCounts);
  EXPECT_EQ(run_process(traced, "kill").status.signal, SIGKILL);
  EXPECT_GE(counted_bytes(traced.root()), 3u * 77701);
}

TEST(TraceProcess, KeepsCountsOfAClonedChildApartFromItsParent) {
  TracedProgram traced(kOnlyCounts);
  ASSERT_TRUE(run_process(traced, "clone").status.success());
  const std::uint64_t of_parent = counted_bytes(traced.root());
  EXPECT_GE(of_parent, 5u * 77705);
  EXPECT_LT(of_parent, 100u * 77706);
  const auto others = traced.others();
  ASSERT_EQ(others.size(), 1u);
  EXPECT_GE(counted_bytes(others.begin()->second), 600u * 77706);
}

TEST(TraceProcess, RecordsProgramsThatHandleFaultsAndSignals) {
  TracedProgram faults, signals;
  ASSERT_TRUE(run_process(faults, "fault").status.success());
  const SeenRecording seen = faults.root();
  EXPECT_EQ(seen.allocations_of(77703), 10u);
  EXPECT_EQ(seen.released_of(77703), 10u);
  EXPECT_EQ(seen.allocations_of(77702), 4u);
  ASSERT_TRUE(run_process(signals, "handler").status.success());
  EXPECT_EQ(signals.root().allocations_of(77704), 10u);
}

TEST(TraceProcess, ChildrenWriteTheirOwnRecordings) {
  TracedProgram traced;
  ASSERT_TRUE(run_process(traced, "fork").status.success());
  const SeenRecording root = traced.root();
  EXPECT_EQ(root.allocations_of(77701), 3u);
  EXPECT_EQ(root.allocations_of(77702), 4u);
  EXPECT_EQ(root.allocations_of(77705), 0u);
  EXPECT_FALSE(root.info.forked);
  const auto others = traced.others();
  ASSERT_EQ(others.size(), 2u);
  std::size_t children = 0, grandchildren = 0;
  for (const auto& [name, seen] : others) {
    EXPECT_EQ(name, std::to_string(seen.info.pid) + "-0.hrec");
    EXPECT_TRUE(seen.info.closed);
    EXPECT_TRUE(seen.info.forked);
    EXPECT_THAT(seen.problems, testing::IsEmpty());
    EXPECT_EQ(seen.allocations_of(77701), 0u);
    EXPECT_FALSE(seen.info.modules.empty());
    if (seen.info.parent_pid == root.info.pid) {
      children += seen.allocations_of(77705);
    } else {
      grandchildren += seen.allocations_of(77706);
    }
  }
  EXPECT_EQ(children, 5u);
  EXPECT_EQ(grandchildren, 6u);
}

TEST(TraceProcess, ForkWhileThreadsAllocateCorruptsNoRecording) {
  for (const char* options : {"full=1", "full=0"}) {
    TracedProgram traced(options);
    ASSERT_TRUE(run_process(traced, "fork-many").status.success());
    const auto others = traced.others();
    EXPECT_EQ(others.size(), 50u);
    for (const auto& [name, seen] : others) {
      EXPECT_THAT(seen.problems, testing::IsEmpty()) << name;
      EXPECT_EQ(seen.allocations_of(77705), 5u) << name;
      EXPECT_EQ(seen.released_of(77705), 5u) << name;
    }
    const SeenRecording root = traced.root();
    EXPECT_THAT(root.problems, testing::IsEmpty());
    EXPECT_EQ(root.allocations_of(77702), 4u);
    EXPECT_EQ(root.info.events_dropped, 0u);
  }
}

TEST(TraceProcess, RecordsAChildWithoutAnEnvironment) {
  TracedProgram traced;
  ASSERT_TRUE(run_process(traced, "fork-cleared").status.success());
  const auto others = traced.others();
  ASSERT_EQ(others.size(), 1u);
  EXPECT_EQ(others.begin()->second.allocations_of(77705), 5u);
}

TEST(TraceProcess, AChildKnowsItsParentsModulesWithoutTheLoadersLock) {
  TracedProgram traced;
  ASSERT_TRUE(run_process(traced, "fork-loading").status.success());
  const SeenRecording root = traced.root();
  const auto others = traced.others();
  EXPECT_EQ(others.size(), 50u);
  for (const auto& [name, seen] : others) {
    ASSERT_EQ(seen.info.modules.size(), root.info.modules.size()) << name;
    for (std::size_t i = 0; i < seen.info.modules.size(); ++i) {
      EXPECT_EQ(seen.info.modules[i].path, root.info.modules[i].path);
      EXPECT_EQ(seen.info.modules[i].build_id, root.info.modules[i].build_id);
    }
  }
}

// The next program is static or has another environment, so only the hooks can record that this one ended.
TEST(TraceProcess, ExecOfAnUntracedProgramClosesTheRecording) {
  for (const char* call : {"execve", "execle", "execl", "execlp", "execv", "execvp"}) {
    TracedProgram traced;
    EXPECT_EQ(run_process(traced, std::string("exec-untraced-") + call).status.exit_code, 0) << call;
    EXPECT_TRUE(traced.root().info.closed) << call;
    EXPECT_THAT(traced.others(), testing::IsEmpty()) << call;
  }
  TracedProgram traced;
  run_process(traced, "exec-untraced-fails");
  EXPECT_FALSE(traced.root().info.closed);
  EXPECT_EQ(traced.root().allocations_of(77707), 1u);
  EXPECT_THAT(traced.root().problems, testing::IsEmpty());
}

// No hook sees the second kind. The next program finds the recording of its own process and closes it.
TEST(TraceProcess, ExecClosesTheRecordingAndStartsTheNextGeneration) {
  for (const char* mode : {"exec", "exec-by-syscall"}) {
    TracedProgram traced;
    EXPECT_EQ(run_process(traced, mode).status.exit_code, 7) << mode;
    const SeenRecording root = traced.root();
    EXPECT_TRUE(root.info.closed) << mode;
    EXPECT_EQ(root.info.exec_generation, 0) << mode;
    EXPECT_EQ(root.allocations_of(77701), 3u) << mode;
    const auto others = traced.others();
    ASSERT_EQ(others.size(), 1u) << mode;
    const auto& [name, next] = *others.begin();
    EXPECT_EQ(name, std::to_string(root.info.pid) + "-1.hrec");
    EXPECT_EQ(next.info.exec_generation, 1);
    EXPECT_EQ(next.allocations_of(77701), 3u);
  }
}

// A killed process's pid is used again later. The first process's recording must stay open.
TEST(TraceProcess, LeavesTheRecordingOfAnEarlierProcessWithTheSamePid) {
  TracedProgram traced;
  EXPECT_EQ(run_process(traced, "kill").status.signal, SIGKILL);
  ::usleep(50'000);  // the kernel reports process start times in steps of 10 ms
  const std::string root = traced.root_path(), tree = root + ".d", program = program_path("traced_process");
  ASSERT_TRUE(std::filesystem::create_directory(tree));
  const std::string preload = "LD_PRELOAD=" + trace_library(), file = "HEADROOM_TRACE_FILE=" + root;
  const char* const arguments[] = {program.c_str(), "exit", nullptr};
  const char* const environment[] = {preload.c_str(), file.c_str(), "HEADROOM_TRACE_OPTIONS=full=1", nullptr};
  const std::string earlier = test::read_text(root);
  const pid_t child = ::fork();
  if (child == 0) {
    // The file that the killed process would have left, had it been a child with this pid.
    const std::int32_t own = ::getpid();
    std::string bytes = earlier;
    std::memcpy(&bytes[offsetof(recording::FileHeader, pid)], &own, sizeof own);
    test::write_text(tree + "/" + std::to_string(own) + "-0.hrec", bytes);
    ::execve(program.c_str(), const_cast<char**>(arguments), const_cast<char**>(environment));
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  const auto others = traced.others();
  ASSERT_EQ(others.size(), 2u);
  const SeenRecording& killed = others.at(std::to_string(child) + "-0.hrec");
  EXPECT_FALSE(killed.info.closed) << "it was killed";
  const SeenRecording& later = others.at(std::to_string(child) + "-1.hrec");
  EXPECT_TRUE(later.info.closed);
  EXPECT_EQ(later.info.exec_generation, 0) << "it ran no program before";
}

TEST(TraceProcess, ChildrenThatOnlyExecDoNotChangeTheirParentsRecording) {
  for (const char* mode : {"vfork", "spawn"}) {
    TracedProgram traced;
    ASSERT_TRUE(run_process(traced, mode).status.success()) << mode;
    const SeenRecording root = traced.root();
    EXPECT_EQ(root.allocations_of(77701), 3u) << mode;
    EXPECT_EQ(root.allocations_of(77702), 4u) << mode;
    for (const auto& [name, seen] : traced.others()) EXPECT_EQ(seen.info.executable, "/usr/bin/true") << name;
  }
  TracedProgram failing;
  failing.set_environment("PATH", "/nowhere");
  ASSERT_TRUE(run_process(failing, "vfork").status.success());
  EXPECT_EQ(failing.root().allocations_of(77702), 4u);
}

TEST(TraceProcess, NeverWritesToDescriptorsThatTheProgramReuses) {
  TracedProgram traced;
  const auto file = traced.folder() / "own.txt";
  ASSERT_TRUE(traced.run({program_path("traced_process"), "close-all", file.string()}).status.success());
  EXPECT_EQ(read_text(file), "mine alone\n");
  const SeenRecording seen = traced.root();
  EXPECT_EQ(seen.info.events_dropped, 0u);
  EXPECT_EQ(seen.allocations_of(64), 300'000u);
  EXPECT_EQ(seen.allocations_of(77702), 4u);
}

TEST(TraceProcess, WritesNothingWithoutTheVariablesOrForAStaticProgram) {
  TracedProgram traced;
  ASSERT_TRUE(traced.run({program_path("traced_static"), "1000"}).status.success());
  traced.set_environment("HEADROOM_TRACE_FILE", "");
  ASSERT_TRUE(run_process(traced, "fork").status.success());
  traced.set_environment("HEADROOM_TRACE_FILE", "/proc/no-such-folder/root.hrec");
  ASSERT_TRUE(run_process(traced, "fork").status.success());
  EXPECT_TRUE(std::filesystem::is_empty(traced.folder().path()));
}

// Compares the recording's clock with the program's sleep: the time between two events is at least as long.
TEST(TraceProcess, TimesAreInNanoseconds) {
  TracedProgram traced;
  const auto before = std::chrono::steady_clock::now();
  ASSERT_TRUE(traced
                  .run({"/bin/bash", "-c",
                        program_path("traced_process") + " fork; sleep 0.1; exec " +
                            program_path("traced_process") + " exit || true"})
                  .status.exit_code == 7);
  const auto longest = std::chrono::steady_clock::now() - before;
  std::int64_t first = INT64_MAX, last = 0;
  for (const auto& [name, seen] : traced.others()) {
    first = std::min(first, seen.info.started_realtime_ns);
    last = std::max(last, seen.info.started_realtime_ns + seen.info.duration.count);
  }
  EXPECT_GE(last - first, 99'000'000);
  EXPECT_LE(last - first, std::chrono::nanoseconds(longest).count() * 101 / 100);
}

}  // namespace
}  // namespace headroom::test
