// The settings that the preload library gets.
#include "trace/tracer_environment.h"

#include <map>

#include "recording/format.h"
#include "support/scoped_environment.h"
#include "support/test_support.h"

namespace headroom::trace {
namespace {

using test::ScopedEnvironment;
using testing::HasSubstr;

std::map<std::string, std::string> environment_of(const TraceOptions& options) {
  std::map<std::string, std::string> variables;
  for (auto& [name, value] : tracer_environment(options, "/out/a.hrec", gibibytes(1)))
    variables[name] = value;
  return variables;
}

TraceOptions with_library() {
  TraceOptions options;
  options.library = "/opt/libheadroom_trace.so";
  return options;
}

TEST(TracerSettings, DefaultsAndFlags) {
  TraceOptions options;
  EXPECT_EQ(tracer_settings(options, mebibytes(64)),
            "full=0,layers=auto,limit=59,events=0,large=4096,period=262144");
  options.full = true;
  options.stacks = "off";
  options.layers = false;
  options.ring = mebibytes(32);
  options.large = kibibytes(64);
  options.sample_period = mebibytes(1);
  EXPECT_EQ(tracer_settings(options, mebibytes(64)),
            "full=1,stacks=off,layers=off,ring=27,events=0,large=65536,period=1048576");
  TraceOptions events;
  events.max_events = 1000;
  EXPECT_THAT(tracer_settings(events, mebibytes(64)), HasSubstr("events=1000"));
}

TEST(TracerSettings, KeepsTheRecordingWithinItsSize) {
  for (const Bytes size : {kSmallestRecording, mebibytes(100), gibibytes(8)}) {
    const std::uint64_t segments = segments_in(size);
    const std::uint64_t bytes = recording::kHeaderBytes + recording::kDefaultMetadataBytes +
                                segments * recording::kDefaultSegmentBytes;
    EXPECT_LE(bytes, static_cast<std::uint64_t>(size.count));
    EXPECT_GT(bytes + recording::kDefaultSegmentBytes, static_cast<std::uint64_t>(size.count));
  }
}

TEST(TracerEnvironment, PutsTheLibraryBeforeOtherPreloads) {
  const ScopedEnvironment nvtx("NVTX_INJECTION64_PATH", std::nullopt);
  constexpr const char* kBoth = "/opt/libheadroom_trace.so:/usr/lib/libjemalloc.so.2";
  for (const auto& [before, after] :
       {std::pair<std::optional<std::string>, const char*>{std::nullopt, "/opt/libheadroom_trace.so"},
        {"/usr/lib/libjemalloc.so.2", kBoth},
        {kBoth, kBoth}}) {
    const ScopedEnvironment preload("LD_PRELOAD", before);
    const auto variables = environment_of(with_library());
    EXPECT_EQ(variables.at("LD_PRELOAD"), after);
    EXPECT_EQ(variables.at("HEADROOM_TRACE_FILE"), "/out/a.hrec");
    EXPECT_EQ(variables.at("NVTX_INJECTION64_PATH"), "/opt/libheadroom_trace.so");
  }
}

// `headroom trace` inside another: only one of the two libraries records, and NVTX ranges go to the inner
// one.
TEST(TracerEnvironment, NestedTraceUsesOneLibrary) {
  const ScopedEnvironment named("HEADROOM_TRACER", "/opt/libheadroom_trace.so");
  EXPECT_EQ(gpu_tracer_library(), "/opt/libheadroom_trace_gpu.so");
  const ScopedEnvironment preload("LD_PRELOAD", "/opt/libheadroom_trace.so:/usr/lib/libjemalloc.so.2");
  const ScopedEnvironment nvtx("NVTX_INJECTION64_PATH", "/opt/libheadroom_trace.so");
  TraceOptions options;
  options.gpu_only = true;
  options.library = gpu_tracer_library();
  const auto variables = environment_of(options);
  EXPECT_EQ(variables.at("LD_PRELOAD"), "/opt/libheadroom_trace_gpu.so:/usr/lib/libjemalloc.so.2");
  EXPECT_EQ(variables.at("NVTX_INJECTION64_PATH"), "/opt/libheadroom_trace_gpu.so");
  const Environment ledger = ledger_environment(gpu_tracer_library(), {}, "");
  EXPECT_EQ(ledger.front().second, "/opt/libheadroom_trace_gpu.so:/usr/lib/libjemalloc.so.2");
}

// `headroom trace` or `bench` inside `headroom run --gpu-limit`: that limit applies to the commands they
// start.
TEST(TracerEnvironment, KeepsTheEnclosingLimit) {
  const auto settings_of = [](std::uint64_t bytes, const std::string& account) {
    ledger::Limits limits;
    for (std::uint64_t& limit : limits.bytes) limit = bytes;
    return ledger_environment("/opt/libheadroom_trace_gpu.so", limits, account).back().second;
  };
  const ScopedEnvironment outer("HEADROOM_TRACE_OPTIONS",
                                "ledger=1,device=1000,account=/dev/shm/a,within=/dev/shm/b");
  EXPECT_EQ(settings_of(ledger::kNoLimit, ""), "ledger=1,device=1000,account=/dev/shm/a,within=/dev/shm/b");
  EXPECT_EQ(settings_of(2000, ""), "ledger=1,device=1000,within=/dev/shm/a,within=/dev/shm/b");
  EXPECT_EQ(settings_of(500, "/dev/shm/c"),
            "ledger=1,device=500,account=/dev/shm/c,within=/dev/shm/a,within=/dev/shm/b");
  EXPECT_THAT(tracer_settings({}, mebibytes(64)),
              HasSubstr(",device=1000,account=/dev/shm/a,within=/dev/shm/b"));
}

// `headroom bench` or `run --gpu-limit` inside `headroom trace`: their commands are recorded, too.
TEST(TracerEnvironment, KeepsTheEnclosingRecording) {
  const ScopedEnvironment named("HEADROOM_TRACER", "/opt/libheadroom_trace.so");
  const ScopedEnvironment preload("LD_PRELOAD", "/opt/libheadroom_trace.so");
  const ScopedEnvironment file("HEADROOM_TRACE_FILE", "/out/a.hrec");
  ledger::Limits limits;
  limits.bytes[0] = 500;
  const auto settings = [&] { return limited_environment(gpu_tracer_library(), limits, "/dev/shm/c"); };
  {
    const ScopedEnvironment options("HEADROOM_TRACE_OPTIONS",
                                    "full=0,large=1,proved=hard,device0=900,account=/dev/shm/a");
    EXPECT_TRUE(is_recorded());
    EXPECT_EQ(settings(), (Environment{{"HEADROOM_TRACE_OPTIONS",
                                        "full=0,large=1,device0=500,account=/dev/shm/c,within=/dev/shm/a"}}));
  }
  const ScopedEnvironment options("HEADROOM_TRACE_OPTIONS", "ledger=1");
  EXPECT_FALSE(is_recorded());
  EXPECT_EQ(settings(), ledger_environment(gpu_tracer_library(), limits, "/dev/shm/c"));
}

TEST(TracerEnvironment, LeavesNvtxRangesToAnotherTool) {
  TraceOptions options = with_library();
  {
    const ScopedEnvironment nvtx("NVTX_INJECTION64_PATH", "/opt/nsys.so");
    EXPECT_EQ(environment_of(options).count("NVTX_INJECTION64_PATH"), 0u);
  }
  const ScopedEnvironment nvtx("NVTX_INJECTION64_PATH", std::nullopt);
  options.layers = false;
  EXPECT_EQ(environment_of(options).count("NVTX_INJECTION64_PATH"), 0u);
}

TEST(Library, MustExistAtAPathThatLdPreloadAccepts) {
  test::TemporaryFolder folder;
  const auto absent = check_library(folder / "libheadroom_trace.so");
  ASSERT_FALSE(absent.has_value());
  EXPECT_THAT(absent.error().sentence(), HasSubstr("No such file"));
  for (const char* name : {"a b.so", "a:b.so"}) {
    test::write_text(folder / name, "x");
    const auto unnameable = check_library(folder / name);
    ASSERT_FALSE(unnameable.has_value());
    EXPECT_THAT(unnameable.error().sentence(), HasSubstr("LD_PRELOAD"));
  }
  test::write_text(folder / "good.so", "x");
  EXPECT_TRUE(check_library(folder / "good.so").has_value());
}

}  // namespace
}  // namespace headroom::trace
