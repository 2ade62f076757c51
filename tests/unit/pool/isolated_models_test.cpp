// Pool models that run in their own process.
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/files.h"
#include "base/subprocess.h"
#include "headroom/model_pool.h"
#include "inference/isolated/isolated_messages.h"
#include "support/test_support.h"

namespace headroom {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr std::int64_t kMiB = 1 << 20;
#if defined(HEADROOM_SANITIZED)
constexpr const char* kCrash =
    "exit code 1";  // a sanitizer catches the signal, reports it and exits with a code
#else
constexpr const char* kCrash = "SIGSEGV";
#endif
constexpr const char* kFace = "models/face_detection_front_128x128_barracuda.onnx";

// The library has its own list of isolated processes.
std::size_t children_of_this_process() {
  std::size_t children = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string stat = read_small_file(entry.path() / "stat").value_or("");
    const std::size_t name_ends = stat.rfind(')');  // "17 (name) S PARENT …"
    if (name_ends == std::string::npos || stat.size() < name_ends + 4) continue;
    if (std::atoi(stat.c_str() + name_ends + 4) == ::getpid()) ++children;
  }
  return children;
}

// Models of a plug-in whose model files contain commands: tests/plugins/misbehaving_backend.cpp.
class MisbehavingModels : public ::testing::Test {
 protected:
  MisbehavingModels() {
    model_.backend = "misbehaving";
    model_.load_peak_bytes = model_.run_peak_bytes = 16 * kMiB;
    const std::string folders = test::built_path("test-plugins") + ":" + test::built_path("bin");
    ::setenv("HEADROOM_BACKEND_PATH", folders.c_str(), 1);
  }
  void add(ModelPool& pool, const std::string& name, const std::string& commands) {
    model_.name = name;
    model_.path = folder_ / (name + ".misbehave");
    test::write_text(model_.path, commands);
    pool.add(model_);
  }
  static void expect_served(ModelPool& pool) {
    PoolSession session = pool.acquire("good");
    ASSERT_TRUE(session) << session.message();
    session.run();
    EXPECT_EQ(session.output(0).dims, (std::vector<std::int64_t>{1, 4}));
  }
  PoolModel model_;  // what all of them have in common

 private:
  test::TemporaryFolder folder_;
};

class IsolatedModels : public MisbehavingModels {
 protected:
  IsolatedModels() {
    model_.isolated = true;
    model_.load_peak_bytes = model_.run_peak_bytes = {};
  }
  static PoolModel face(bool isolated) {
    PoolModel model;
    model.name = isolated ? "isolated" : "inside";
    model.path = test::dependency_file(kFace)->string();
    model.image_size = 128;
    model.isolated = isolated;
    return model;
  }
  // Expects the session's process to end in a run.
  static void expect_crash(PoolSession& session, const ::testing::Matcher<std::string>& why) {
    try {
      session.run();
      FAIL() << "the run did not end its process";
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), why);
    }
  }
};

TEST_F(IsolatedModels, CrashMakesRunThrowAndModelIsReloaded) {
  ModelPool pool({.budget_bytes = 1024 * kMiB});
  add(pool, "good", "obey nothing\n");
  add(pool, "crashes", "run crash_after 3\n");  // two warm-up runs, then one more
  add(pool, "killed", "run kill_after 2\n");
  for (int time = 0; time < 3; ++time) {
    PoolSession session = pool.acquire("crashes");
    ASSERT_TRUE(session) << session.message();
    session.run();
    expect_crash(session, AllOf(HasSubstr("misbehaving cannot run crashes.misbehave"), HasSubstr(kCrash)));
    EXPECT_THROW(session.run(), std::runtime_error) << "the process must stay dead";
    expect_served(pool);
  }
  PoolSession killed = pool.acquire("killed");
  ASSERT_TRUE(killed) << killed.message();
  expect_crash(killed, HasSubstr("SIGKILL"));
  expect_served(pool);
  EXPECT_EQ(pool.metrics().load_failures, 0);
}

TEST_F(IsolatedModels, FailedCrashedOrHangingLoadsDontBlockOtherModels) {
  ModelPool pool({.budget_bytes = 1024 * kMiB, .load_timeout = 2s});
  add(pool, "good", "obey nothing\n");
  const struct {
    const char *name, *commands, *message;
  } cases[] = {{"fails", "load fail\n", "it was told to fail"},
               {"crashes", "load crash\n", kCrash},
               {"hangs", "load hang\n", "its process did not respond for"},  // it was killed
               {"hangs_later", "run hang\n", ""}};  // the first run is part of the load
  for (const auto& each : cases) {
    add(pool, each.name, each.commands);
    const PoolSession session = pool.acquire(each.name);
    EXPECT_EQ(session.refusal(), PoolRefusal::load_failed) << each.name;
    EXPECT_THAT(session.message(), HasSubstr(each.message));
    expect_served(pool);
  }
  EXPECT_EQ(pool.metrics().hangs, 0);
  EXPECT_EQ(children_of_this_process(), 1U) << "only the good model's process remains";
}

TEST_F(IsolatedModels, GiveSameOutputsAsInProcess) {
  if (!test::dependency_file(kFace)) GTEST_SKIP() << test::absent_message(kFace);
  ModelPool pool({.budget_bytes = 2048 * kMiB});
  pool.add(face(false));
  pool.add(face(true));
  std::vector<float> picture(3 * 128 * 128);
  for (std::size_t i = 0; i < picture.size(); ++i) picture[i] = static_cast<float>(i % 251) / 251.0F;
  std::vector<std::vector<float>> scores;
  for (const char* name : {"inside", "isolated", "isolated"}) {
    PoolSession session = pool.acquire(name);
    ASSERT_TRUE(session) << session.message();
    EXPECT_EQ(session.inputs()[0].dims.size(), 4U);
    session.set_input(0, picture.data(), picture.size() * sizeof(float), session.inputs()[0].dims);
    session.run();
    const PoolTensor tensor = session.output(1);
    const auto* values = static_cast<const float*>(tensor.data);
    scores.emplace_back(values, values + 64);
    EXPECT_THROW(session.set_input(0, picture.data(), 8, {1, 2}), std::invalid_argument);
    EXPECT_THROW(session.output(99), std::exception);
  }
  EXPECT_EQ(scores[0], scores[1]);
  EXPECT_EQ(scores[0], scores[2]);
}

