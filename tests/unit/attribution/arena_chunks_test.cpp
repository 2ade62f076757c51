// Detects ONNX Runtime's arena: which stacks belong to it, and which memory it allocates after the profiled
// runs.
#include "attribution/later_passes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "attribution/peak_shares.h"
#include "unit/attribution/analyze.h"

namespace headroom::attribution {
namespace {

using recording::ScopeSource;
using test::RecordingBuilder;
using Frames = RecordingBuilder::Frames;

constexpr std::uint64_t kArenaRuntime = 0x100000, kArenaProgram = 0x200000;
constexpr std::uint64_t kExtend = kArenaRuntime + 0x10, kPattern = kArenaRuntime + 0x20,
                        kNode = kArenaRuntime + 0x30, kOther = kArenaRuntime + 0x40,
                        kProfiler = kArenaRuntime + 0x50, kRun = kArenaRuntime + 0x60;
constexpr std::int64_t kAllocated = -1;

struct Case {
  std::int64_t reserved = 1408;  // bytes that the arena holds but did not allocate through kExtend
  // The arena's bytes after each of the two nodes, as the profile states them. kAllocated: the bytes that
  // the arena did allocate.
  std::int64_t held[2] = {kAllocated, kAllocated};
  bool has_arena = true;  // false: the profile does not mention an arena
  bool full = true;
  bool early = false;  // in the profiled run, the arena allocates before the nodes run
};

// One profiled run of two nodes, which take 5 ms each and start 20 ms apart. The arena allocates 4096 and
// 8192 bytes in them. In a second run the arena allocates 65,536 bytes, and another place allocates 300
// bytes. Each run has a different caller.
SessionMemory session_of(const Case& figures) {
  OwnRecording builder({.full = figures.full, .large_bytes = 1});
  builder.module("/lib/libonnxruntime.so.1", "", kArenaRuntime, kArenaRuntime + 0x1000, kArenaRuntime);
  builder.module("/bin/program", "", kArenaProgram, kArenaProgram + 0x1000, kArenaProgram);
  const auto session = builder.scope("net", 0, ScopeSource::session);
  const auto load = builder.scope("load", session, ScopeSource::load);
  const auto run = builder.scope("run", session, ScopeSource::run);
  builder.thread(0, 77, "main");
  const auto node = [&](int i, std::int64_t took) {
    std::string arena;
    if (figures.has_arena)
      arena = fmt::format(
          R"(,"mem_bytes_in_use":"{0}","mem_bytes_requested_in_use":"{0}","mem_arena_held":"{1}")", 2000,
          figures.reserved + (figures.held[i] == kAllocated ? took : figures.held[i]));
    return fmt::format(
        R"({{"cat":"Node","tid":77,"dur":5000,"ts":{},"name":"n{}_kernel_time","args":{{"op_name":"Conv"{}}}}})",
        20'000 * (i + 1), i, arena);
  };
  const std::string profile = (builder.folder / "profile.json").string();
  test::write_text(profile, fmt::format("[{},{}]", node(0, 4096), node(1, 4096 + 8192)));
  builder.profile(profile, 0, session);
  std::uint64_t address = 0x10000000;
  const auto allocate = [&](std::uint64_t ms, std::uint64_t size, Frames frames, std::uint64_t caller) {
    frames.insert(frames.end(), {kRun, kArenaProgram + caller});
    builder.allocate(0, ms * 1'000'000, address += 0x100000, size, frames);
  };
  builder.enter_scope(0, 1'000'000, load);
  allocate(2, 5000, {kOther}, 0x10);
  builder.enter_scope(0, 10'000'000, run);
  if (figures.early) allocate(11, 12'288, {kExtend, kPattern}, 0x20);
  if (!figures.early) allocate(21, 4096, {kExtend, kNode}, 0x20);
  allocate(26, 40, {kProfiler}, 0x20);
  if (!figures.early) allocate(41, 8192, {kExtend, kPattern}, 0x20);
  allocate(42, 100, {kOther, kNode}, 0x20);
  allocate(46, 40, {kProfiler}, 0x20);
  builder.enter_scope(0, 50'000'000, 0);
  builder.enter_scope(0, 60'000'000, run);
  allocate(61, 65'536, {kExtend, kNode}, 0x30);
  allocate(62, 300, {kOther, kNode}, 0x30);
  builder.enter_scope(0, 70'000'000, 0);
  recording::Recording opened = open_built(builder);
  const RecordingAnalysis analysis = analyze_recording(opened, {});
  const std::vector<SessionMemory> sessions = session_memory(opened.info(), analysis);
  EXPECT_EQ(sessions.size(), 1u);
  EXPECT_EQ(sessions.at(0).later.count, 65'536 + 300);
  return sessions.at(0);
}

std::int64_t session_bytes_of(const SessionMemory& session, MemoryKind kind) {
  std::int64_t bytes = 0;
  for (const MemoryShare& share : shares_of(session))
    if (share.kind == kind) bytes += share.bytes.count;
  return bytes;
}

TEST(ArenaChunks, FindsLaterArenaChunksByStack) {
  const SessionMemory session = session_of({});
  ASSERT_TRUE(session.arena);
  EXPECT_EQ(session.arena->run.count, 4096 + 8192);
  EXPECT_EQ(session.arena->later.count, 65'536);
  EXPECT_EQ(session_bytes_of(session, MemoryKind::arena_later), 65'536);
  EXPECT_EQ(session_bytes_of(session, MemoryKind::tensors), 2000);
  EXPECT_EQ(session_bytes_of(session, MemoryKind::arena_unused), 4096 + 8192 - 2000);
  EXPECT_EQ(session_bytes_of(session, MemoryKind::workspace), 100 + 300) << "of both runs";
  EXPECT_EQ(session_bytes_of(session, MemoryKind::run_later), 0);
}

// Not if the sums disagree, and not if the arena's size is constant and exceeds a stack's sum by an unknown
// amount.
TEST(ArenaChunks, ReportsAnArenaOnlyIfItsSizeIdentifiesTheStack) {
  const SessionMemory differs = session_of({.held = {4096, 4096 + 8192 + 256}});
  EXPECT_FALSE(differs.arena);
  EXPECT_EQ(session_bytes_of(differs, MemoryKind::arena_later), 0);
  EXPECT_EQ(session_bytes_of(differs, MemoryKind::run_later), 65'536 + 300);
  EXPECT_FALSE(session_of({.held = {12'288, 12'288}, .early = true}).arena);
  const SessionMemory exact = session_of({.reserved = 0, .held = {12'288, 12'288}, .early = true});
  EXPECT_EQ(session_bytes_of(exact, MemoryKind::arena_later), 65'536);
  const SessionMemory without = session_of({.has_arena = false});
  EXPECT_FALSE(without.arena);
  EXPECT_EQ(session_bytes_of(without, MemoryKind::run), without.run.count);
  EXPECT_GT(without.run.count, 65'536);
}

// The profile's records are found by the frames of the runtime, not by those of the caller.
TEST(ProfileMemory, FindsRecordsWithSeveralCallers) {
  OwnRecording builder;
  builder.module("/lib/libonnxruntime.so.1", "", kArenaRuntime, kArenaRuntime + 0x1000, kArenaRuntime);
  builder.module("/bin/program", "", kArenaProgram, kArenaProgram + 0x1000, kArenaProgram);
  const auto session = builder.scope("net", 0, ScopeSource::session);
  const auto run = builder.scope("run", session, ScopeSource::run);
  builder.thread(0, 77, "main");
  std::string nodes;
  std::uint64_t address = 0x10000000;
  constexpr int kRuns = 3;
  for (int i = 0; i < kRuns; ++i) {
    const auto start = static_cast<std::uint64_t>(100 * (i + 1));
    nodes += fmt::format(
        R"({}{{"cat":"Node","tid":77,"dur":5,"ts":{},"name":"n_kernel_time","args":{{"op_name":"Conv"}}}})",
        i > 0 ? "," : "", start);
    builder.enter_scope(0, (start - 10) * 1000, run);
    const std::uint64_t caller = kArenaProgram + 0x10 * static_cast<std::uint64_t>(i);
    builder.allocate(0, (start + 6) * 1000, address += 0x1000, 40, {kOther, kProfiler, kRun, caller});
    builder.allocate(0, (start + 7) * 1000, address += 0x1000, 60, {kNode, kProfiler, kRun, caller});
    builder.enter_scope(0, (start + 50) * 1000, 0);
  }
  const std::string profile = (builder.folder / "profile.json").string();
  test::write_text(profile, "[" + nodes + "]");
  builder.profile(profile, 0, session);
  const RecordingAnalysis analysis = analyze(builder);
  ASSERT_EQ(analysis.sessions.size(), 1u);
  EXPECT_EQ(analysis.sessions[0].tracing.count, kRuns * (40 + 60));
}

}  // namespace
}  // namespace headroom::attribution
