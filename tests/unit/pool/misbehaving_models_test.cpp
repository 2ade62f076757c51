#include "headroom/model_pool.h"

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "support/test_support.h"

namespace headroom {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kFaultMiB = 1 << 20;

// A plug-in whose model files contain commands: tests/plugins/misbehaving_backend.cpp.
class MisbehavingModels : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("HEADROOM_BACKEND_PATH", (test::built_path("test-plugins")).c_str(), 1); }
  void add(ModelPool& pool, const std::string& name, const std::string& commands) {
    PoolModel model;
    model.name = name;
    model.path = folder_ / (name + ".misbehave");
    model.backend = "misbehaving";
    test::write_text(model.path, commands);
    model.load_peak_bytes = model.run_peak_bytes = 16 * kFaultMiB;
    pool.add(model);
  }
  static void expect_served(ModelPool& pool) {
    PoolSession session = pool.acquire("good");
    ASSERT_TRUE(session) << session.message();
    session.run();
    EXPECT_EQ(session.output(0).dims, (std::vector<std::int64_t>{1, 4}));
  }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(MisbehavingModels, DontBlockOtherModels) {
  ModelPool pool({.budget_bytes = 1024 * kFaultMiB, .load_timeout = std::chrono::seconds(3)});
  add(pool, "good", "obey nothing\n");
  add(pool, "fails", "load fail\n");
  add(pool, "hangs", "load hang\n");
  expect_served(pool);
  EXPECT_EQ(pool.acquire("fails").refusal(), PoolRefusal::load_failed);
  expect_served(pool);
  EXPECT_EQ(pool.acquire("hangs").refusal(), PoolRefusal::load_hangs);
  EXPECT_EQ(pool.acquire("hangs").refusal(), PoolRefusal::load_hangs);  // refused at once
  expect_served(pool);
  pool.unload("good");  // so that it is reloaded while the other load hangs
  while (pool.metrics().unloads == 0) std::this_thread::yield();
  expect_served(pool);
  EXPECT_EQ(pool.metrics().hangs, 1);
}

TEST_F(MisbehavingModels, FailedRunEndsOnlyItsOwnSession) {
  ModelPool pool({.budget_bytes = 1024 * kFaultMiB});
  add(pool, "good", "obey nothing\n");
  add(pool, "bad", "run fail\n");
  PoolSession bad = pool.acquire("bad");
  EXPECT_FALSE(bad) << "warm-up runs fail, so the load fails";
  EXPECT_EQ(bad.refusal(), PoolRefusal::load_failed);
  expect_served(pool);
}

TEST_F(MisbehavingModels, LeakedMemoryIsCounted) {
#if defined(HEADROOM_SANITIZED)
  GTEST_SKIP() << "a sanitizer allocates memory, too";
#endif
  ModelPool pool({.budget_bytes = 256 * kFaultMiB, .margin_bytes = 0});
  add(pool, "good", "obey nothing\n");
  add(pool, "leaks", "run allocate 32\n");  // in each run; the stated size is 16 MiB in all
  PoolSession session = pool.acquire("leaks");
  ASSERT_TRUE(session) << session.message();
  session.run();
  expect_served(pool);  // this load also reads the process's memory
  EXPECT_GE(pool.metrics().resident_bytes, 64 * kFaultMiB)
      << "the charge must be what warm-up used, not the stated size";
  // Its charge and the memory beyond it add up to three runs. The other model is charged 16 MiB.
  EXPECT_GE(pool.metrics().resident_bytes + pool.metrics().unaccounted_bytes, (3 * 32 + 16) * kFaultMiB);
  session.discard();
  expect_served(pool);
  EXPECT_LE(pool.metrics().peak_used_bytes, 256 * kFaultMiB);
}

// docs/model-pool.md contains this example file verbatim, and the example works.

}  // namespace
}  // namespace headroom
