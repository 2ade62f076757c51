// GPU memory with the preload library, against the fake driver of tests/support: every allocation route,
// every way to look up the driver's functions, and what the recording contains.
#include <algorithm>
#include <map>

#include "ledger/account.h"
#include "unit/preload/traced_program.h"

namespace headroom::test {
namespace {

using Kind = MemoryEventKind;
constexpr std::uint64_t kLimit = 1'000'000'000, kStep = 7 << 20, kGranted = kLimit / kStep;

std::string module_at(const SeenRecording& seen, std::uint64_t address) {
  for (const recording::Module& module : seen.info.modules)
    if (address >= module.start && address < module.end) return module.path;
  return "";
}

class TraceDevices : public testing::Test {
 protected:
  // Runs the program with a limit that it shares with its children.
  static ProgramRun run(TracedProgram& traced, const std::string& lookup, const std::string& route,
                        std::uint64_t limit = kLimit) {
    traced.set_environment("LD_LIBRARY_PATH", test::built_path("tests/fake_cuda"));
    return traced.run({program_path(lookup == "linked" ? "traced_cuda_linked" : "traced_cuda"), lookup, route,
                       std::to_string(limit), std::to_string(kStep)});
  }
  // Returns the output of a program that must succeed.
  static std::string output_of(TracedProgram& traced, const std::string& lookup, const std::string& route,
                               std::uint64_t limit = kLimit) {
    const ProgramRun one = run(traced, lookup, route, limit);
    EXPECT_TRUE(one.status.success()) << lookup << ' ' << route << '\n' << one.output;
    return one.output;
  }
  static SeenRecording recording_of_plain(TracedProgram& traced) {
    output_of(traced, "proc", "plain");
    return traced.root();
  }
  static std::string limited(const std::string& mode) { return mode + ",device=" + std::to_string(kLimit); }
  std::string options(const std::string& mode = "full=1", std::uint64_t limit = kLimit) {
    ledger::Limits limits;
    for (std::uint64_t& of_device : limits.bytes) of_device = limit;
    const std::string file = (folder_ / std::to_string(accounts_++)).string();
    EXPECT_TRUE(ledger::Account::create_shared(file.c_str(), limits));
    return mode + ",device=" + std::to_string(limit) + ",account=" + file;
  }
  TemporaryFolder folder_;
  int accounts_ = 0;
};

// The charge is what the device allocates: whole granules, which small allocations share.
TEST_F(TraceDevices, ChargesWholeGranules) {
  for (const char* mode : {"full=1", "gpu"}) {
    TracedProgram traced(options(mode));
    traced.set_environment("FAKE_CUDA_GRANULE", "2097152");
    EXPECT_THAT(output_of(traced, "dlsym", "granules"), testing::HasSubstr(": sound"));
  }
}

// With either library, and for each way to look up the driver's functions.
class TraceDeviceLookups : public TraceDevices,
                           public testing::WithParamInterface<std::tuple<const char*, const char*>> {};

TEST_P(TraceDeviceLookups, NoRouteExceedsTheLimitOrIsRefusedBelowIt) {
  TracedProgram traced(options(std::get<0>(GetParam())));
  EXPECT_THAT(output_of(traced, std::get<1>(GetParam()), "all"),
              testing::AllOf(testing::Not(testing::HasSubstr("WRONG")),
                             testing::HasSubstr("driver   gave 1000000000 at most")));
}

INSTANTIATE_TEST_SUITE_P(All, TraceDeviceLookups,
                         testing::Combine(testing::Values("full=1", "gpu", "gpu,ledger=1"),
                                          testing::Values("dlsym", "proc", "first", "ptsz", "linked")),
                         [](const auto& tested) {
                           const std::string mode = std::get<0>(tested.param);
                           return (mode == "full=1" ? "Full"
                                   : mode == "gpu"  ? "Gpu"
                                                    : "Ledger") +
                                  std::string("_") + std::get<1>(tested.param);
                         });

// The events of the route "plain".
void expect_plain_counts(const SeenRecording& seen) {
  EXPECT_EQ(seen.count(Kind::device_allocate), 2 * kGranted);
  EXPECT_EQ(seen.count(Kind::device_release), 2 * kGranted);
  EXPECT_EQ(seen.count(Kind::device_refused), 2u);
}

TEST_F(TraceDevices, RecordsAllocationsReleasesAndRefusals) {
  TracedProgram traced(limited("full=1"));
  const SeenRecording seen = recording_of_plain(traced);
  expect_plain_counts(seen);
  for (const SeenEvent& one : seen.events) {
    if (one.event.kind == Kind::device_allocate) {
      EXPECT_EQ(one.event.size, kStep);
      EXPECT_EQ(one.event.device_kind, DeviceMemoryKind::device);
      EXPECT_GE(one.frames.size(), 2u);
    }
    if (one.event.kind != Kind::device_refused) continue;
    EXPECT_EQ(one.event.size, kStep);
    EXPECT_EQ(one.event.count, kGranted * kStep);
    EXPECT_EQ(one.event.address, kLimit);
  }
  ASSERT_EQ(seen.info.devices.size(), 1u);
  EXPECT_EQ(seen.info.devices[0].name, "Fake GPU 0");
  EXPECT_EQ(seen.info.devices[0].uuid, "GPU-10101010-1010-1010-1010-101010101010");
  EXPECT_EQ(seen.info.devices[0].total_bytes, std::uint64_t{64} << 30);
  EXPECT_EQ(seen.info.devices[0].limit_bytes, kLimit);
  EXPECT_FALSE(seen.info.devices[0].integrated);
}

TEST_F(TraceDevices, RecordsMigUuidAndProvedLimitType) {
  TracedProgram traced(limited("gpu,proved=hard"));
  traced.set_environment("FAKE_CUDA_MIG", "1");
  traced.set_environment("FAKE_CUDA_GRANULE", "65536");
  const SeenRecording seen = recording_of_plain(traced);
  ASSERT_EQ(seen.info.devices.size(), 1u);
  EXPECT_EQ(seen.info.devices[0].uuid, "MIG-10101010-1010-1010-1010-101010101010");
  EXPECT_EQ(seen.info.devices[0].proved_limit, LimitType::hard);
  EXPECT_EQ(seen.info.devices[0].granule_bytes, 65536u);
}

TEST_F(TraceDevices, GpuModeRecordsOnlyDeviceEvents) {
  TracedProgram traced(limited("gpu"));
  const SeenRecording seen = recording_of_plain(traced);
  EXPECT_FALSE(seen.info.host_recorded);
  EXPECT_TRUE(seen.info.closed);
  EXPECT_THAT(seen.problems, testing::IsEmpty());
  expect_plain_counts(seen);
  for (const SeenEvent& one : seen.events) {
    EXPECT_THAT(one.event.kind,
                testing::AnyOf(Kind::device_allocate, Kind::device_release, Kind::device_refused,
                               Kind::device_figure, Kind::device_holder));
    if (one.event.kind != Kind::device_allocate) continue;
    EXPECT_GE(one.frames.size(), 2u);
    for (const std::uint64_t frame : one.frames)
      EXPECT_THAT(module_at(seen, frame), testing::Not(testing::HasSubstr("libheadroom_trace")));
  }
}

TEST_F(TraceDevices, GpuModeRecordsChildrenInTheirOwnFiles) {
  for (const char* start : {"fork", "process"}) {
    TracedProgram traced(options("gpu"));
    output_of(traced, "proc", start);
    const auto others = traced.others();
    ASSERT_EQ(others.size(), 1u) << start;
    EXPECT_FALSE(others.begin()->second.info.host_recorded);
    EXPECT_GT(others.begin()->second.count(Kind::device_allocate), 0u) << start;
  }
}

// A malloc call then goes directly to the C library and costs nothing extra.
TEST_F(TraceDevices, GpuLibraryHooksNoHeapFunctions) {
  const auto owner_of = [&](const char* options, const char* function) {
    TracedProgram traced(options);
    return std::filesystem::path(run(traced, "owner", function).output).filename().string();
  };
  for (const char* function : {"malloc", "free", "realloc", "posix_memalign", "mmap", "mprotect", "sbrk"}) {
    EXPECT_EQ(owner_of("gpu", function), "libc.so.6\n") << function;
    EXPECT_EQ(owner_of("full=1", function), "libheadroom_trace.so\n") << function;
  }
  EXPECT_THAT(owner_of("gpu", "_Znwm"), testing::StartsWith("libstdc++.so"));
  EXPECT_EQ(owner_of("gpu", "cuMemAlloc_v2"), "libheadroom_trace_gpu.so\n");
}

TEST_F(TraceDevices, RecordsPhysicalMemoryAndAddressesSeparately) {
  TracedProgram traced(limited("full=1"));
  output_of(traced, "dlsym", "virtual");
  std::map<DeviceMemoryKind, std::size_t> made, gone;
  for (const SeenEvent& one : traced.root().events) {
    if (one.event.kind == Kind::device_allocate) ++made[one.event.device_kind];
    if (one.event.kind == Kind::device_release) ++gone[one.event.device_kind];
  }
  for (const DeviceMemoryKind kind :
       {DeviceMemoryKind::physical, DeviceMemoryKind::mapping, DeviceMemoryKind::reservation}) {
    EXPECT_EQ(made[kind], 2 * kGranted);
    EXPECT_EQ(gone[kind], 2 * kGranted);
  }
}

// As on a Jetson: CPU and GPU share one memory, and the driver's granularity is not used.
TEST_F(TraceDevices, LimitOfIntegratedDeviceCoversPinnedMemory) {
  for (const char* route : {"unified", "host", "plain"}) {
    TracedProgram traced(options("gpu"));
    traced.set_environment("FAKE_CUDA_INTEGRATED", "1");
    traced.set_environment("FAKE_CUDA_GRANULE", std::string(route) == "unified" ? "2097152" : "0");
    EXPECT_THAT(output_of(traced, "dlsym", route), testing::HasSubstr(": sound"));
    ASSERT_EQ(traced.root().info.devices.size(), 1u);
    EXPECT_TRUE(traced.root().info.devices[0].integrated);
  }
}

TEST_F(TraceDevices, EnforcesTheLimitAfterTheRecordingIsFull) {
  // The recording reaches its event limit at once; the memory limit does not depend on it.
  TracedProgram traced(limited("full=1,events=1"));
  output_of(traced, "proc", "plain");
}

TEST_F(TraceDevices, ChargesExportedMemoryAfterItIsFreed) {
  TracedProgram traced(options("gpu,ledger=1"));
  EXPECT_THAT(output_of(traced, "dlsym", "exported"),
              testing::AllOf(testing::HasSubstr("a descriptor of a pool's memory: error 0"),
                             testing::HasSubstr("a pointer of a pool's memory: error 0")));
}

// Random calls by three threads, against a driver that yields within calls and completes some of them later.
// In the second half of the seeds it allocates in granules.
class TraceDevicesAtRandom : public TraceDevices, public testing::WithParamInterface<int> {};

TEST_P(TraceDevicesAtRandom, RandomCallsNeverExceedTheLimitAndEndWithoutCharge) {
  constexpr std::uint64_t kGranule = 2 << 20;
  const bool has_granules = GetParam() > 8;
  const std::uint64_t limit = has_granules ? kLimit / kGranule * kGranule : kLimit;
  TracedProgram traced(options("gpu,ledger=1", limit));
  traced.set_environment("FAKE_CUDA_PREEMPT", GetParam() % 3 == 0 ? "4" : "16");
  if (has_granules) traced.set_environment("FAKE_CUDA_GRANULE", std::to_string(kGranule));
  traced.set_environment("TEST_SEED", std::to_string(GetParam()));
  traced.set_environment("FAKE_CUDA_LEDGER_SLACK", "0");
  output_of(traced, GetParam() % 2 == 0 ? "proc" : "ptsz", "random", limit);
}

INSTANTIATE_TEST_SUITE_P(Seeds, TraceDevicesAtRandom, testing::Range(1, 13));

// With a fake NVML too, and contexts of 500 MB.
SeenRecording recording_with_nvml(const char* mode) {
  TracedProgram traced("gpu");
  traced.set_environment("LD_LIBRARY_PATH", test::built_path("tests/fake_cuda") + ":" +
                                                test::built_path("tests/fake_cuda_nvml"));
  traced.set_environment("FAKE_CUDA_CONTEXT", "500000000");
  const ProgramRun run = traced.run({program_path("traced_cuda_lookup"), mode, ""});
  EXPECT_TRUE(run.status.success()) << run.output;
  return traced.root();
}

// Memory that the driver takes later never counts as a context's, nor does memory that it took just before a
// context was created.
TEST_F(TraceDevices, ContextFigureChangesOnlyWithContexts) {
  std::map<DeviceMemoryKind, std::vector<std::uint64_t>> figures;
  for (const SeenEvent& one : recording_with_nvml("grows").events)
    if (one.event.kind == Kind::device_figure) figures[one.event.device_kind].push_back(one.event.size);
  constexpr std::uint64_t kContext = 500'000'000, kMiB = 1 << 20;
  EXPECT_THAT(figures[DeviceMemoryKind::context], testing::ElementsAre(kContext, 2 * kContext, kContext));
  EXPECT_THAT(figures[DeviceMemoryKind::driver_growth], testing::ElementsAre(12 * kMiB, 17 * kMiB, 0));
}

// While other threads are in the driver, NVML's figure for the process cannot be used. Each thread then
// measures the growth of the whole device, which is corrected soon after.
TEST_F(TraceDevices, CountsConcurrentlyCreatedContextsOnce) {
  std::map<std::pair<unsigned, DeviceMemoryKind>, std::uint64_t> last;
  for (const SeenEvent& one : recording_with_nvml("together").events)
    if (one.event.kind == Kind::device_figure)
      last[{one.event.device, one.event.device_kind}] = one.event.size;
  for (const unsigned device : {0u, 1u}) {
    EXPECT_EQ((last[{device, DeviceMemoryKind::context}]), 500'000'000u);
    EXPECT_EQ((last[{device, DeviceMemoryKind::driver_growth}]), 0u);
  }
}

// A recording keeps the driver loaded, because its thread calls the driver. With only the ledger, the driver
// is unloaded.
TEST_F(TraceDevices, EnforcesTheLimitAfterTheDriverIsReloaded) {
  for (const char* mode : {"gpu,ledger=1", "gpu", "full=1"})
    for (const char* lookup : {"dlsym", "proc", "first"}) {
      TracedProgram traced(options(mode));
      const bool is_kept = std::string(mode) != "gpu,ledger=1";
      EXPECT_THAT(output_of(traced, lookup, "unload"),
                  testing::HasSubstr(is_kept ? "at 1 places" : "at 3 places"))
          << mode;
    }
}

// A process that cannot join the shared account, or an outer one, must not get a full limit of its own.
TEST_F(TraceDevices, RefusesEverythingWithoutTheSharedOrOuterAccount) {
  const std::string gone = (folder_ / "gone").string();
  for (const std::string& all :
       {limited("gpu,ledger=1") + ",account=" + gone, options("gpu,ledger=1") + ",within=" + gone}) {
    TracedProgram traced(all);
    EXPECT_THAT(run(traced, "proc", "plain").output, testing::HasSubstr("granted 0 in 0, then error 2"));
  }
}

TEST_F(TraceDevices, ChargesGraphMemoryThatTheDriverTookBeyondTheEstimate) {
  for (const char* mode : {"full=1", "gpu,ledger=1"}) {
    TracedProgram traced(limited(mode));
    traced.set_environment("FAKE_CUDA_GRAPH_STEP", std::to_string(96 << 20));
    EXPECT_THAT(output_of(traced, "proc", "beyond"),
                testing::HasSubstr("the driver has 100663296 for 64 KiB"));
  }
}

// The account is charged whole steps; the recording has the requested bytes. An updated exec keeps its memory
// until it is destroyed.
TEST_F(TraceDevices, RecordsTheBlocksOfEachGraphAndTheirRelease) {
  const auto count = [](const SeenRecording& seen, Kind kind) {
    return std::ranges::count_if(seen.events, [kind](const SeenEvent& one) {
      return one.event.kind == kind && one.event.device_kind == DeviceMemoryKind::graph;
    });
  };
  TracedProgram many(limited("full=1")), updates(limited("gpu"));
  output_of(many, "proc", "many");
  const SeenRecording seen = many.root();
  for (const SeenEvent& one : seen.events) {
    if (one.event.kind == Kind::device_allocate && one.event.device_kind == DeviceMemoryKind::graph) {
      EXPECT_EQ(one.event.size, 64u << 10);
    }
  }
  EXPECT_EQ(count(seen, Kind::device_allocate), static_cast<std::int64_t>(kLimit >> 25));
  EXPECT_EQ(count(seen, Kind::device_release), count(seen, Kind::device_allocate));
  EXPECT_EQ(count(seen, Kind::device_refused), 1);
  output_of(updates, "proc", "updates");
  EXPECT_GT(count(updates.root(), Kind::device_allocate), 20);
  EXPECT_EQ(count(updates.root(), Kind::device_release), count(updates.root(), Kind::device_allocate));
}

// Without a limit, because then no later call updates the graph figures.
TEST_F(TraceDevices, RecordsTheEffectOfATrimAtOnce) {
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

TEST_F(TraceDevices, FindsNoDriverFunctionWithoutADriver) {
  TracedProgram traced(limited("full=1"));
  // The preload library exports functions of these names. Without a driver, a lookup must not find them.
  const ProgramRun run = traced.run({program_path("traced_cuda"), "absent", "none", "1", "1"});
  EXPECT_EQ(run.status.exit_code, 0) << run.output;
}

}  // namespace
}  // namespace headroom::test
