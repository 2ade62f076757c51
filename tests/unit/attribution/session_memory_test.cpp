// The memory of an ONNX Runtime session by kind, and the memory of the profile, which exists only during
// tracing.
#include "attribution/peak_shares.h"
#include "unit/attribution/analyze.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace headroom::attribution {
namespace {

using recording::ScopeSource;
using test::RecordingBuilder;

// Two runs of two nodes, at 20 and 30 µs and at 120 and 130 µs of the profile. The arena is largest after b.
constexpr const char* kProfile = R"([
{"cat":"Node","tid":77,"dur":5,"ts":20,"name":"a_kernel_time","args":{"op_name":"Conv","parameter_size":"3000",
 "mem_bytes_in_use":"600","mem_bytes_requested_in_use":"500","mem_arena_held":"4096"}},
{"cat":"Node","tid":77,"dur":5,"ts":30,"name":"b_kernel_time","args":{"op_name":"Relu",
 "mem_bytes_in_use":"1000","mem_bytes_requested_in_use":"900","mem_arena_held":"4096"}},
{"cat":"Node","tid":77,"dur":5,"ts":120,"name":"a_kernel_time","args":{"op_name":"Conv","parameter_size":"3000"}},
{"cat":"Node","tid":77,"dur":5,"ts":130,"name":"b_kernel_time","args":{"op_name":"Relu"}}
])";
constexpr std::uint64_t kProfilerCall = 0x5000, kRunCall = 0x6000;

std::int64_t bytes_of(const LayerMemory& memory, MemoryKind kind) {
  for (const MemoryShare& share : memory.shares)
    if (share.kind == kind) return share.bytes.count;
  return 0;
}

std::int64_t sum_of(const LayerMemory& memory) {
  std::int64_t sum = 0;
  for (const MemoryShare& share : memory.shares) sum += share.bytes.count;
  return sum;
}

