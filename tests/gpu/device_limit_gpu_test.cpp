// The GPU memory limit on a real driver: no route exceeds it by one byte, and none is refused within it.
// tests/cli/traced_cuda.cpp has the routes and their checks.
#include <optional>

#include "base/json.h"
#include "cuda/driver.h"
#include "ledger/account.h"
#include "unit/preload/traced_program.h"

namespace headroom::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// Not a multiple of any granule, so that rounding by the driver shows.
constexpr std::uint64_t kLimit = (std::uint64_t{2} << 30) + 12345, kStep = 38 << 20;

class LimitOnAGpu : public testing::Test {
 protected:
  void SetUp() override {
    const auto driver = cuda::Driver::open();
    if (!driver) GTEST_SKIP() << "skipped: " << driver.error().sentence();
    trace("full=0");
  }
  void trace(const std::string& mode) {
    ledger::Limits limits;
    for (std::uint64_t& limit : limits.bytes) limit = kLimit;
    const std::string file = (folder_ / std::to_string(accounts_++)).string();
    ASSERT_TRUE(ledger::Account::create_shared(file.c_str(), limits));
    traced_.emplace(mode + ",device=" + std::to_string(kLimit) + ",account=" + file);
  }
  // Expects so many routes, all sound.
  void expect_sound(const ProgramRun& run, int routes) {
    EXPECT_TRUE(run.status.success()) << run.output;
    EXPECT_THAT(run.output, Not(HasSubstr("WRONG")));
    int sound = 0;
    for (const char* outcome : {": sound", "not tried"})
      for (std::size_t at = 0; (at = run.output.find(outcome, at)) != std::string::npos; ++at) ++sound;
    EXPECT_EQ(sound, routes) << run.output;
    std::fputs(run.output.c_str(), stdout);
  }
  void expect_runtime_sound(const std::string& program) {
    const ProgramRun run =
        traced_->run({program_path(program), std::to_string(kLimit), std::to_string(kStep)});
    if (run.status.exit_code == 4) GTEST_SKIP() << "skipped: " << run.output;
    expect_sound(run, 9);
  }
  TemporaryFolder folder_;
  int accounts_ = 0;
  std::optional<TracedProgram> traced_;
};

// With either preload library (traced_program.h), and each way to look up the driver's functions.
class LimitByLookup : public LimitOnAGpu,
                      public testing::WithParamInterface<std::tuple<const char*, const char*>> {};

TEST_P(LimitByLookup, NoRouteExceedsItOrIsRefusedWithinIt) {
  trace(std::get<0>(GetParam()));
  const std::string lookup = std::get<1>(GetParam());
  expect_sound(traced_->run({program_path(lookup == "linked" ? "traced_cuda_linked" : "traced_cuda"), lookup,
                             "all", std::to_string(kLimit), std::to_string(kStep)}),
               38);
}

TEST_F(LimitOnAGpu, ChargesExportedMemoryAndWholeGranules) {
  for (const char* route : {"exported", "granules"}) {
    trace("full=0");
    expect_sound(traced_->run({program_path("traced_cuda"), "dlsym", route, std::to_string(kLimit),
                               std::to_string(kStep)}),
                 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Lookups, LimitByLookup,
                         testing::Combine(testing::Values("full=0", "gpu"),
                                          testing::Values("dlsym", "proc", "first", "ptsz", "linked")),
                         [](const auto& tested) {
                           const bool both = std::string("full=0") == std::get<0>(tested.param);
                           return (both ? "Default_" : "Gpu_") + std::string(std::get<1>(tested.param));
                         });

// --only gpu: records each GPU event with its stack, and no host event.
TEST_F(LimitOnAGpu, IsRecordedWithOnlyGpu) {
  trace("gpu");
  const ProgramRun run = traced_->run(
      {program_path("traced_cuda"), "proc", "plain", std::to_string(kLimit), std::to_string(kStep)});
  ASSERT_TRUE(run.status.success()) << run.output;
  const SeenRecording seen = traced_->root();
  EXPECT_FALSE(seen.info.host_recorded);
  EXPECT_TRUE(seen.info.closed);
  EXPECT_THAT(seen.problems, testing::IsEmpty());
  EXPECT_EQ(seen.count(MemoryEventKind::device_allocate), 2 * (kLimit / kStep));
  EXPECT_EQ(seen.count(MemoryEventKind::device_release), 2 * (kLimit / kStep));
  EXPECT_EQ(seen.count(MemoryEventKind::device_refused), 2u);
  for (const SeenEvent& one : seen.events) {
    EXPECT_TRUE(is_of_device(one.event.kind)) << static_cast<int>(one.event.kind);
    if (one.event.kind == MemoryEventKind::device_allocate) {
      EXPECT_GE(one.frames.size(), 2u);
    }
  }
}

TEST_F(LimitOnAGpu, HoldsForTheSharedRuntime) { expect_runtime_sound("traced_cudart"); }

#ifdef HEADROOM_STATIC_CUDART
TEST_F(LimitOnAGpu, HoldsForTheStaticRuntime) { expect_runtime_sound("traced_cudart_static"); }
#endif

// A launch costs nothing: a traced program calls the driver's function directly.
TEST_F(LimitOnAGpu, DoesNotHookLaunches) {
  const ProgramRun run = traced_->run({test::built_path("bin/gpu_call_cost"), "added", "100"});
  ASSERT_TRUE(run.status.success()) << run.output;
  const auto document = parse_json(run.output);
  ASSERT_TRUE(document) << run.output;
  EXPECT_EQ(document->at("cuMemAlloc_v2"), "libheadroom_trace.so") << "it is not traced";
  for (const auto& [name, libraries] : document->at("launches").items())
    for (const auto& library : libraries)
      EXPECT_THAT(library.get<std::string>(), testing::AnyOf("nobody", testing::StartsWith("libcuda.so")))
          << name;
  EXPECT_THAT(document->at("launches").at("cuLaunchKernel").at(0).get<std::string>(),
              testing::StartsWith("libcuda.so"));
}

}  // namespace
}  // namespace headroom::test
