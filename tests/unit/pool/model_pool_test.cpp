// Tests headroom/model_pool.h with ONNX Runtime, as a program would use it.
#include "headroom/model_pool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <stdexcept>
#include <thread>

#include "pool/memory_meter.h"
#include "support/test_support.h"
#include "types/sample.h"

namespace headroom {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kModelMiB = 1 << 20;
constexpr const char* kFront = "models/face_detection_front_128x128_barracuda.onnx";
constexpr const char* kBack = "models/face_detection_back_256x256_barracuda.onnx";
constexpr const char* kText = "models/ch_PP-OCRv4_det_infer.onnx";

class ModelPoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("HEADROOM_BACKEND_PATH", (test::built_path("bin")).c_str(), 1);
    for (const char* file : {kFront, kBack, kText})
      if (!test::dependency_file(file)) GTEST_SKIP() << test::absent_message(file);
  }
  static PoolModel model(const char* name, const char* file) {
    PoolModel made;
    made.name = name;
    made.path = test::dependency_file(file)->string();
    made.image_size = 160;
    return made;
  }
  static std::vector<float> first_values(PoolSession& session) {
    session.run();
    const PoolTensor tensor = session.output(0);
    EXPECT_EQ(tensor.type, PoolElement::float32);
    const auto* values = static_cast<const float*>(tensor.data);
    return {values, values + 8};
  }
};

// Reads the process's memory every millisecond while this object lives, independently of the pool's
// account.
class LargestMeasured {
 public:
  LargestMeasured()
      : thread_([this] {
          while (!is_done_) {
            largest_ = std::max<std::int64_t>(largest_, pool::own_bytes().value_or(Bytes{}).count);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        }) {}
  LargestMeasured(const LargestMeasured&) = delete;
  ~LargestMeasured() { end(); }
  std::int64_t end() {
    is_done_ = true;
    if (thread_.joinable()) thread_.join();
    return largest_;
  }

 private:
  std::atomic<bool> is_done_ = false;
  std::atomic<std::int64_t> largest_ = 0;
  std::thread thread_;  // declared last: it uses the members above
};

TEST_F(ModelPoolTest, GivesSessionsThatRun) {
  ModelPool pool({.budget_bytes = 1024 * kModelMiB});
  pool.add(model("front", kFront));
  std::vector<float> before;
  {
    PoolSession session = pool.acquire("front");
    ASSERT_TRUE(session) << session.message();
    ASSERT_EQ(session.inputs().size(), 1U);
    EXPECT_EQ(session.inputs()[0].type, PoolElement::float32);
    EXPECT_FALSE(session.outputs().empty());
    before = first_values(session);
    std::vector<float> picture(3 * 128 * 128, 0.25F);
    session.set_input(0, picture.data(), picture.size() * sizeof(float), session.inputs()[0].dims);
    EXPECT_NE(first_values(session), before);
    EXPECT_THROW(session.set_input(7, picture.data(), 4, {1}), std::invalid_argument);
    EXPECT_THROW(session.set_input(0, picture.data(), 4, {1}), std::invalid_argument);
    EXPECT_THROW(session.set_input(0, nullptr, picture.size() * sizeof(float), session.inputs()[0].dims),
                 std::invalid_argument);
    EXPECT_THROW(session.output(0), std::logic_error) << "the outputs belong to earlier inputs";
    session.run();
    EXPECT_THROW(session.output(99), std::invalid_argument);
    session.set_input(0, picture.data(), picture.size() * sizeof(float), session.inputs()[0].dims);
    EXPECT_THROW(session.output(0), std::logic_error) << "the outputs belong to earlier inputs";
    const PoolSession moved = std::move(session);
    EXPECT_TRUE(moved);
    EXPECT_FALSE(session);
    EXPECT_THROW(session.message(), std::logic_error);
    EXPECT_THROW(session.run(), std::logic_error);
  }
  // The next session has valid inputs instead of the last user's, and no outputs of the last run.
  PoolSession session;  // for example a member of the program
  EXPECT_FALSE(session);
  EXPECT_THROW(session.run(), std::logic_error);
  session = pool.acquire("front");
  EXPECT_THROW(session.output(0), std::logic_error);
  EXPECT_EQ(first_values(session), before);
  EXPECT_EQ(pool.metrics().hits, 1);
}

// More threads than models that fit the budget: they wait for loads and for each other, and their patience
// ends at once.
TEST_F(ModelPoolTest, ServesManyThreadsInABudgetTooSmallForAllModels) {
#if defined(HEADROOM_SANITIZED)
  GTEST_SKIP() << "a sanitizer keeps freed memory for a while";
#endif
  constexpr int kThreads = 4, kRequests = 12;
  ModelPool pool({.budget_bytes = pool::own_bytes()->count + 100 * kModelMiB,
                  .margin_bytes = 0,
                  .patience = std::chrono::nanoseconds(0)});
  const std::vector<std::pair<const char*, const char*>> files{
      {"front", kFront}, {"back", kBack}, {"text", kText}};
  for (const auto& [name, file] : files) {
    PoolModel made = model(name, file);
    made.load_peak_bytes = made.run_peak_bytes =
        40 * kModelMiB;  // two of the three models fit next to the runtime
    pool.add(made);
  }
  LargestMeasured measured;
  std::atomic<int> served = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRequests; ++i) {
        PoolSession session =
            pool.acquire(files[static_cast<std::size_t>(t + i) % files.size()].first, {.priority = t % 2});
        EXPECT_TRUE(session) << session.message();
        if (session && first_values(session).size() == 8) ++served;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served, kThreads * kRequests);
  EXPECT_GT(pool.metrics().evictions, 0);
  EXPECT_GT(pool.metrics().reload_seconds, 0);
  EXPECT_GT(pool.metrics().returned_bytes, pool.metrics().promised_bytes / 2);
  EXPECT_LE(pool.metrics().peak_used_bytes, pool.metrics().budget_bytes);
  EXPECT_LE(measured.end(), pool.metrics().budget_bytes);
}

