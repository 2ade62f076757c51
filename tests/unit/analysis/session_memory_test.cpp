// What a session of ONNX Runtime holds, by kind, and the profile that only tracing makes it keep.
#include "analysis/session_memory.h"

#include <gtest/gtest.h>

#include "support/recording_builder.h"
#include "support/test_support.h"

namespace headroom::analysis {
namespace {

using recording::ScopeSource;
using test::RecordingBuilder;

// Two runs of two nodes, at 20 and 30 µs and at 120 and 130 µs of the profile. The arena is fullest after b.
constexpr const char* kProfile = R"([
{"cat":"Node","tid":77,"dur":5,"ts":20,"name":"a_kernel_time","args":{"op_name":"Conv","parameter_size":"3000",
 "mem_bytes_in_use":"600","mem_bytes_requested_in_use":"500","mem_arena_held":"4096"}},
{"cat":"Node","tid":77,"dur":5,"ts":30,"name":"b_kernel_time","args":{"op_name":"Relu",
 "mem_bytes_in_use":"1000","mem_bytes_requested_in_use":"900","mem_arena_held":"4096"}},
{"cat":"Node","tid":77,"dur":5,"ts":120,"name":"a_kernel_time","args":{"op_name":"Conv","parameter_size":"3000"}},
{"cat":"Node","tid":77,"dur":5,"ts":130,"name":"b_kernel_time","args":{"op_name":"Relu"}}
])";
constexpr std::uint64_t kProfilerCall = 0x5000, kRunCall = 0x6000;

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
      allocate(start + 17, 60, {0x4100, kProfilerCall, kRunCall});  // the list grows, once a run
      allocate(start + 26, 40, {0x4000, kProfilerCall, kRunCall});  // the record of b
      allocate(start + 26, 4, {0x4050, kProfilerCall, kRunCall});
      builder_.enter_scope(0, (start + 50) * 1000, 0);
    }
  }
  LayerMemory result() {
    auto opened = recording::Recording::open(builder_.finish());
    EXPECT_TRUE(opened.has_value());
    const RecordingAnalysis analysis = analyze_recording(*opened, {});
    return layer_memory(opened->info(), opened->stacks(), analysis);
  }
  static std::int64_t bytes_of(const LayerMemory& memory, MemoryKind kind) {
    for (const MemoryShare& share : memory.shares)
      if (share.kind == kind) return share.bytes.count;
    return 0;
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
  std::int64_t sum = 0;
  for (const MemoryShare& share : memory.shares) sum += share.bytes.count;
  EXPECT_EQ(sum, memory.peak.count);
  EXPECT_EQ(memory.peak_node, "b");
  ASSERT_EQ(memory.nodes.size(), 2u);
  EXPECT_EQ(memory.nodes[0].runs, 2);
}

TEST_F(SessionMemoryTest, ACallThatNodesShareIsNotTheProfilesOwn) {
  record(true);
  const LayerMemory memory = result();
  EXPECT_EQ(bytes_of(memory, MemoryKind::tracing), 2 * (44 + 44)) << "the records, not what is near them";
}

TEST_F(SessionMemoryTest, WithoutAnArenaRunsAreWorkspace) {
  SessionMemory session;
  session.loaded = Bytes{10};
  session.run = Bytes{20};
  session.weights = Bytes{15};  // counted twice by the runtime: no more than there is
  const auto shares = shares_of(session);
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_EQ(shares[0], (MemoryShare{MemoryKind::weights, "", Bytes{10}}));
  EXPECT_EQ(shares[1], (MemoryShare{MemoryKind::workspace, "", Bytes{20}}));
}

}  // namespace
}  // namespace headroom::analysis
