#include "bench/conductor/gpu_account.h"

#include <gmock/gmock.h>

#include "base/json.h"
#include "bench/conductor/gpu_results.h"

namespace headroom::bench {
namespace {

Json json(const char* text) { return *parse_json(text); }

const Json kDevice = json(
    R"({"ordinal":1,"device":"cuda:1","name":"G","uuid":"GPU-a","total_bytes":1000,"is_integrated":false})");

Json ledger(std::int64_t charged, std::int64_t peak, std::int64_t refused = 0) {
  Json gpu = json(R"({"ledger":[{"ordinal":1,"pinned_bytes":7}]})");
  gpu["ledger"][0]["charged_bytes"] = charged;
  gpu["ledger"][0]["peak_bytes"] = peak;
  gpu["ledger"][0]["refused"] = refused;
  gpu["ledger"][0]["refused_bytes"] = refused * 10;
  return gpu;
}

TEST(GpuAccount, IsEmptyForAWorkerOnTheCpu) {
  GpuAccount account;
  account.add_phase(Phase::running, ledger(1, 2));
  EXPECT_TRUE(account.memory(std::nullopt, ModelStatus::ok).empty());
}

TEST(GpuAccount, KeepsFiguresByPhaseAndTheLargestPeaks) {
  GpuAccount account;
  account.add_device(kDevice);
  account.add_device(kDevice);  // a pipeline's second model reports it again
  account.add_phase(Phase::start, ledger(0, 0));
  account.add_phase(Phase::runtime_loaded, ledger(1, 1));
  account.add_phase(Phase::model_loaded, ledger(20, 50));
  account.add_phase(Phase::model_loaded, ledger(30, 40));
  account.add_phase(Phase::warm, ledger(60, 90));
  account.add_phase(Phase::running, ledger(60, 70));
  account.add_phase(Phase::unloaded, ledger(2, 60));
  const auto list = account.memory(std::nullopt, ModelStatus::ok);
  ASSERT_EQ(list.size(), 1U);
  const GpuMemory& gpu = list[0];
  EXPECT_EQ(gpu.device, "cuda:1");
  EXPECT_EQ(gpu.runtime, Bytes{1});
  EXPECT_EQ(gpu.loaded, Bytes{30});
  EXPECT_EQ(gpu.load_peak, Bytes{50});
  EXPECT_EQ(gpu.running, Bytes{60});
  EXPECT_EQ(gpu.run_peak, Bytes{90});
  EXPECT_EQ(gpu.residual, Bytes{2});
  EXPECT_EQ(gpu.pinned_host, Bytes{7});
  EXPECT_EQ(gpu.process_running, std::nullopt);
  EXPECT_EQ(gpu.limit, std::nullopt);
  EXPECT_EQ(gpu.within_limit, std::nullopt);
  EXPECT_EQ(gpu.refused_bytes, std::nullopt);
}

TEST(GpuAccount, MatchesTheDriversFigureByDevice) {
  GpuAccount account;
  account.add_device(kDevice);
  account.add_phase(Phase::model_loaded,
                    json(R"({"driver":[{"uuid":"GPU-b","used_bytes":5},{"uuid":"GPU-a","used_bytes":6}]})"));
  // A MIG instance reports another UUID; with one device and one figure, they match.
  account.add_phase(Phase::running, json(R"({"driver":[{"uuid":"GPU-of-the-whole","used_bytes":8}]})"));
  const GpuMemory gpu = account.memory(std::nullopt, ModelStatus::ok)[0];
  EXPECT_EQ(gpu.process_loaded, Bytes{6});
  EXPECT_EQ(gpu.process_running, Bytes{8});
  EXPECT_EQ(gpu.loaded, std::nullopt);
}

TEST(GpuAccount, AssignsAFailedModelsPeakToItsStep) {
  ledger::Limits limits;
  limits.bytes[1] = 100;
  GpuAccount account;
  account.add_device(kDevice);
  account.add_phase(Phase::runtime_loaded, ledger(0, 0));
  account.add_phase(Phase::runtime_loaded, ledger(0, 95, 2), true);
  const GpuMemory gpu = account.memory(limits, ModelStatus::oom)[0];
  EXPECT_EQ(gpu.load_peak, Bytes{95});
  EXPECT_EQ(gpu.loaded, std::nullopt);
  EXPECT_EQ(gpu.refused, 2);
  EXPECT_EQ(gpu.refused_bytes, Bytes{20});
  EXPECT_EQ(gpu.limit, Bytes{100});
  EXPECT_EQ(gpu.within_limit, false);
  EXPECT_EQ(account.memory(limits, ModelStatus::ok)[0].within_limit, true) << "refused, but it continued";
  // The limit of another device does not apply.
  ledger::Limits others;
  others.bytes[0] = 100;
  EXPECT_EQ(account.memory(others, ModelStatus::oom)[0].within_limit, std::nullopt);
}

TEST(GpuAccount, JudgesAPeakBeyondTheLimit) {
  ledger::Limits limits;
  limits.bytes[1] = 100;
  const auto within = [&](std::int64_t load_peak, std::int64_t run_peak) {
    GpuAccount account;
    account.add_device(kDevice);
    account.add_phase(Phase::model_loaded, ledger(20, load_peak));
    account.add_phase(Phase::running, ledger(20, run_peak));
    return account.memory(limits, ModelStatus::ok)[0].within_limit;
  };
  EXPECT_EQ(within(100, 100), true);
  EXPECT_EQ(within(101, 50), false);
  EXPECT_EQ(within(50, 101), false);
  GpuAccount unknown;
  unknown.add_device(kDevice);
  EXPECT_EQ(unknown.memory(limits, ModelStatus::oom)[0].within_limit, std::nullopt)
      << "it died before its first report";
}

TEST(GpuWarnings, NamesAPeakBeyondTheLimit) {
  ModelResult result;
  GpuMemory gpu;
  gpu.device = "cuda:1";
  gpu.limit = mebibytes(100);
  gpu.load_peak = mebibytes(50);
  gpu.run_peak = mebibytes(100);
  result.gpu_memory = {gpu};
  add_gpu_warnings(result);
  EXPECT_TRUE(result.warnings.empty());
  result.gpu_memory[0].load_peak = mebibytes(102);
  add_gpu_warnings(result);
  EXPECT_THAT(result.warnings,
              testing::ElementsAre("peak of 102.0 MiB on cuda:1, more than the limit of 100.0 MiB"));
}

TEST(GpuAccount, DropsATotalThatEqualsTheLimit) {
  ledger::Limits limits;
  limits.bytes[1] = 1000;
  GpuAccount account;
  account.add_device(kDevice);
  EXPECT_EQ(account.memory(std::nullopt, ModelStatus::ok)[0].total, Bytes{1000});
  EXPECT_EQ(account.memory(limits, ModelStatus::ok)[0].total, std::nullopt);
}

TEST(GpuAccount, IgnoresDamagedEvents) {
  GpuAccount account;
  account.add_device(kDevice);
  for (const char* text :
       {"{}", R"({"ledger":{}})", R"({"ledger":[7,{}]})", R"({"driver":"x","ledger":null})",
        R"({"ledger":[{"ordinal":-1}],"driver":[{"used_bytes":"many"}]})"})
    account.add_phase(Phase::model_loaded, json(text));
  EXPECT_EQ(account.memory(std::nullopt, ModelStatus::ok)[0].loaded, std::nullopt);
}

}  // namespace
}  // namespace headroom::bench
