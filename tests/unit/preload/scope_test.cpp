// Scopes that a program names.
#include <map>
#include <set>

#include "unit/preload/traced_program.h"

namespace headroom::test {
namespace {

using testing::ElementsAre;

TEST(TraceScopes, ScopesOfTheHeaderNest) {
  const SeenRecording seen = recording_of({"traced_scopes"});
  const std::map<std::uint64_t, std::string> scopes = {
      {66601, ""}, {66602, "model"}, {66603, "model/conv1"}, {66604, "model/conv2"}, {66605, "model"},
      {66606, ""}, {66608, ""}};
  for (const auto& [size, scope] : scopes) EXPECT_THAT(seen.scopes_of(size), ElementsAre(scope)) << size;
  EXPECT_EQ(seen.allocations_of(66603), 3u);
  // The same name in the same place is one scope: model, its two inner ones, and 64 nested ones.
  EXPECT_EQ(seen.info.scopes.size(), 1u + 3u + 64u);
}

TEST(TraceScopes, AssignsDefaultModeCountsToTheirScope) {
  std::map<std::string, std::uint64_t> bytes;
  for (const SeenEvent& seen :
       recording_of({"traced_scopes"}, "full=0,large=1000000,period=1000000000000").events)
    if (seen.event.kind == MemoryEventKind::counters) bytes[seen.scope] += seen.event.size;
  EXPECT_EQ(bytes["model"], 3u * (66602 + 66605));
  EXPECT_EQ(bytes["model/conv1"], 3u * 66603);
  EXPECT_EQ(bytes["model/conv2"], 3u * 66604);
}

// Scopes are separate events, so they need no allocation to be recorded.
TEST(TraceScopes, AreRecordedWithoutHostMemory) {
  const SeenRecording seen = recording_of({"traced_scopes"}, "gpu");
  std::map<std::string, std::size_t> entered;
  for (const SeenEvent& event : seen.events) {
    EXPECT_EQ(event.event.kind, MemoryEventKind::enter_scope);
    ++entered[event.scope];
  }
  EXPECT_EQ(entered["model/conv1"], 3u);
  EXPECT_EQ(entered["model/conv2"], 3u);
  EXPECT_FALSE(seen.info.host_recorded);
  if (!std::filesystem::exists(program_path("traced_nvtx"))) GTEST_SKIP() << "built without NVTX's headers";
  std::set<std::string> ranges;
  for (const SeenEvent& event : recording_of({"traced_nvtx"}, "gpu").events) ranges.insert(event.scope);
  EXPECT_THAT(ranges, testing::IsSupersetOf({"narrow", "narrow/wide é", "narrow/event", "registered"}));
}

TEST(TraceScopes, UntracedProgramRunsWithoutTheLibrary) {
  SpawnOptions spawn;
  spawn.command = {program_path("traced_scopes")};
  auto process = Subprocess::spawn(spawn);
  ASSERT_TRUE(process);
  EXPECT_TRUE(process->wait().success());
}

// Ranges of several domains, which do not pop each other.
TEST(TraceScopes, NvtxRangesBecomeScopes) {
  if (!std::filesystem::exists(program_path("traced_nvtx"))) GTEST_SKIP() << "built without NVTX's headers";
  const SeenRecording seen = recording_of({"traced_nvtx"});
  const std::map<std::uint64_t, std::string> scopes = {{55501, ""},
                                                       {55502, "narrow"},
                                                       {55503, "narrow/wide é"},
                                                       {55504, "narrow/event"},
                                                       {55505, "registered"},
                                                       {55506, "first/second"},
                                                       {55507, "second"},
                                                       {55508, ""},
                                                       {55509, "of domain/of default/of other"},
                                                       {55510, "of default/of other"},
                                                       {55511, "of other"},
                                                       {55512, "of other"},
                                                       {55513, "started"},
                                                       {55514, ""}};
  for (const auto& [size, scope] : scopes) EXPECT_THAT(seen.scopes_of(size), ElementsAre(scope)) << size;
  EXPECT_EQ(seen.info.scopes.at(1).source, recording::ScopeSource::nvtx);
  EXPECT_THAT(recording_of({"traced_nvtx"}, "full=1,layers=off").scopes_of(55503), ElementsAre(""));
}

}  // namespace
}  // namespace headroom::test
