// The malloc family, operator new and mmap: recorded event by event in full mode, and to the byte in default
// mode.
#include <set>
#include <sstream>

#include "unit/preload/traced_program.h"

namespace headroom::test {
namespace {

void expect_one_of_each(const SeenRecording& seen, std::initializer_list<std::uint64_t> sizes) {
  for (const std::uint64_t size : sizes) {
    EXPECT_EQ(seen.allocations_of(size), 1u) << size;
    EXPECT_EQ(seen.released_of(size), 1u) << size;
  }
}

std::vector<std::uint64_t> sizes_of(const SeenRecording& seen, MemoryEventKind kind) {
  std::vector<std::uint64_t> sizes;
  for (const SeenEvent& event : seen.events)
    if (event.event.kind == kind) sizes.push_back(event.event.size);
  return sizes;
}

TEST(TraceMalloc, RecordsEachFunction) {
  const SeenRecording seen = recording_of({"traced_family"});
  EXPECT_THAT(seen.problems, testing::IsEmpty());
  EXPECT_TRUE(seen.info.full);
  EXPECT_TRUE(seen.info.closed);
  expect_one_of_each(seen, {100001, 100002, 100003, 100004, 100005, 100006, 100007, 100008, 100009});
  // realloc is a release and an allocation, unless it fails.
  expect_one_of_each(seen, {200001, 2000002, 203});
  EXPECT_EQ(seen.allocations_of(std::uint64_t{1} << 60), 0u);
  EXPECT_THAT(sizes_of(seen, MemoryEventKind::map), testing::ElementsAre(300000u, 400000u, 2u << 20));
  EXPECT_THAT(sizes_of(seen, MemoryEventKind::unmap), testing::ElementsAre(300000u, 400000u));
  // Addresses without access do not count as mapped memory until they get access.
  EXPECT_THAT(sizes_of(seen, MemoryEventKind::reserve), testing::ElementsAre(8u << 20, 2u << 20));
  EXPECT_THAT(sizes_of(seen, MemoryEventKind::make_accessible), testing::ElementsAre(1u << 20));
}

TEST(TraceMalloc, OperatorNewIsCountedOnceAndItsExceptionsPass) {
  for (const char* program : {"traced_new", "traced_own_new"}) {
    const SeenRecording seen = recording_of({program});
    SCOPED_TRACE(program);
    expect_one_of_each(seen, {88801, 88802, 88803, 88804, 88805, 88832, 88896, 89600});
  }
}

TEST(TraceMalloc, RecordsBrkAsAMapping) {
  std::int64_t mapped = 0, most = 0;
  for (const SeenEvent& event : recording_of({"traced_process", "break"}).events) {
    if (event.event.kind == MemoryEventKind::map) mapped += static_cast<std::int64_t>(event.event.size);
    if (event.event.kind == MemoryEventKind::unmap) mapped -= static_cast<std::int64_t>(event.event.size);
    most = std::max(most, mapped);
  }
  EXPECT_EQ(most, 3'000'000 + 1'000'000);
  EXPECT_EQ(mapped, 2'000'000);
}

// The operator puts a header before each block, so the trial block must be released by the matching operator.
TEST(TraceMalloc, LeavesOperatorNewWithAHeaderAlone) {
  // The program's own operators, and those of a library, which leaves the other forms to the standard
  // library.
  for (const char* program : {"traced_own_new_with_header", "traced_new_of_library"}) {
    for (const char* mode : {"full=1", "full=0"}) {
      TracedProgram traced(mode);
      ASSERT_TRUE(traced.run({program_path(program)}).status.success()) << program << " " << mode;
      const SeenRecording seen = traced.root();
      // The forms that the program defines; the aligned ones are the library's.
      for (const std::uint64_t size : {88801u, 88802u, 88803u, 88804u, 88805u})
        EXPECT_EQ(seen.allocations_of(size + 32), 1u) << program << " " << size;
    }
  }
}

void expect_a_new_handler_undisturbed(TracedProgram& traced) {
  ASSERT_TRUE(traced.run({program_path("traced_new_handler")}).status.success());
  const SeenRecording seen = traced.root();
  EXPECT_EQ(seen.allocations_of(88807), 4u);
  EXPECT_EQ(seen.released_of(88807), 4u);
  EXPECT_EQ(seen.allocations_of(88808), 1u);
}

TEST(TraceMalloc, LeavesNewHandlersAlone) {
  for (const char* mode : {"full=1", "full=0"}) {
    TracedProgram traced(mode);
    expect_a_new_handler_undisturbed(traced);
  }
  // Allocators with their own operators, which are recorded.
  for (const char* name : {"/libjemalloc.so.2", "/libtcmalloc_minimal.so.4"}) {
    const auto library = dependency_file(std::string(HEADROOM_SYSTEM_LIBRARIES) + name);
    if (!library) GTEST_SKIP() << absent_message(name);
    TracedProgram traced;
    traced.preload_also(library->string());
    expect_a_new_handler_undisturbed(traced);
  }
}

// The program's own counts: small allocations, bytes and releases, then large ones.
std::vector<std::uint64_t> figures_of(const std::string& output) {
  std::istringstream in(output);
  std::vector<std::uint64_t> figures(6);
  for (std::uint64_t& figure : figures) in >> figure;
  return figures;
}

// The C and C++ libraries allocate a few more blocks. The largest are the pool for exceptions (72,704 bytes)
// and the program's table of slots (8192).
TEST(TraceMalloc, CountsMatchTheProgramsInBothModes) {
  for (const char* mode : {"full=1", "full=0,large=4096,period=65536"}) {
    SCOPED_TRACE(mode);
    TracedProgram traced(mode);
    const ProgramRun run = traced.run({program_path("traced_small")});
    ASSERT_TRUE(run.status.success());
    const auto figures = figures_of(run.output);
    const SeenRecording seen = traced.root();
    EXPECT_THAT(seen.problems, testing::IsEmpty());
    EXPECT_EQ(seen.info.events_dropped, 0u);
    std::uint64_t small = 0, small_bytes = 0, large = 0, large_bytes = 0, releases = 0, samples = 0;
    double estimated_bytes = 0;
    for (const auto& [event, scope, frames] : seen.events) {
      const bool is_sample = event.kind == MemoryEventKind::sampled_allocate;
      if (event.kind == MemoryEventKind::counters) {
        small += event.count;
        small_bytes += event.size;
      } else if (is_sample || event.kind == MemoryEventKind::allocate) {
        (event.size < 4096 ? small : large) += 1;
        (event.size < 4096 ? small_bytes : large_bytes) += event.size;
      }
      if (is_sample) {
        ++samples;
        estimated_bytes += event.weight * static_cast<double>(event.size);
      }
      if (event.kind == MemoryEventKind::release) ++releases;
      if (event.kind == MemoryEventKind::release_counters) releases += event.count;
    }
    const auto expect_about = [](std::uint64_t found, std::uint64_t of_program, std::uint64_t more) {
      EXPECT_GE(found, of_program);
      EXPECT_LE(found, of_program + more);
    };
    expect_about(small, figures[0], 20);
    expect_about(small_bytes, figures[1], 10'000);
    expect_about(releases, figures[2] + figures[5], 20);
    expect_about(large, figures[3], 5);
    expect_about(large_bytes, figures[4], 200'000);
    if (seen.info.full) continue;
    // About 50 MB of small blocks with a sample per 64 KiB: 760 samples, with a standard deviation of 28. The
    // test allows five.
    EXPECT_GT(samples, 600u);
    EXPECT_NEAR(estimated_bytes / static_cast<double>(small_bytes), 1, 0.2);
  }
}

TEST(TraceMalloc, StacksReachFromTheLeafToMain) {
  for (const char* mode : {"fp", "unwind"}) {
    const SeenRecording seen =
        recording_of({"trace_storm", "2000", "1"}, std::string("full=1,stacks=") + mode);
    const recording::Module* program = nullptr;
    for (const auto& module : seen.info.modules)
      if (module.path.ends_with("/trace_storm")) program = &module;
    ASSERT_NE(program, nullptr);
    EXPECT_EQ(program->build_id.size(), 40u);
    std::size_t storm = 0;
    for (const SeenEvent& event : seen.events) {
      if (event.event.kind != MemoryEventKind::allocate || event.frames.empty()) continue;
      const auto in_program = [&](std::uint64_t frame) {
        return frame >= program->start && frame < program->end;
      };
      if (!in_program(event.frames[0])) continue;
      // Ten functions, storm and main.
      if (std::count_if(event.frames.begin(), event.frames.end(), in_program) >= 12) ++storm;
    }
    EXPECT_GT(storm, 900u) << mode;
  }
  TracedProgram without("full=1,stacks=off");
  ASSERT_TRUE(without.run({program_path("trace_storm"), "2000", "1"}).status.success());
  for (const SeenEvent& event : without.root().events) ASSERT_TRUE(event.frames.empty());
}

// Each stack is defined once in a segment, and one segment holds all events of this program.
TEST(TraceMalloc, DefinesThousandsOfStacksOnce) {
  constexpr std::uint64_t kStacks = 20'000;
  const SeenRecording seen = recording_of({"trace_storm", "300000", "1", "20000"}, "full=1");
  EXPECT_THAT(seen.problems, testing::IsEmpty());
  EXPECT_EQ(seen.info.segments, 1u);
  std::set<std::vector<std::uint64_t>> stacks;
  for (const SeenEvent& event : seen.events)
    if (event.event.kind == MemoryEventKind::allocate && event.frames.size() >= 12)
      stacks.insert(event.frames);
  EXPECT_NEAR(static_cast<double>(stacks.size()), static_cast<double>(kStacks), 100);
  // An event takes at most 8 bytes. A stack has 26 frames on average, of up to 4 bytes.
  constexpr std::uint64_t kBeforeSegments = recording::kHeaderBytes + recording::kDefaultMetadataBytes;
  EXPECT_LT(seen.info.file_bytes, kBeforeSegments + 8 * seen.events.size() + kStacks * (26 + 4) * 4);
}

}  // namespace
}  // namespace headroom::test
