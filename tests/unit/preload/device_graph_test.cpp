// Memory nodes of graphs with the preload library, against the fake driver. Only cases that are specific to
// graphs; the routes of traced_cuda.cpp in device_test.cpp cover the rest.
#include "unit/preload/traced_program.h"

namespace headroom::test {
namespace {

class TraceDeviceGraphs : public testing::Test {
 protected:
  using Kind = MemoryEventKind;
  static constexpr std::uint64_t kLimit = 1'000'000'000, kStep = 7 << 20;
  ProgramRun run(TracedProgram& traced, const std::string& route) {
    traced.set_environment("LD_LIBRARY_PATH", test::built_path("tests/fake_cuda"));
    return traced.run(
        {program_path("traced_cuda"), "proc", route, std::to_string(kLimit), std::to_string(kStep)});
  }
};

TEST_F(TraceDeviceGraphs, ChargesGraphMemoryThatTheDriverTookBeyondTheEstimate) {
  for (const char* mode : {"full=1,device=", "gpu,ledger=1,device="}) {
    TracedProgram traced(mode + std::to_string(kLimit));
    traced.set_environment("FAKE_CUDA_GRAPH_STEP", std::to_string(96 << 20));
    const ProgramRun run = this->run(traced, "beyond");
    EXPECT_TRUE(run.status.success()) << run.output;
    EXPECT_THAT(run.output, testing::HasSubstr("the driver has 100663296 for 64 KiB")) << run.output;
  }
}

// The account is charged whole steps; the recording has the requested bytes.
TEST_F(TraceDeviceGraphs, RecordsTheBlocksOfEachGraphAndTheirRelease) {
  TracedProgram traced("full=1,device=" + std::to_string(kLimit));
  const ProgramRun run = this->run(traced, "many");
  ASSERT_TRUE(run.status.success()) << run.output;
  std::size_t made = 0, gone = 0, refused = 0;
  for (const SeenEvent& one : traced.root().events) {
    if (one.event.device_kind != DeviceMemoryKind::graph) continue;
    if (one.event.kind == Kind::device_allocate) {
      EXPECT_EQ(one.event.size, 64u << 10);
      ++made;
    }
    if (one.event.kind == Kind::device_release) ++gone;
    if (one.event.kind == Kind::device_refused) ++refused;
  }
  EXPECT_EQ(made, kLimit >> 25);
  EXPECT_EQ(gone, made);
  EXPECT_EQ(refused, 1u);
}

// Without a limit, because then no later call updates the graph figures.
TEST_F(TraceDeviceGraphs, RecordsTheEffectOfATrimAtOnce) {
  TracedProgram traced("gpu");
  traced.set_environment("LD_LIBRARY_PATH", test::built_path("tests/fake_cuda"));
  const ProgramRun run = traced.run({program_path("traced_cuda_lookup"), "trims", "none"});
  ASSERT_TRUE(run.status.success()) << run.output;
  std::uint64_t kept = 0, most = 0;
  bool is_allocated_after = false;
  for (const SeenEvent& one : traced.root().events) {
    if (one.event.kind == Kind::device_figure && one.event.device_kind == DeviceMemoryKind::graph_reserved) {
      kept = one.event.size;
      most = std::max(most, kept);
    }
    if (one.event.kind != Kind::device_allocate || one.event.size != 1u << 20) continue;
    is_allocated_after = true;
    EXPECT_EQ(kept, 0u) << "by the time of the next allocation";
  }
  EXPECT_EQ(most, 32u << 20);
  EXPECT_TRUE(is_allocated_after);
}

TEST_F(TraceDeviceGraphs, RecordsAnUpdatedGraphExecUntilItIsDestroyed) {
  TracedProgram traced("gpu,device=" + std::to_string(kLimit));
  const ProgramRun run = this->run(traced, "updates");
  ASSERT_TRUE(run.status.success()) << run.output;
  std::size_t made = 0, gone = 0;
  for (const SeenEvent& one : traced.root().events) {
    if (one.event.device_kind != DeviceMemoryKind::graph) continue;
    made += one.event.kind == Kind::device_allocate ? 1 : 0;
    gone += one.event.kind == Kind::device_release ? 1 : 0;
  }
  EXPECT_GT(made, 20u);
  EXPECT_EQ(gone, made);
}

}  // namespace
}  // namespace headroom::test