TEST_F(ModelPoolTest, SessionsOfOneModelRunAtTheSameTime) {
  ModelPool pool({.budget_bytes = 2048 * kModelMiB});
  PoolModel both = model("front", kFront);
  both.sessions = 2;
  pool.add(both);
  PoolSession first = pool.acquire("front"), second = pool.acquire("front");
  ASSERT_TRUE(second) << second.message();
  const std::vector<float> expected = first_values(first);
  std::thread other([&] {
    for (int i = 0; i < 20; ++i) EXPECT_EQ(first_values(second), expected);
  });
  for (int i = 0; i < 20; ++i) EXPECT_EQ(first_values(first), expected);
  other.join();
  EXPECT_EQ(pool.metrics().loads, 2);
}

TEST_F(ModelPoolTest, AllocatesFrameMemoryCompletely) {
  ModelPool pool({.budget_bytes = 2048 * kModelMiB, .frame_bytes = 8 * kModelMiB});
  ASSERT_NE(pool.frames(), nullptr);
  std::memset(pool.frames(), 7, 8 * kModelMiB);
  // Reads the frame memory as another process would.
  std::uint8_t last = 0;
  ASSERT_EQ(::pread(pool.frames_fd(), &last, 1, ModelPool::frames_offset() + 8 * kModelMiB - 1), 1);
  EXPECT_EQ(last, 7);
  EXPECT_EQ(::pread(pool.frames_fd(), &last, 1, ModelPool::frames_offset() + 8 * kModelMiB), 0);
  const ModelPool without({.budget_bytes = kModelMiB});
  EXPECT_EQ(const_cast<ModelPool&>(without).frames(), nullptr);
  EXPECT_EQ(without.frames_fd(), -1);
}

