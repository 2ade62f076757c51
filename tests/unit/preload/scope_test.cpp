// Scopes that a program names.
#include <map>
#include <set>

#include "unit/preload/traced_program.h"

namespace headroom::test {
namespace {

using testing::ElementsAre;

TEST(TraceScopes, ScopesOfTheHeaderNest) {
  TracedProgram traced;
  ASSERT_TRUE(traced.run({program_path("traced_scopes")}).status.success());
  const SeenRecording seen = traced.root();
  EXPECT_THAT(seen.scopes_of(66601), ElementsAre(""));
  EXPECT_THAT(seen.scopes_of(66602), ElementsAre("model"));
  EXPECT_THAT(seen.scopes_of(66603), ElementsAre("model/conv1"));
  EXPECT_THAT(seen.scopes_of(66604), ElementsAre("model/conv2"));
  EXPECT_THAT(seen.scopes_of(66605), ElementsAre("model"));
  EXPECT_THAT(seen.scopes_of(66606), ElementsAre(""));
  EXPECT_EQ(seen.allocations_of(66603), 3u);
  EXPECT_THAT(seen.scopes_of(66608), ElementsAre(""));
  // The same name in the same place is one scope: model, its two inner ones, and 64 nested ones.
  EXPECT_EQ(seen.info.scopes.size(), 1u + 3u + 64u);
}

TEST(TraceScopes, AssignsDefaultModeCountsToTheirScope) {
  TracedProgram traced("full=0,large=1000000,period=1000000000000");
  ASSERT_TRUE(traced.run({program_path("traced_scopes")}).status.success());
  std::map<std::string, std::uint64_t> bytes;
  for (const SeenEvent& seen : traced.root().events)
    if (seen.event.kind == MemoryEventKind::counters) bytes[seen.scope] += seen.event.size;
  EXPECT_EQ(bytes["model"], 3u * (66602 + 66605));
  EXPECT_EQ(bytes["model/conv1"], 3u * 66603);
  EXPECT_EQ(bytes["model/conv2"], 3u * 66604);
}

// Scopes are separate events, so they need no allocation to be recorded.
TEST(TraceScopes, AreRecordedWithoutHostMemory) {
  TracedProgram traced("gpu");
  ASSERT_TRUE(traced.run({program_path("traced_scopes")}).status.success());
  const SeenRecording seen = traced.root();
  std::map<std::string, std::size_t> entered;
  for (const SeenEvent& event : seen.events) {
    EXPECT_EQ(event.event.kind, MemoryEventKind::enter_scope);
    ++entered[event.scope];
  }
  EXPECT_EQ(entered["model/conv1"], 3u);
  EXPECT_EQ(entered["model/conv2"], 3u);
  EXPECT_FALSE(seen.info.host_recorded);
}

TEST(TraceScopes, NvtxRangesAreRecordedWithoutHostMemory) {
  if (!std::filesystem::exists(program_path("traced_nvtx"))) GTEST_SKIP() << "built without NVTX's headers";
  TracedProgram traced("gpu");
  ASSERT_TRUE(traced.run({program_path("traced_nvtx")}).status.success());
  std::set<std::string> entered;
  for (const SeenEvent& event : traced.root().events) entered.insert(event.scope);
  EXPECT_THAT(entered, testing::IsSupersetOf({"narrow", "narrow/wide é", "narrow/event", "registered"}));
}

TEST(TraceScopes, UntracedProgramRunsWithoutTheLibrary) {
  SpawnOptions spawn;
  spawn.command = {program_path("traced_scopes")};
  auto process = Subprocess::spawn(spawn);
  ASSERT_TRUE(process);
  EXPECT_TRUE(process->wait().success());
}

TEST(TraceScopes, NvtxRangesBecomeScopes) {
  if (!std::filesystem::exists(program_path("traced_nvtx"))) GTEST_SKIP() << "built without NVTX's headers";
  TracedProgram traced;
  ASSERT_TRUE(traced.run({program_path("traced_nvtx")}).status.success());
  const SeenRecording seen = traced.root();
  EXPECT_THAT(seen.scopes_of(55501), ElementsAre(""));
  EXPECT_THAT(seen.scopes_of(55502), ElementsAre("narrow"));
  EXPECT_THAT(seen.scopes_of(55503), ElementsAre("narrow/wide é"));
  EXPECT_THAT(seen.scopes_of(55504), ElementsAre("narrow/event"));
  EXPECT_THAT(seen.scopes_of(55505), ElementsAre("registered"));
  EXPECT_THAT(seen.scopes_of(55506), ElementsAre("first/second"));
  EXPECT_THAT(seen.scopes_of(55507), ElementsAre("second"));
  EXPECT_THAT(seen.scopes_of(55508), ElementsAre(""));
  EXPECT_EQ(seen.info.scopes.at(1).source, recording::ScopeSource::nvtx);
}

TEST(TraceScopes, NvtxDomainsDoNotPopEachOther) {
  if (!std::filesystem::exists(program_path("traced_nvtx"))) GTEST_SKIP() << "built without NVTX's headers";
  TracedProgram traced;
  ASSERT_TRUE(traced.run({program_path("traced_nvtx")}).status.success());
  const SeenRecording seen = traced.root();
  EXPECT_THAT(seen.scopes_of(55509), ElementsAre("of domain/of default/of other"));
  EXPECT_THAT(seen.scopes_of(55510), ElementsAre("of default/of other"));
  EXPECT_THAT(seen.scopes_of(55511), ElementsAre("of other"));
  EXPECT_THAT(seen.scopes_of(55512), ElementsAre("of other"));
  EXPECT_THAT(seen.scopes_of(55513), ElementsAre("started"));
  EXPECT_THAT(seen.scopes_of(55514), ElementsAre(""));
}

TEST(TraceScopes, NvtxIsIgnoredWithoutLayers) {
  if (!std::filesystem::exists(program_path("traced_nvtx"))) GTEST_SKIP() << "built without NVTX's headers";
  TracedProgram traced("full=1,layers=off");
  ASSERT_TRUE(traced.run({program_path("traced_nvtx")}).status.success());
  EXPECT_THAT(traced.root().scopes_of(55503), ElementsAre(""));
}

}  // namespace
}  // namespace headroom::test