class SessionMemoryTest : public testing::Test {
 protected:
  SessionMemoryTest() : builder_(folder_ / "a.hrec") {
    const std::string profile = (folder_ / "profile.json").string();
    test::write_text(profile, kProfile);
    const auto session = builder_.scope("net", 0, ScopeSource::session);
    load_ = builder_.scope("load", session, ScopeSource::load);
    run_ = builder_.scope("run", session, ScopeSource::run);
    builder_.thread(0, 77, "main");
    builder_.profile(profile, 0, session);
  }
  // Times are in µs.
  void allocate(std::uint64_t time, std::uint64_t size, const RecordingBuilder::Frames& stack) {
    builder_.allocate(0, time * 1000, next_address_ += 0x10000, size, stack);
  }
  void record(bool nodes_allocate_behind_the_profiler = false) {
    allocate(1, 100, {0x1000});
    builder_.enter_scope(0, 2'000, load_);
    allocate(3, 5000, {0x2000});
    for (const std::uint64_t start : {10u, 110u}) {
      builder_.enter_scope(0, start * 1000, run_);
      if (start == 10) allocate(start + 1, 4096, {0x3000, kRunCall});  // the arena, once
      allocate(start + 12, 7,
               {nodes_allocate_behind_the_profiler ? kProfilerCall : 0x3500, kRunCall});  // in a
      allocate(start + 16, 40, {0x4000, kProfilerCall, kRunCall});                        // the record of a
      allocate(start + 16, 4, {0x4050, kProfilerCall, kRunCall});                         // its name
      allocate(start + 17, 60, {0x4100, kProfilerCall, kRunCall});  // the list grows once per run
      allocate(start + 26, 40, {0x4000, kProfilerCall, kRunCall});  // the record of b
      allocate(start + 26, 4, {0x4050, kProfilerCall, kRunCall});
      builder_.enter_scope(0, (start + 50) * 1000, 0);
    }
  }
  LayerMemory result() {
    recording::Recording opened = open_built(builder_);
    const RecordingAnalysis analysis = analyze_recording(opened, {});
    return layer_memory(opened.info(), opened.stacks(), analysis);
  }

  test::TemporaryFolder folder_;
  RecordingBuilder builder_;
  std::uint32_t load_ = 0, run_ = 0;
  std::uint64_t next_address_ = 0;
};

TEST_F(SessionMemoryTest, KindsAddUpToThePeak) {
  record();
  const LayerMemory memory = result();
  EXPECT_EQ(memory.peak.count, 100 + 5000 + 4096 + 2 * (7 + 44 + 60 + 44));
  EXPECT_EQ(bytes_of(memory, MemoryKind::weights), 3000);
  EXPECT_EQ(bytes_of(memory, MemoryKind::graph), 2000);
  EXPECT_EQ(bytes_of(memory, MemoryKind::tensors), 900);
  EXPECT_EQ(bytes_of(memory, MemoryKind::arena_rounding), 100);
  EXPECT_EQ(bytes_of(memory, MemoryKind::arena_unused), 4096 - 1000);
  EXPECT_EQ(bytes_of(memory, MemoryKind::workspace), 2 * 7);
  EXPECT_EQ(bytes_of(memory, MemoryKind::tracing), 2 * (44 + 60 + 44));
  EXPECT_EQ(bytes_of(memory, MemoryKind::unnamed), 100) << "its stack is in no known module";
  EXPECT_EQ(sum_of(memory), memory.peak.count);
  EXPECT_EQ(memory.peak_node, "b");
  ASSERT_EQ(memory.nodes.size(), 2u);
  EXPECT_EQ(memory.nodes[0].runs, 2);
}

// One session is profiled during its first runs while another session runs its cycles. The profile of the
// first grows during these cycles, but is not a leak of the second.
TEST(LeaksBesideAProfile, ProfileOfOtherSessionIsNotALeak) {
  const test::TemporaryFolder folder;
  constexpr std::uint64_t kCycles = 24, kMicro = 1000, kOfACycle = 100 * kMicro;
  std::string nodes;
  for (std::uint64_t cycle = 0; cycle < kCycles; ++cycle)
    nodes += fmt::format(
        R"(,{{"cat":"Node","tid":78,"dur":20,"ts":{},"name":"a_kernel_time","args":{{"op_name":"Conv"}}}})",
        cycle * 100 + 10);
  const std::string profile = (folder / "other.json").string();
  test::write_text(profile, "[" + nodes.substr(1) + "]");
  for (const bool full : {true, false})
    for (const bool leaks : {false, true}) {
      RecordingBuilder builder(folder / "a.hrec",
                               {.full = full, .large_bytes = 1, .sample_period_bytes = 16});
      const auto run = builder.scope("run", builder.scope("net", 0, ScopeSource::session), ScopeSource::run);
      const auto other = builder.scope("other", 0, ScopeSource::session);
      const auto other_run = builder.scope("run", other, ScopeSource::run);
      builder.thread(0, 77, "main");
      builder.thread(1, 78, "beside");
      builder.profile(profile, 0, other);
      builder.enter_scope(1, 1, other_run);
      for (std::uint64_t cycle = 0; cycle < kCycles; ++cycle) {
        const std::uint64_t begin = cycle * kOfACycle, address = 0x100000 + cycle * 0x10000;
        builder.allocate(1, begin + 40 * kMicro, address, 3000, {0x4000, kProfilerCall, kRunCall});
        builder.enter_scope(0, begin + 50 * kMicro, run);
        builder.allocate(0, begin + 60 * kMicro, address + 0x4000, 50'000, {0x7000});
        if (!leaks) builder.release(0, begin + 70 * kMicro, address + 0x4000);
        builder.enter_scope(0, begin + 80 * kMicro, 0);
      }
      const RecordingAnalysis analysis = analyze(builder);
      EXPECT_EQ(analysis.leaks.cycle, "net/run");
      EXPECT_EQ(analysis.leaks.growth, leaks ? monitoring::Growth::leak : monitoring::Growth::none)
          << name_of(analysis.leaks.growth) << (full ? " full" : " samples");
      if (full && leaks) {
        EXPECT_DOUBLE_EQ(analysis.leaks.bytes_per_cycle, 50'000);
      }
      if (full) {
        EXPECT_EQ(analysis.leaks.stacks.size(), leaks ? 1U : 0U) << "the profile does not count as growth";
      }
    }
}

// The model is loaded, run and released twice. The third time it stays. The second was the largest.
TEST(SessionPeaks, EachLoadOfAModelIsASeparateSession) {
  const test::TemporaryFolder folder;
  for (const bool full : {true, false}) {
    RecordingBuilder builder(folder / "a.hrec", {.full = full, .large_bytes = 1});
    const auto session = builder.scope("net", 0, ScopeSource::session);
    const auto load = builder.scope("load", session, ScopeSource::load);
    const auto run = builder.scope("run", session, ScopeSource::run);
    builder.thread(0, 77, "main");
    std::uint64_t start = 0;
    for (const std::uint64_t size : {1000, 9000, 2000}) {
      start += 1'000'000;
      const std::string profile = (folder / fmt::format("{}.json", size)).string();
      test::write_text(profile, kProfile);
      builder.profile(profile, start + 2'000, session);
      builder.enter_scope(0, start, load);
      builder.allocate(0, start + 1'000, 0x10000, size);  // before the runtime's profile begins
      builder.enter_scope(0, start + 10'000, run);
      builder.allocate(0, start + 23'000, 0x20000, 100);  // in a
      builder.allocate(0, start + 50'000, 0x30000, 10);
      builder.enter_scope(0, start + 60'000, 0);
      if (size == 2000) break;
      for (const std::uint64_t address : {0x10000, 0x20000, 0x30000})
        builder.release(0, start + 70'000, address);
    }
    recording::Recording opened = open_built(builder);
    const RecordingAnalysis analysis = analyze_recording(opened, {});
    EXPECT_EQ(analysis.peak_bytes.value, 9110);
    ASSERT_EQ(analysis.sessions.size(), 3u);
    EXPECT_EQ(analysis.sessions[0].loaded.count, 0);
    EXPECT_EQ(analysis.sessions[1].loaded.count, 9000);
    EXPECT_EQ(analysis.sessions[1].run.count, 110);
    EXPECT_EQ(analysis.sessions[2].run.count, 0);
    const std::vector<SessionMemory> sessions = session_memory(opened.info(), analysis);
    ASSERT_EQ(sessions.size(), 1u) << "the others held nothing then";
    EXPECT_EQ(sessions[0].load, 2);
    EXPECT_EQ(sessions[0].loads, 3);
    EXPECT_EQ(sessions[0].loaded.count, 9000);
    EXPECT_EQ(sessions[0].run.count, 110);
    std::int64_t in_node = 0;
    for (const LayerFigures& layer : analysis.layers)
      if (layer.path == "net/run/a") in_node += layer.self.peak_bytes;
    EXPECT_EQ(in_node, 100);
  }
}

// Loading and running are in different ranges.
TEST(SessionPeaks, CountsRunsInAnyScopeOfProgram) {
  OwnRecording builder;
  const std::string profile = (builder.folder / "profile.json").string();
  test::write_text(profile, kProfile);
  const auto loading = builder.scope("load models");
  const auto session = builder.scope("net", loading, ScopeSource::session);
  const auto load = builder.scope("load", session, ScopeSource::load);
  std::uint32_t run[2];
  for (int i = 0; i < 2; ++i) {
    const auto around = builder.scope(i == 0 ? "warm-up" : "inference");
    run[i] = builder.scope("run", builder.scope("net", around, ScopeSource::session), ScopeSource::run);
  }
  // A range with the session's name that the program made is not a run of the session.
  const auto alike = builder.scope("run", builder.scope("net"));
  builder.thread(0, 77, "main");
  builder.profile(profile, 0, session);
  builder.enter_scope(0, 1'000, load);
  builder.allocate(0, 2'000, 0x10000, 5000);
  for (std::uint64_t i = 0; i < 2; ++i) {
    const std::uint64_t start = 100'000 * i;
    builder.enter_scope(0, start + 10'000, run[i]);
    if (i == 0) builder.allocate(0, 11'000, 0x20000, 4096);
    for (const std::uint64_t node : {26'000, 36'000})  // the records of a and b
      builder.allocate(0, start + node, 0x30000 + start + node * 8, 40, {0x4000, kRunCall});
    builder.enter_scope(0, start + 60'000, 0);
  }
  builder.enter_scope(0, 200'000, alike);
  builder.allocate(0, 201'000, 0x900000, 7);
  recording::Recording opened = open_built(builder);
  const RecordingAnalysis analysis = analyze_recording(opened, {});
  const std::vector<SessionMemory> sessions = session_memory(opened.info(), analysis);
  ASSERT_EQ(sessions.size(), 1u);
  EXPECT_EQ(sessions[0].name, "load models/net");
  EXPECT_EQ(sessions[0].loaded.count, 5000);
  EXPECT_EQ(sessions[0].run.count, 4096);
  EXPECT_EQ(sessions[0].tracing.count, 4 * 40) << "of both ranges";
  EXPECT_EQ(sessions[0].loads, 1);
  const LayerMemory memory = layer_memory(opened.info(), opened.stacks(), analysis);
  EXPECT_EQ(sum_of(memory), memory.peak.count);
  EXPECT_EQ(bytes_of(memory, MemoryKind::module), 7) << "net/run, which is the program's own range";
}

TEST_F(SessionMemoryTest, CallSharedWithNodesIsNotProfileMemory) {
  record(true);
  const LayerMemory memory = result();
  EXPECT_EQ(bytes_of(memory, MemoryKind::tracing), 2 * (44 + 44)) << "the records only";
}

TEST(SharesOf, HasNoArenaIfProfileHasNone) {
  SessionMemory session;
  session.loaded = Bytes{10};
  session.run = Bytes{20};
  session.later = Bytes{5};
  session.weights = Bytes{15};  // counted twice by the runtime: limited to the loaded bytes
  const auto shares = shares_of(session);
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_EQ(shares[0], (MemoryShare{MemoryKind::weights, "", Bytes{10}}));
  EXPECT_EQ(shares[1], (MemoryShare{MemoryKind::run, "", Bytes{20}}));
}

TEST(SharesOf, LaterAllocationsAreOfTheArenaIfItIsKnown) {
  SessionMemory session;
  session.loaded = Bytes{1000};
  session.run = Bytes{9000};
  session.tensors = Bytes{2500};
  session.in_use = Bytes{3000};
  session.arena_held = Bytes{4000};
  session.later = Bytes{4500};
  std::vector<MemoryShare> expected{
      {MemoryKind::graph, "", Bytes{1000}},         {MemoryKind::tensors, "", Bytes{2500}},
      {MemoryKind::arena_rounding, "", Bytes{500}}, {MemoryKind::arena_unused, "", Bytes{1000}},
      {MemoryKind::workspace, "", Bytes{500}},      {MemoryKind::run_later, "", Bytes{4500}}};
  EXPECT_EQ(shares_of(session), expected);
  session.arena = {.loaded = Bytes{256}, .run = Bytes{3744}, .later = Bytes{4352}};
  expected[0].bytes = Bytes{744};
  expected[4] = {MemoryKind::arena_later, "", Bytes{4352}};
  expected[5] = {MemoryKind::workspace, "", Bytes{9000 - 3744 - 4352}};
  EXPECT_EQ(shares_of(session), expected);
}

}  // namespace
}  // namespace headroom::attribution