// Runs in its own process, because a process has only one arena.
TEST_F(ModelPoolTest, AllocatesArenaCompletelyBeforeTheFirstLoad) {
#if defined(HEADROOM_SANITIZED)
  GTEST_SKIP() << "a sanitizer allocates memory, too";
#endif
  constexpr std::int64_t kArena = 64 * kModelMiB;
  const pid_t child = ::fork();
  if (child == 0) {
    const auto own = [] { return pool::own_bytes().value_or(Bytes{}).count; };
    ModelPool pool({.budget_bytes = 1024 * kModelMiB, .arena_bytes = kArena});
    const std::int64_t before = own();
    pool.add(model("front", kFront));
    const std::int64_t after = own(), used = pool.metrics().used_bytes;
    std::vector<float> first;
    {
      PoolSession session = pool.acquire("front");
      if (!session) ::_exit(2);
      first = first_values(session);
    }
    const std::int64_t loaded = own();
    const bool is_whole =
        after - before >= kArena &&
        used >= after - kModelMiB;  // a thread's stack, for example, is not resident completely
    // The session takes little more than its weights: run memory comes from the arena.
    ::_exit(is_whole && loaded - after < 8 * kModelMiB && first.size() == 8 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Two runtimes in one process.
TEST_F(ModelPoolTest, ServesLibTorchAndOnnxRuntimeInOneProcess) {
#if defined(HEADROOM_SANITIZED)
  GTEST_SKIP() << "a sanitizer keeps freed memory for a while";
#endif
  constexpr const char* kModule = "models/yolox_nano_640x640.torchscript.pt";
  const auto module = test::shared_data(kModule);
  const std::string plugin = test::built_path("bin/libheadroom_backend_libtorch.so");
  if (!module) GTEST_SKIP() << test::absent_message(kModule);
  if (!std::filesystem::exists(plugin)) GTEST_SKIP() << test::absent_message("the LibTorch plug-in");
  ModelPool pool({.budget_bytes = 4096 * kModelMiB});
  PoolModel detector;
  detector.name = "detector";
  detector.path = module->string();
  pool.add(detector);
  pool.add(model("front", kFront));
  for (int round = 0; round < 2; ++round) {
    for (const char* name : {"detector", "front"}) {
      PoolSession session = pool.acquire(name);
      ASSERT_TRUE(session) << session.message();
      session.run();
      const PoolTensor output = session.output(0);
      ASSERT_NE(output.data, nullptr);
      EXPECT_EQ(output.type, PoolElement::float32);
      if (std::string(name) == "detector") {
        EXPECT_EQ(output.dims, (std::vector<std::int64_t>{1, 8400, 85}));
      }
      session.discard();  // each model is loaded twice
    }
  }
  EXPECT_EQ(pool.metrics().loads, 4);
  EXPECT_EQ(pool.metrics().refusals, 0);
  EXPECT_LE(pool.metrics().peak_used_bytes, pool.metrics().budget_bytes);
}

TEST_F(ModelPoolTest, ReportsInvalidArguments) {
  constexpr std::chrono::nanoseconds kNone(0), kNegative(-1);
  for (const ModelPoolOptions& wrong :
       std::initializer_list<ModelPoolOptions>{{.budget_bytes = 0},
                                               {.budget_bytes = kModelMiB, .margin_bytes = -1},
                                               {.budget_bytes = kModelMiB, .margin_bytes = kModelMiB},
                                               {.budget_bytes = kModelMiB, .unload_after_idle = kNegative},
                                               {.budget_bytes = kModelMiB, .patience = kNegative},
                                               {.budget_bytes = kModelMiB, .load_timeout = kNone},
                                               {.budget_bytes = kModelMiB,
                                               .frame_bytes = std::int64_t{1} << 62,
                                               .arena_bytes = std::int64_t{1} << 62},
                                               {.budget_bytes = kModelMiB, .frame_bytes = -1},
                                               {.budget_bytes = kModelMiB, .arena_bytes = -1}})
    EXPECT_THROW(ModelPool{wrong}, std::invalid_argument);
  EXPECT_THROW(ModelPool({.budget_bytes = 1, .events_to = "/nowhere/events"}), std::runtime_error);
  ModelPool pool({.budget_bytes = 1024 * kModelMiB});
  pool.add(model("front", kFront));
  EXPECT_THROW(pool.add(model("front", kFront)), std::invalid_argument);
  EXPECT_THROW(pool.add({.name = "x", .path = "x.unknown"}), std::invalid_argument);
  PoolModel wrong = model("wrong", kFront);
  wrong.run_peak_bytes = -1;
  EXPECT_THROW(pool.add(wrong), std::invalid_argument);
  wrong = model("wrong", kFront);
  wrong.sessions = 0;
  EXPECT_THROW(pool.add(wrong), std::invalid_argument);
  wrong = model("wrong", kFront);
  wrong.device = "cuda:0";
  wrong.isolated = true;
  EXPECT_THROW(pool.add(wrong), std::invalid_argument);
  PoolModel absent = model("absent", kFront);
  absent.path = "/nowhere/absent.onnx";
  pool.add(absent);
  PoolSession none = pool.acquire("absent");
  EXPECT_FALSE(none);
  EXPECT_EQ(none.refusal(), PoolRefusal::load_failed);
  EXPECT_THAT(none.message(), HasSubstr("absent.onnx"));
  EXPECT_THROW(none.run(), std::logic_error);
  std::string why;
  EXPECT_FALSE(pool.preload("unknown", {}, &why));
  EXPECT_THAT(why, HasSubstr("unknown"));
  EXPECT_EQ(pool.acquire("front", {.deadline = std::chrono::nanoseconds(0)}).refusal(),
            PoolRefusal::deadline);
}

TEST_F(ModelPoolTest, WritesItsEventsAsLines) {
  const test::TemporaryFolder folder;
  {
    ModelPool pool({.budget_bytes = 1024 * kModelMiB, .events_to = folder / "events.jsonl"});
    pool.add(model("front", kFront));
    ASSERT_TRUE(pool.acquire("front"));
    EXPECT_FALSE(pool.acquire("none"));
  }
  const std::string text = test::read_text(folder / "events.jsonl");
  EXPECT_THAT(text, HasSubstr(R"({"event":"loaded","time_ns":)"));
  EXPECT_THAT(text, HasSubstr(R"("refusal":"unknown_model","message":"the pool has no model named none")"));
  // At the end come the unloads and then all counters.
  const std::size_t unloaded = text.find(R"({"event":"unloaded")"),
                    metrics = text.find(R"({"event":"metrics",)");
  ASSERT_NE(metrics, std::string::npos);
  EXPECT_LT(unloaded, metrics);
  EXPECT_EQ(text.find('\n', metrics), text.size() - 1);
  EXPECT_THAT(text, HasSubstr(R"("lost_events":0)"));
}

// A reader that does not read must not block the pool. If it closes, a SIGPIPE would end this program, which
// does not ignore the signal.
TEST_F(ModelPoolTest, CountsLinesLostToAPipe) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "events";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THROW(ModelPool({.budget_bytes = kModelMiB, .events_to = path}), std::runtime_error)
      << "the pipe has no reader";
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  ASSERT_NE(std::signal(SIGPIPE, SIG_DFL), SIG_ERR);
  ModelPool pool({.budget_bytes = 1024 * kModelMiB, .events_to = path});
  for (int i = 0; i < 2000; ++i) EXPECT_FALSE(pool.acquire("unknown"));
  const std::int64_t lost = pool.metrics().lost_events;
  EXPECT_GT(lost, 0) << "a pipe holds 64 KiB";
  EXPECT_LT(lost, 2000);
  ::close(reader);
  EXPECT_FALSE(pool.acquire("unknown"));
  EXPECT_EQ(pool.metrics().lost_events, lost + 1);
}

TEST_F(ModelPoolTest, CanBeMoveAssigned) {
  const test::TemporaryFolder folder;
  ModelPool pool({.budget_bytes = 1024 * kModelMiB, .events_to = folder / "first"});
  pool.add(model("front", kFront));
  PoolSession kept = pool.acquire("front");
  pool = ModelPool({.budget_bytes = 1024 * kModelMiB});
  EXPECT_THAT(test::read_text(folder / "first"), HasSubstr(R"({"event":"metrics",)"));
  EXPECT_FALSE(first_values(kept).empty());
  EXPECT_EQ(pool.acquire("front").refusal(), PoolRefusal::unknown_model);
}

TEST_F(ModelPoolTest, PublishesItsMetricsForOtherProcesses) {
  const std::filesystem::path file = "/dev/shm/headroom-pool." + std::to_string(::getpid()) + ".vision";
  const std::filesystem::path abandoned = "/dev/shm/headroom-pool.4194999.killed";
  test::write_text(abandoned, "of a killed program");
  const auto status = [&] {
    const std::string text = std::filesystem::exists(file) ? test::read_text(file) : "";
    return parse_pool_status(text);
  };
  {
    ModelPool pool({.budget_bytes = 1024 * kModelMiB, .name = "vision"});
    EXPECT_FALSE(std::filesystem::exists(abandoned));
    PoolModel front = model("front", kFront);
    // About thirty times the model's real size, and more than its size with a sanitizer: so its charge is
    // known.
    front.run_peak_bytes = 256 * kModelMiB;
    pool.add(front);
    ASSERT_TRUE(pool.preload("front"));
    { const PoolSession session = pool.acquire("front"); }
    std::optional<PoolStatus> found = status();
    for (; !found || found->pool.requests == 0; found = status())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const PoolSample seen = found->pool;
    EXPECT_EQ(seen.name, "vision");
    EXPECT_EQ(seen.pid, ::getpid());
    EXPECT_EQ(seen.device, "cpu");
    EXPECT_EQ(seen.budget.count, 1024 * kModelMiB);
    EXPECT_EQ(seen.loads, 1);
    EXPECT_EQ(seen.hits, 1);
    EXPECT_EQ(seen.resident.count, 256 * kModelMiB);
    EXPECT_THROW(ModelPool({.budget_bytes = 1024 * kModelMiB, .name = "vision"}), std::invalid_argument);
    EXPECT_THROW(ModelPool({.budget_bytes = 1024 * kModelMiB, .name = "../etc"}), std::invalid_argument);
    EXPECT_TRUE(std::filesystem::exists(file)) << "the rejected pool must not delete the file";
  }
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(ModelPoolTest, DocumentationExampleRuns) {
  const auto source = std::filesystem::path(test::source_path(""));
  const std::string code = test::read_text(source / "tests/unit/pool/model_pool_example.cpp");
  EXPECT_THAT(test::read_text(source / "docs/model-pool.md"), HasSubstr("```cpp\n" + code + "```\n"));
  const test::TemporaryFolder folder;
  const std::string command = "cd " + folder.path().string() + " && " + HEADROOM_POOL_EXAMPLE + " " +
                              test::dependency_file(kFront)->string() + " " +
                              test::dependency_file(kText)->string() + " > out 2> err";
  const int status = std::system(command.c_str());
  EXPECT_EQ(status, 0) << test::read_text(folder / "err");
#if !defined(HEADROOM_SANITIZED)  // with a sanitizer the program itself uses the whole budget
  EXPECT_THAT(test::read_text(folder / "out"), HasSubstr("8 requests"));
  EXPECT_THAT(test::read_text(folder / "out"), HasSubstr("text: "));
#endif
}

#if !defined(HEADROOM_SANITIZED)  // with a sanitizer the program itself uses the whole budget
TEST_F(ModelPoolTest, ExampleInCRuns) {
  const test::TemporaryFolder folder;
  const std::string command = std::string(HEADROOM_POOL_C_EXAMPLE) + " " +
                              test::dependency_file(kFront)->string() + " > " + (folder / "out").string();
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_THAT(test::read_text(folder / "out"), HasSubstr("face: 3 dimensions"));
}
#endif

// A program that was compiled with an earlier header knows fewer fields.
TEST_F(ModelPoolTest, FieldsThatTheCallerDoesNotKnowHaveDefaults) {
  headroom_pool_options options = HEADROOM_POOL_OPTIONS_INIT;
  options.budget_bytes = 1024 * kModelMiB;
  options.load_timeout_ns = -5;
  headroom_pool_error error{};
  const std::size_t known = offsetof(headroom_pool_options, load_timeout_ns);
  headroom_pool* const pool = headroom_pool_create(&options, known, &error);
  ASSERT_NE(pool, nullptr) << error.message;
  headroom_pool_metrics metrics{};
  metrics.used_bytes = 7;
  headroom_pool_get_metrics(pool, &metrics, offsetof(headroom_pool_metrics, used_bytes));
  EXPECT_EQ(metrics.budget_bytes, options.budget_bytes);
  EXPECT_EQ(metrics.used_bytes, 7);
  headroom_pool_destroy(pool);
  EXPECT_EQ(headroom_pool_create(&options, sizeof options, &error), nullptr);
  EXPECT_EQ(error.kind, HEADROOM_POOL_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("load_timeout must be more than 0"));
}

}  // namespace
}  // namespace headroom
