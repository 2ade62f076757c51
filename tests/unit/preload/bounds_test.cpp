// The recording stays within its limits, and reports what it dropped.
#include "unit/preload/traced_program.h"

namespace headroom::test {
namespace {

std::uint64_t segment_bytes(std::uint64_t segments) {
  return recording::kHeaderBytes + recording::kDefaultMetadataBytes +
         segments * recording::kDefaultSegmentBytes;
}

std::uint64_t events_in_gaps(const SeenRecording& seen) {
  std::uint64_t events = 0;
  for (const SeenEvent& event : seen.events)
    if (event.event.kind == MemoryEventKind::gap) events += event.event.count;
  return events;
}

TEST(TraceBounds, LimitDropsAndCountsTheLatestEvents) {
  const SeenRecording seen = recording_of({"trace_storm", "1000000", "1"}, "full=1,limit=2");
  EXPECT_LE(seen.info.file_bytes, segment_bytes(2));
  EXPECT_THAT(seen.problems, testing::IsEmpty());
  EXPECT_THAT(seen.info.notes, testing::ElementsAre(testing::HasSubstr("limit of segments")));
  const std::size_t kept = seen.count(MemoryEventKind::allocate) + seen.count(MemoryEventKind::release);
  EXPECT_GT(kept, 200'000u);
  EXPECT_NEAR(static_cast<double>(kept + seen.info.events_dropped), 1'002'000, 2'100);
}

TEST(TraceBounds, RingKeepsTheLatestEvents) {
  const SeenRecording seen = recording_of({"trace_storm", "1000000", "1"}, "full=1,ring=3");
  EXPECT_LE(seen.info.file_bytes, segment_bytes(3));
  EXPECT_THAT(seen.problems, testing::IsEmpty());
  EXPECT_EQ(seen.info.events_dropped, 0u);
  EXPECT_GT(seen.info.segments_overwritten, 0u);
  EXPECT_EQ(seen.info.segments, 3u);
  ASSERT_FALSE(seen.events.empty());
  EXPECT_GT(seen.events.front().event.time.count, 0);
  // The end of the storm is in the ring: no slot is live any more.
  std::map<std::uint64_t, int> live;
  for (const SeenEvent& event : seen.events) {
    if (event.event.kind == MemoryEventKind::allocate) live[event.event.address] = 1;
    if (event.event.kind == MemoryEventKind::release) live.erase(event.event.address);
  }
  EXPECT_LT(live.size(), 10u);
}

// A change of scope is an event, and so are the counts written before it.
TEST(TraceBounds, EventLimitIncludesScopes) {
  TracedProgram unbounded("full=1");
  ASSERT_TRUE(unbounded.run({program_path("traced_scopes")}).status.success());
  const std::size_t all = unbounded.root().events.size();
  for (const char* mode : {"full=1,events=40", "full=0,events=40"}) {
    const SeenRecording seen = recording_of({"traced_scopes"}, mode);
    const std::size_t gaps = seen.count(MemoryEventKind::gap) + seen.count(MemoryEventKind::release_counters);
    EXPECT_LE(seen.events.size() - gaps, 40u) << mode;
    EXPECT_GT(seen.info.events_dropped, 100u) << mode;
    if (seen.info.full) {
      EXPECT_EQ(seen.events.size() - gaps + seen.info.events_dropped, all) << "each counted once";
    }
  }
}

// The main thread occupies the only segment, so the others get none.
TEST(TraceBounds, RingSmallerThanTheThreadCountDropsEvents) {
  const SeenRecording seen = recording_of({"traced_threads", "20", "3"}, "full=1,ring=1");
  EXPECT_LE(seen.info.file_bytes, segment_bytes(1));
  EXPECT_THAT(seen.problems, testing::IsEmpty());
  EXPECT_GE(seen.info.events_dropped, 20u * 3 * 200);
  for (const SeenEvent& event : seen.events) ASSERT_EQ(event.event.thread.index, 0u);
  EXPECT_THAT(seen.info.notes, testing::ElementsAre(testing::HasSubstr("fewer segments")));
}

// One segment per thread, and one more to continue in.
TEST(TraceBounds, RingWithASpareSegmentDropsNothing) {
  const SeenRecording seen = recording_of({"trace_storm", "400000", "4"}, "full=1,ring=5");
  EXPECT_EQ(seen.info.events_dropped, 0u);
  EXPECT_EQ(events_in_gaps(seen), 0u);
  EXPECT_EQ(seen.info.segments, 5u);
  EXPECT_GT(seen.info.segments_overwritten, 0u);
  EXPECT_THAT(seen.info.notes, testing::IsEmpty());
}

// Ended threads leave half-full segments; the ring reuses them for running threads.
TEST(TraceBounds, EndedThreadsReleaseTheirRingSegments) {
  const SeenRecording seen = recording_of({"traced_crowd", "3", "3", "900000"}, "full=1,ring=4");
  EXPECT_EQ(seen.info.events_dropped, 0u);
  EXPECT_EQ(seen.info.segments, 4u);
  for (const SeenEvent& event : seen.events) ASSERT_EQ(event.event.thread.index, 0u);
}

// Threads reserve several events at a time and return unused ones.
TEST(TraceBounds, EventLimitIsExact) {
  for (const auto& [threads, bound] :
       {std::pair{"1", 5000u}, std::pair{"4", 5000u}, std::pair{"4", 100'000u}}) {
    const SeenRecording seen =
        recording_of({"trace_storm", "100000", threads}, "full=1,events=" + std::to_string(bound));
    EXPECT_EQ(seen.count(MemoryEventKind::allocate) + seen.count(MemoryEventKind::release), bound);
    EXPECT_GT(seen.info.events_dropped + events_in_gaps(seen), 0u);
    EXPECT_THAT(seen.info.notes, testing::ElementsAre(testing::HasSubstr("bound on its events")));
  }
}

// Beyond RLIMIT_FSIZE the kernel kills the program, so the tracer must stay below.
TEST(TraceBounds, FileSizeLimitDoesNotKillTheProgram) {
  TracedProgram traced;
  const std::string command = "ulimit -f 7168; exec " + program_path("trace_storm") + " 1000000 1";  // in KiB
  ASSERT_TRUE(traced.run({"/bin/bash", "-c", command}).status.success());
  for (const auto& [name, seen] : traced.others()) {
    EXPECT_LE(seen.info.file_bytes, 7u << 20);
    EXPECT_GT(seen.info.events_dropped, 0u);
    EXPECT_GT(seen.events.size(), 100'000u);
  }
}

// A full disk costs events but does not end the program. Mounting a file system requires a privilege that not
// every user has.
TEST(TraceBounds, FullDiskDoesNotKillTheProgram) {
  TracedProgram traced;
  const auto disk = traced.folder() / "disk";
  std::filesystem::create_directory(disk);
  const auto file = disk / "root.hrec";
  traced.set_environment("HEADROOM_TRACE_FILE", file.string());
  const std::string command = "mount -t tmpfs -o size=2m tmpfs " + disk.string() +
                              " 2>/dev/null || exit 99; LD_PRELOAD=" + trace_library() + " " +
                              program_path("trace_storm") + " 1000000 1; status=$?; cp --sparse=always " +
                              file.string() + " " + traced.root_path().string() + "; exit $status";
  const ProgramRun run =
      traced.run({"/usr/bin/env", "-u", "LD_PRELOAD", "unshare", "-m", "/bin/bash", "-c", command});
  if (run.status.exit_code == 99 || run.status.exit_code == 1)
    GTEST_SKIP() << "a small disk cannot be mounted here";
  ASSERT_TRUE(run.status.success()) << run.status.describe();
  const SeenRecording seen = traced.root();
  EXPECT_GT(seen.events.size(), 50'000u);
  EXPECT_GT(seen.info.events_dropped + events_in_gaps(seen), 0u);
  EXPECT_THAT(seen.info.notes, testing::ElementsAre(testing::HasSubstr("disk space")));
}

}  // namespace
}  // namespace headroom::test
