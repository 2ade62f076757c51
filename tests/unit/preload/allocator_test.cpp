// Other allocators with the tracer.
#include <sstream>

#include "unit/preload/traced_program.h"

namespace headroom::test {
namespace {

class TraceAllocator : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto library = dependency_file(GetParam());
    if (!library) GTEST_SKIP() << absent_message(GetParam());
    traced_.preload_also(library->string());
  }
  TracedProgram traced_;
};

TEST_P(TraceAllocator, MallocIsRecorded) {
  const ProgramRun run = traced_.run({program_path("traced_threads"), "20", "2"});
  ASSERT_TRUE(run.status.success());
  std::istringstream in(run.output);
  std::uint64_t allocations = 0, releases = 0, bytes = 0;
  while (in >> allocations >> releases >> bytes) {
  }
  const SeenRecording seen = traced_.root();
  EXPECT_THAT(seen.problems, testing::IsEmpty());
  std::size_t found = 0, released = 0;
  for (std::uint64_t size = 100'001; size < 180'000; size += 10'000) {
    found += seen.allocations_of(size);
    released += seen.released_of(size);
  }
  EXPECT_EQ(found, allocations);
  EXPECT_EQ(released, releases);
  bool is_loaded = false;
  for (const auto& module : seen.info.modules)
    is_loaded |=
        module.path.find(std::filesystem::canonical(GetParam()).filename().string()) != std::string::npos;
  EXPECT_TRUE(is_loaded);
}

TEST_P(TraceAllocator, OperatorNewIsRecordedOnce) {
  ASSERT_TRUE(traced_.run({program_path("traced_new"), "possible"}).status.success());
  const SeenRecording seen = traced_.root();
  for (const std::uint64_t size : {88801u, 88802u, 88803u, 88804u, 88805u, 88832u, 88896u, 89600u}) {
    EXPECT_EQ(seen.allocations_of(size), 1u) << size;
    EXPECT_EQ(seen.released_of(size), 1u) << size;
  }
  // The allocator's own mappings are not recorded as the program's.
  for (const SeenEvent& event : seen.events)
    EXPECT_FALSE(event.event.kind == MemoryEventKind::map && event.event.size >= 1u << 20);
}

TEST_P(TraceAllocator, ForkedChildrenSurvive) {
  ASSERT_TRUE(traced_.run({program_path("traced_process"), "fork"}).status.success());
  EXPECT_EQ(traced_.others().size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Debian, TraceAllocator,
                         testing::Values(HEADROOM_SYSTEM_LIBRARIES "/libjemalloc.so.2",
                                         HEADROOM_SYSTEM_LIBRARIES "/libtcmalloc_minimal.so.4",
                                         HEADROOM_SYSTEM_LIBRARIES "/libmimalloc.so.2.0"));

}  // namespace
}  // namespace headroom::test
