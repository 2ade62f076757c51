#include <algorithm>

#include "base/files.h"
#include "limits/memory_limit.h"
#include "limits_test_support.h"

namespace headroom::limits {
namespace {
using testing::HasSubstr;

std::vector<std::string> probe_child() { return {(executable_folder() / "limits_probe_child").string()}; }

const LimitRoute& route(const Limit& limit, std::string_view name) {
  return *std::find_if(limit.routes.begin(), limit.routes.end(),
                       [&](const LimitRoute& one) { return one.name == name; });
}

std::vector<std::string> outcomes(const Limit& limit) {
  std::vector<std::string> all;
  for (const LimitRoute& one : limit.routes) all.push_back(one.outcome);
  return all;
}

TEST(LimitProbeChild, AllocatesByEveryRouteWithoutALimit) {
  const auto output_of = [](const std::string& name, bool works) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(run_limit_probe(name, mebibytes(8)) == 0, works) << name;
    return testing::internal::GetCapturedStdout();
  };
  for (const std::string& name : probe_routes())
    EXPECT_THAT(output_of(name, true), HasSubstr("{\"route\":\"" + name + "\",\"taken_bytes\":0}"));
  EXPECT_EQ(output_of("wish", false), "{\"route\":\"wish\",\"taken_bytes\":0,\"stopped_by\":22}\n");
}

TEST(LimitProbe, FindsAControlGroupHardByEveryRoute) {
  if (kEmulated || kSanitized) GTEST_SKIP() << kNoRealLimits;
  for (const Bytes bytes : {mebibytes(512), mebibytes(8)}) {  // the smallest limit is probed itself
    const auto limit = probe_limit(bytes, "cgroup", probe_child());
    if (!limit) GTEST_SKIP() << limit.error().sentence();
    EXPECT_EQ(limit->type, LimitType::hard) << limit->note;
    EXPECT_EQ(limit->bytes, bytes);
    if (bytes == mebibytes(8)) continue;
    EXPECT_EQ(limit->note, "");
    ASSERT_EQ(limit->routes.size(), probe_routes().size());
    for (const LimitRoute& one : limit->routes)
      EXPECT_EQ(one.outcome, "killed") << one.name << ": " << one.detail;
  }
}

TEST(LimitProbe, FindsADataLimitSoftAndNamesEscapes) {
  if (kEmulated || kSanitized) GTEST_SKIP() << kNoRealLimits;
  const auto limit = probe_limit(mebibytes(512), "rlimit", probe_child());
  ASSERT_TRUE(limit) << limit.error().sentence();
  EXPECT_EQ(limit->type, LimitType::soft);
  EXPECT_EQ(limit->mechanism, LimitMechanism::rlimit_data);
  EXPECT_THAT(route(*limit, "malloc_touch").detail, HasSubstr("Cannot allocate memory after"));
  for (const char* name : {"malloc_touch", "mmap_private", "brk"})
    EXPECT_EQ(route(*limit, name).outcome, "refused") << name;
  for (const char* name : {"mmap_shared", "memfd", "fork"})
    EXPECT_EQ(route(*limit, name).outcome, "escaped") << name;
  EXPECT_THAT(limit->note, HasSubstr("memory escapes the limit by mmap_shared, memfd, shm_file, fork"));
}

TEST(LimitProbe, CudaWithoutProofMakesAHardLimitSoft) {
  Limit limit{
      mebibytes(512), LimitType::hard, LimitMechanism::cgroup_v2, {{"malloc_touch", "killed", ""}}, ""};
  note_unproved_cuda_memory(limit);
  EXPECT_EQ(limit.type, LimitType::soft);
  EXPECT_EQ(limit.note, "CUDA memory is not proved to be charged on this device");
  EXPECT_EQ(route(limit, "cuda").outcome, "not_tried");
  EXPECT_EQ(type_with_reason(limit), "soft (CUDA memory is not proved to be charged on this device)");
  Limit unavailable{mebibytes(512), LimitType::unavailable, LimitMechanism::none, {}, ""};
  note_unproved_cuda_memory(unavailable);
  EXPECT_EQ(type_with_reason(unavailable), "unavailable");
  EXPECT_EQ(unavailable.note, "");
}

TEST(LimitProbe, TriesNothingWithoutEnforcement) {
  const auto watched = probe_limit(mebibytes(512), "watchdog", probe_child());
  ASSERT_TRUE(watched);
  EXPECT_EQ(watched->type, LimitType::soft);
  EXPECT_THAT(outcomes(*watched), testing::Each("not_tried"));
  const auto none = probe_limit(mebibytes(512), "none", probe_child());
  ASSERT_TRUE(none);
  EXPECT_EQ(none->type, LimitType::unavailable);
}

TEST(LimitProbe, ProvesNothingIfTheProbeCannotRun) {
  for (const char* command : {"/nowhere/headroom", "/bin/false"}) {
    const auto limit = probe_limit(mebibytes(512), "rlimit", {command});
    ASSERT_TRUE(limit) << limit.error().sentence();
    EXPECT_EQ(limit->type, LimitType::soft);
    EXPECT_THAT(outcomes(*limit), testing::Each("not_tried"));
    EXPECT_THAT(limit->note, HasSubstr("the probe could not try malloc_touch, "));
  }
}

// If another process kills a probe while the group counts no OOM kill, the probe has not reached the limit.
TEST(LimitProbe, IgnoresAKillThatTheGroupDidNotCount) {
  if (kEmulated || kSanitized) GTEST_SKIP() << kNoRealLimits;
  const auto limit = probe_limit(mebibytes(512), "cgroup",
                                 {"/bin/sh", "-c", "echo '{\"taken_bytes\":1048576}'; kill -9 $$", "probe"});
  if (!limit) GTEST_SKIP() << limit.error().sentence();
  EXPECT_EQ(limit->type, LimitType::soft);
  EXPECT_THAT(outcomes(*limit), testing::Each("not_tried"));
}

}  // namespace
}  // namespace headroom::limits