TEST_F(IsolatedModels, MemoryIsChargedAndFreedOnUnload) {
#if defined(HEADROOM_SANITIZED)
  GTEST_SKIP() << "a sanitizer allocates memory, too";
#endif
  ModelPool pool({.budget_bytes = 1024 * kMiB, .margin_bytes = 0});
  add(pool, "large", "load allocate 100\n");
  const std::int64_t before = pool.metrics().used_bytes;
  ASSERT_TRUE(pool.preload("large"));
  EXPECT_GE(pool.metrics().used_bytes - before, 100 * kMiB);
  EXPECT_LT(pool.metrics().used_bytes - before, 120 * kMiB);
  pool.unload("large");
  while (pool.metrics().unloads == 0) std::this_thread::sleep_for(1ms);
  EXPECT_LT(pool.metrics().used_bytes - before, 4 * kMiB);
  EXPECT_EQ(pool.metrics().short_returns, 0);
  EXPECT_EQ(children_of_this_process(), 0U);
}

TEST_F(IsolatedModels, OutliveThePoolThatMadeThem) {
  auto pool = std::make_unique<ModelPool>(ModelPoolOptions{.budget_bytes = 1024 * kMiB});
  add(*pool, "good", "obey nothing\n");
  PoolSession session = pool->acquire("good");
  pool.reset();
  session.run();
  EXPECT_EQ(children_of_this_process(), 1U);
  session.discard();
  EXPECT_EQ(children_of_this_process(), 0U);
}

TEST_F(IsolatedModels, ChildProcessEndsWithItsParent) {
  auto in = inference::SharedTensors::create("in"), out = inference::SharedTensors::create("out");
  ASSERT_TRUE(in && out);
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
  UniqueFd ours(sockets[0]), theirs(sockets[1]);
  SpawnOptions options;
  options.command = {test::built_path("bin/headroom_model_process")};
  options.inherited = {{theirs.get(), inference::kChannelFd},
                       {in->fd(), inference::kInputsFd},
                       {out->fd(), inference::kOutputsFd}};
  auto process = Subprocess::spawn(options);
  ASSERT_TRUE(process) << process.error().sentence();
  theirs.reset();
  inference::MessageChannel channel(std::move(ours));
  Json nonsense;
  nonsense["do"] = "nothing that is known";
  ASSERT_TRUE(channel.send(nonsense));
  const auto answer = channel.receive();
  ASSERT_TRUE(answer && *answer);
  EXPECT_THAT(get_text(**answer, "why"), HasSubstr("no model is loaded"));
  channel.close();
  const auto ended = process->wait_for({10'000'000'000});
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->exit_code, 0);
}

TEST(PlacedTensors, RejectOffsetsOutsideTheirMemory) {
  const auto read = [](const char* text) {
    return inference::placed_tensor_from_json(*parse_json(text), 100).has_value();
  };
  EXPECT_TRUE(read(R"({"type": 1, "dims": [25], "at": 0, "bytes": 100})"));
  EXPECT_TRUE(read(R"({"type": 1, "dims": [], "at": 96, "bytes": 4})"));
  EXPECT_TRUE(read(R"({"type": 14, "dims": [3], "at": 0, "bytes": 0})"));
  EXPECT_FALSE(read(R"({"type": 1, "dims": [25], "at": 1, "bytes": 100})"));
  EXPECT_FALSE(read(R"({"type": 1, "dims": [24], "at": 0, "bytes": 100})"));
  EXPECT_FALSE(read(R"({"type": 1, "dims": [25], "at": -1, "bytes": 100})"));
  EXPECT_FALSE(read(R"({"type": 1, "dims": [25], "at": 9223372036854775807, "bytes": 100})"));
  EXPECT_FALSE(read(R"({"type": 1, "dims": [4611686018427387904, 4], "at": 0, "bytes": 16})"));
  EXPECT_FALSE(read(R"({"dims": "no"})"));
}

TEST_F(MisbehavingModels, LeakedMemoryIsCounted) {
#if defined(HEADROOM_SANITIZED)
  GTEST_SKIP() << "a sanitizer allocates memory, too";
#endif
  ModelPool pool({.budget_bytes = 256 * kMiB, .margin_bytes = 0});
  add(pool, "good", "obey nothing\n");
  add(pool, "leaks", "run allocate 32\n");  // in each run; the stated size is 16 MiB in all
  PoolSession session = pool.acquire("leaks");
  ASSERT_TRUE(session) << session.message();
  session.run();
  expect_served(pool);  // this load also reads the process's memory
  EXPECT_GE(pool.metrics().resident_bytes, 64 * kMiB)
      << "the charge must be what warm-up used, not the stated size";
  // Its charge and the memory beyond it add up to three runs. The other model is charged 16 MiB.
  EXPECT_GE(pool.metrics().resident_bytes + pool.metrics().unaccounted_bytes, (3 * 32 + 16) * kMiB);
  session.discard();
  expect_served(pool);
  EXPECT_LE(pool.metrics().peak_used_bytes, 256 * kMiB);
}

}  // namespace
}  // namespace headroom
