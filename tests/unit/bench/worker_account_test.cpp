#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <filesystem>

#include "base/json.h"
#include "bench/conductor/phases.h"
#include "bench/conductor/worker_account.h"
#include "support/test_support.h"

namespace headroom::bench {
namespace fs = std::filesystem;
using test::TemporaryFolder;

namespace {

const DeviceFacts kDevice{1, "cuda:1", "G", "GPU-a", Bytes{1000}, false};

GpuReading ledger(std::int64_t charged, std::int64_t peak, std::int64_t refused = 0) {
  return {.ledger = {{1, Bytes{charged}, Bytes{peak}, Bytes{7}, refused, Bytes{refused * 10}}}, .driver = {}};
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
  account.add_phase(Phase::model_loaded, {{}, {{"GPU-b", Bytes{5}}, {"GPU-a", Bytes{6}}}});
  // A MIG instance reports another UUID; with one device and one figure, they match.
  account.add_phase(Phase::running, {{}, {{"GPU-of-the-whole", Bytes{8}}}});
  const GpuMemory gpu = account.memory(std::nullopt, ModelStatus::ok)[0];
  EXPECT_EQ(gpu.process_loaded, Bytes{6});
  EXPECT_EQ(gpu.process_running, Bytes{8});
  EXPECT_EQ(gpu.loaded, std::nullopt);
}

ledger::Limits limit_on(unsigned ordinal, std::uint64_t bytes) {
  ledger::Limits limits;
  limits.bytes[ordinal] = bytes;
  return limits;
}

TEST(GpuAccount, AssignsAFailedModelsPeakToItsStep) {
  GpuAccount account;
  account.add_phase(Phase::running, ledger(1, 2));
  EXPECT_TRUE(account.memory(std::nullopt, ModelStatus::ok).empty()) << "a worker on the CPU";
  account.add_device(kDevice);
  account.add_phase(Phase::runtime_loaded, ledger(0, 0));
  account.add_phase(Phase::runtime_loaded, ledger(0, 95, 2), true);
  const GpuMemory gpu = account.memory(limit_on(1, 100), ModelStatus::oom)[0];
  EXPECT_EQ(gpu.load_peak, Bytes{95});
  EXPECT_EQ(gpu.loaded, std::nullopt);
  EXPECT_EQ(gpu.refused, 2);
  EXPECT_EQ(gpu.refused_bytes, Bytes{20});
  EXPECT_EQ(gpu.limit, Bytes{100});
  EXPECT_EQ(gpu.total, Bytes{1000});
  EXPECT_EQ(account.memory(limit_on(1, 1000), ModelStatus::ok)[0].total, std::nullopt) << "it is the limit";
}

TEST(GpuAccount, JudgesThePeaksAndRefusals) {
  struct Case {
    std::int64_t load_peak, run_peak, refused;
    ModelStatus status;
    std::optional<bool> within;
    unsigned limited = 1;  // device
  };
  for (const Case& row : {Case{100, 100, 0, ModelStatus::ok, true},
                          {101, 50, 0, ModelStatus::ok, false},
                          {50, 101, 0, ModelStatus::ok, false},
                          {50, 50, 2, ModelStatus::oom, false},
                          {50, 50, 2, ModelStatus::ok, true},  // refused, but it continued
                          {50, 50, 2, ModelStatus::oom, std::nullopt, 0}}) {
    GpuAccount account;
    account.add_device(kDevice);
    account.add_phase(Phase::model_loaded, ledger(20, row.load_peak));
    account.add_phase(Phase::running, ledger(20, row.run_peak, row.refused));
    EXPECT_EQ(account.memory(limit_on(row.limited, 100), row.status)[0].within_limit, row.within);
  }
  GpuAccount unknown;
  unknown.add_device(kDevice);
  EXPECT_EQ(unknown.memory(limit_on(1, 100), ModelStatus::oom)[0].within_limit, std::nullopt)
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

TEST(WorkerAccount, IgnoresDamagedEvents) {
  WorkerAccount account;
  for (const char* text :
       {R"({"event":"phase","phase":"warm","gpu":{"ledger":[7,{}]}})", R"({"event":"phase","phase":"lunch"})",
        R"({"event":"model","class_names":[1]})", R"({"event":"device","ordinal":-1})",
        R"({"event":"pool","models":{}})", R"({"event":"frames","model":5,"times":[[1]]})",
        R"({"event":"later"})", "{}", "[]"})
    add_event(account, *parse_json(text));
  EXPECT_TRUE(account.phases.empty());
  EXPECT_TRUE(account.models.empty());
  EXPECT_TRUE(account.gpus.memory(std::nullopt, ModelStatus::ok).empty());
}

FrameTimes frame_of(std::int64_t i) {
  FrameTimes frame{{i}, {2 * i}, {3 * i}, {4 * i}, i % 7, {}};
  if (i % 2 == 0) frame.device = Nanoseconds{5 * i};
  return frame;
}

void expect_all(const KeptFrames& frames, std::int64_t count) {
  ASSERT_EQ(frames.size(), static_cast<std::size_t>(count));
  std::int64_t i = 0;
  frames.each([&](std::span<const FrameTimes> piece) {
    for (const FrameTimes& frame : piece) {
      const FrameTimes wanted = frame_of(i++);
      ASSERT_EQ(frame.inference, wanted.inference) << i;
      ASSERT_EQ(frame.device, wanted.device) << i;
      ASSERT_EQ(frame.findings, wanted.findings) << i;
    }
  });
  EXPECT_EQ(i, count);
}

TEST(KeptFrames, KeepsAnyNumberOfFrames) {
  for (const std::int64_t count : {0, 1, 2048, 2049, 4096, 10'000}) {
    const TemporaryFolder folder;
    KeptFrames frames(folder.path());
    for (std::int64_t i = 0; i < count; ++i) frames.add(frame_of(i));
    expect_all(frames, count);
    EXPECT_TRUE(fs::is_empty(folder.path()));  // the file has no name
    EXPECT_EQ(frames.problem(), "");
    std::vector<FrameTimes> room(300);
    const auto all = static_cast<std::size_t>(count);
    for (const std::size_t first : {all / 2, all - std::min<std::size_t>(all, 100), all, all + 1}) {
      const std::size_t there = all - std::min(all, first);
      ASSERT_EQ(frames.read(first, room), std::min<std::size_t>(there, 300));
      if (there > 0) {
        EXPECT_EQ(room.front().decode.count, static_cast<std::int64_t>(first));
      }
    }
  }
}

TEST(KeptFrames, StayInMemoryWithoutAFile) {
  KeptFrames frames("/nonexistent");
  for (std::int64_t i = 0; i < 5000; ++i) frames.add(frame_of(i));
  expect_all(frames, 5000);
  EXPECT_THAT(frames.problem(),
              testing::HasSubstr("cannot write a file in /nonexistent: No such file or directory"));
}

}  // namespace

}  // namespace headroom::bench
