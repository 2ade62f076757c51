#include "bench/conductor/model_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace headroom::bench {
namespace {
using testing::HasSubstr;
using testing::IsEmpty;

Json phase(const char* name, std::int64_t peak) {
  Json event;
  event["event"] = "phase";
  event["phase"] = name;
  event["resident_bytes"] = peak;
  event["peak_bytes"] = peak;
  event["peak_was_reset"] = true;
  return event;
}

ModelResult result(const WorkerAccount& account, const MemorySamples& samples,
                   const limits::MemoryLimit* limit = nullptr) {
  static const std::string kLabel = "m";
  return result_of({kLabel, account, samples, limit, std::nullopt, true, {}});
}

// Corrupt, truncated and empty models, and unknown operators: the worker reports the error and its peak.
TEST(WorkerVerdict, KeepsThePeakThatAFailedWorkerReported) {
  WorkerAccount account;
  add_event(account, phase("start", 5));
  add_event(account, phase("runtime_loaded", 30));
  Json error;
  error["event"] = "error";
  error["kind"] = "failed";
  error["message"] = "the model is corrupt";
  error["peak_bytes"] = 44;
  add_event(account, error);
  MemorySamples samples;
  samples.peak = Bytes{31};
  EXPECT_EQ(result(account, samples).memory.load_peak, Bytes{44});
  EXPECT_THAT(result(account, samples).warnings, IsEmpty());
}

TEST(WorkerVerdict, WarnsThatAKilledWorkersPeakWasSampled) {
  WorkerAccount account;
  add_event(account, phase("start", 5));
  add_event(account, phase("runtime_loaded", 30));
  account.status = ModelStatus::crashed;
  MemorySamples samples;
  samples.peak = Bytes{31};
  EXPECT_EQ(result(account, samples).memory.load_peak, Bytes{31});
  ASSERT_EQ(result(account, samples).warnings.size(), 1U);
  EXPECT_THAT(result(account, samples).warnings.front(), HasSubstr("before it could report its peak"));
}

// 57 MiB resident and 30 MiB reserved under a limit of 50 MiB: RLIMIT_DATA was kept.
TEST(WorkerVerdict, JudgesByTheFigureOfTheMechanism) {
  std::string note;
  const auto limit = limits::make_memory_limit("test", mebibytes(50), "rlimit", note);
  ASSERT_TRUE(limit);
  WorkerAccount account;
  const std::int64_t resident = mebibytes(57).count;
  for (const char* name : {"start", "runtime_loaded", "model_loaded", "warm", "running"})
    add_event(account, phase(name, resident));
  MemorySamples samples;
  samples.data_peak = mebibytes(30);
  EXPECT_EQ(result(account, samples, limit->get()).memory.within_limit, true);
  samples.data_peak = mebibytes(51);
  EXPECT_EQ(result(account, samples, limit->get()).memory.within_limit, false);
}

}  // namespace
}  // namespace headroom::bench
