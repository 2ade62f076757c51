// What ONNX Runtime's arena takes after the profiled runs, and which stacks are its own.
#include "analysis/arena_chunks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analysis/session_memory.h"
#include "support/recording_builder.h"
#include "support/test_support.h"

namespace headroom::analysis {
namespace {

using recording::ScopeSource;
using test::RecordingBuilder;
using Frames = RecordingBuilder::Frames;

constexpr std::uint64_t kRuntime = 0x100000, kProgram = 0x200000;
constexpr std::uint64_t kExtend = kRuntime + 0x10, kPattern = kRuntime + 0x20, kNode = kRuntime + 0x30,
                        kOther = kRuntime + 0x40, kProfiler = kRuntime + 0x50, kRun = kRuntime + 0x60;
constexpr std::int64_t kTold = -1;

struct Case {
  std::int64_t reserved = 1408;  // what the arena holds that did not come through kExtend
  // What the profile says the arena held after its two nodes besides, or kTold: what it took.
  std::int64_t held[2] = {kTold, kTold};
  bool tells = true;  // of an arena at all
  bool full = true;
  bool early = false;  // what the arena takes in the profiled run it takes before the nodes
};

// One profiled run of two nodes, of 5 ms each and 20 ms apart, in which the arena takes 4096 and 8192 bytes;
// then a run in which it takes 65,536, and 300 bytes come from elsewhere. Each run is called from another
// place.
SessionMemory session_of(const Case& figures) {
  const test::TemporaryFolder folder;
  RecordingBuilder builder(folder / "a.hrec", {.full = figures.full, .large_bytes = 1});
  builder.module("/lib/libonnxruntime.so.1", "", kRuntime, kRuntime + 0x1000, kRuntime);
  builder.module("/bin/program", "", kProgram, kProgram + 0x1000, kProgram);
  const auto session = builder.scope("net", 0, ScopeSource::session);
  const auto load = builder.scope("load", session, ScopeSource::load);
  const auto run = builder.scope("run", session, ScopeSource::run);
  builder.thread(0, 77, "main");
  const auto node = [&](int i, std::int64_t took) {
    std::string arena;
    if (figures.tells)
      arena = fmt::format(
          R"(,"mem_bytes_in_use":"{0}","mem_bytes_requested_in_use":"{0}","mem_arena_held":"{1}")", 2000,
          figures.reserved + (figures.held[i] == kTold ? took : figures.held[i]));
    return fmt::format(
        R"({{"cat":"Node","tid":77,"dur":5000,"ts":{},"name":"n{}_kernel_time","args":{{"op_name":"Conv"{}}}}})",
        20'000 * (i + 1), i, arena);
  };
  const std::string profile = (folder / "profile.json").string();
  test::write_text(profile, fmt::format("[{},{}]", node(0, 4096), node(1, 4096 + 8192)));
  builder.profile(profile, 0, session);
  std::uint64_t address = 0x10000000;
  const auto allocate = [&](std::uint64_t ms, std::uint64_t size, Frames frames, std::uint64_t caller) {
    frames.insert(frames.end(), {kRun, kProgram + caller});
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
  auto opened = recording::Recording::open(builder.finish());
  EXPECT_TRUE(opened.has_value());
  const RecordingAnalysis analysis = analyze_recording(*opened, {});
  const std::vector<SessionMemory> sessions = session_memory(opened->info(), analysis);
  EXPECT_EQ(sessions.size(), 1u);
  EXPECT_EQ(sessions.at(0).later.count, 65'536 + 300);
  return sessions.at(0);
}

std::int64_t bytes_of(const SessionMemory& session, MemoryKind kind) {
  std::int64_t bytes = 0;
  for (const MemoryShare& share : shares_of(session))
    if (share.kind == kind) bytes += share.bytes.count;
  return bytes;
}

TEST(ArenaChunks, WhatTheArenaTakesLaterIsKnownByThePlace) {
  const SessionMemory session = session_of({});
  ASSERT_TRUE(session.arena);
  EXPECT_EQ(session.arena->run.count, 4096 + 8192);
  EXPECT_EQ(session.arena->later.count, 65'536);
  EXPECT_EQ(bytes_of(session, MemoryKind::arena_later), 65'536);
  EXPECT_EQ(bytes_of(session, MemoryKind::tensors), 2000);
  EXPECT_EQ(bytes_of(session, MemoryKind::arena_unused), 4096 + 8192 - 2000);
  EXPECT_EQ(bytes_of(session, MemoryKind::workspace), 100 + 300) << "of both runs";
  EXPECT_EQ(bytes_of(session, MemoryKind::run_later), 0);
}

TEST(ArenaChunks, LargeBlocksOfARecordingOfSamplesTellAsWell) {
  const SessionMemory session = session_of({.full = false});
  EXPECT_EQ(bytes_of(session, MemoryKind::arena_later), 65'536);
}

TEST(ArenaChunks, WhereTheSumsDoNotAgreeTheKindIsNotKnown) {
  const SessionMemory session = session_of({.held = {4096, 4096 + 8192 + 256}});
  EXPECT_FALSE(session.arena);
  EXPECT_EQ(bytes_of(session, MemoryKind::arena_later), 0);
  EXPECT_EQ(bytes_of(session, MemoryKind::run_later), 65'536 + 300);
}

// One sum that is larger than a place's by any amount proves nothing.
TEST(ArenaChunks, AnArenaThatDoesNotGrowProvesNothing) {
  const SessionMemory session = session_of({.held = {12'288, 12'288}, .early = true});
  EXPECT_FALSE(session.arena);
}

TEST(ArenaChunks, ASumWithNothingLeftOverIsTheArenas) {
  const SessionMemory session = session_of({.reserved = 0, .held = {12'288, 12'288}, .early = true});
  EXPECT_EQ(bytes_of(session, MemoryKind::arena_later), 65'536);
}

TEST(ArenaChunks, WithoutAnArenaNoneIsSpokenOf) {
  const SessionMemory session = session_of({.tells = false});
  EXPECT_FALSE(session.arena);
  EXPECT_EQ(bytes_of(session, MemoryKind::run), session.run.count);
  EXPECT_GT(session.run.count, 65'536);
}

// The records of the profile are found by the runtime's own part of their stacks.
TEST(ProfileMemory, ASessionMayRunFromSeveralPlaces) {
  const test::TemporaryFolder folder;
  RecordingBuilder builder(folder / "a.hrec");
  builder.module("/lib/libonnxruntime.so.1", "", kRuntime, kRuntime + 0x1000, kRuntime);
  builder.module("/bin/program", "", kProgram, kProgram + 0x1000, kProgram);
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
    const std::uint64_t caller = kProgram + 0x10 * static_cast<std::uint64_t>(i);
    builder.allocate(0, (start + 6) * 1000, address += 0x1000, 40, {kOther, kProfiler, kRun, caller});
    builder.allocate(0, (start + 7) * 1000, address += 0x1000, 60, {kNode, kProfiler, kRun, caller});
    builder.enter_scope(0, (start + 50) * 1000, 0);
  }
  const std::string profile = (folder / "profile.json").string();
  test::write_text(profile, "[" + nodes + "]");
  builder.profile(profile, 0, session);
  auto opened = recording::Recording::open(builder.finish());
  ASSERT_TRUE(opened.has_value());
  const RecordingAnalysis analysis = analyze_recording(*opened, {});
  ASSERT_EQ(analysis.sessions.size(), 1u);
  EXPECT_EQ(analysis.sessions[0].tracing_bytes, kRuns * (40 + 60));
}

}  // namespace
}  // namespace headroom::analysis
