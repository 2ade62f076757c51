// The result of a worker, from its events and the samples that the conductor takes.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "bench/conductor/worker_result.h"

namespace headroom::bench {
namespace {
using testing::HasSubstr;

class WorkerResult : public testing::Test {
 protected:
  void send(const std::string& line) {
    const auto event = parse_json(line, "an event");
    ASSERT_TRUE(event) << line;
    add_event(account_, *event);
  }
  // A phase event, some milliseconds after the start; two cores are busy all the time.
  void reach(const char* phase, int ms, int resident, int peak) {
    send(fmt::format(R"({{"event":"phase","phase":"{}","time_ns":{},"resident_bytes":{},"peak_bytes":{},)"
                     R"("cpu_time_ns":{},"peak_was_reset":true}})",
                     phase, ms * 1'000'000, resident, peak, ms * 2'000'000));
    samples_.begin_phase({});
  }
  void sample(Bytes resident, bool is_of_run) {
    ProcessMemory seen;
    seen.rss = resident;
    samples_.add_peaks(resident, {});
    samples_.add({}, seen, is_of_run, nullptr);
  }
  ModelResult figures(std::optional<Bytes> frame_memory = {}, const limits::MemoryLimit* limit = nullptr) {
    return result_of({label_, account_, samples_, limit, frame_memory, true, {}});
  }

  std::string label_ = "m";
  WorkerAccount account_;
  MemorySamples samples_;
};

TEST_F(WorkerResult, HasAllFiguresOfACompleteRun) {
  reach("start", 1, 10, 11);
  reach("runtime_loaded", 2, 100, 120);
  send(R"({"event":"runtime","version":"1.2","load_ns":7})");
  send(R"({"event":"model","name":"m","task":"yolox","input":"float32[1,4]","takes_frames":true,"load_ns":8,)"
       R"("class_names":["cat"]})");
  reach("model_loaded", 3, 300, 350);
  reach("warm", 4, 400, 450);
  send(R"({"event":"measuring","time_ns":4000000,"cpu_time_ns":8000000,"warmup_ns":9})");
  sample(Bytes{410}, true);
  sample(Bytes{420}, true);
  send(R"({"event":"frames","model":0,"times":[[1,2,30,4,2,25],[1,2,10,4,0],[1,2,20,4,1,15],["x"],7]})");
  send(R"({"event":"held","frames":3,"skipped":2})");
  reach("running", 8, 405, 415);
  send(R"({"event":"cleanup","level":"video","name":"v","resident_bytes":390})");
  reach("unloaded", 9, 150, 160);
  send(R"({"event":"done"})");
  EXPECT_TRUE(account_.is_done);
  EXPECT_EQ(account_.frames_held, 3);

  const ModelResult figures = this->figures(Bytes{5000});
  EXPECT_EQ(figures.status, ModelStatus::ok);
  EXPECT_FALSE(figures.died_in);
  EXPECT_EQ(figures.task, "yolox");
  EXPECT_EQ(figures.frames, 3);
  EXPECT_EQ(figures.skipped_frames, 2);
  EXPECT_EQ(figures.memory.runtime, Bytes{100});
  EXPECT_EQ(figures.memory.load_peak, Bytes{350});
  EXPECT_EQ(figures.memory.run_mean, Bytes{415});
  EXPECT_EQ(figures.memory.run_peak, Bytes{450});
  EXPECT_EQ(figures.memory.residual, Bytes{150});
  EXPECT_EQ(figures.memory.frames, Bytes{5000});
  ASSERT_TRUE(figures.cpu_percent);
  EXPECT_NEAR(*figures.cpu_percent, 200, 1e-9);
  ASSERT_TRUE(figures.inference && figures.end_to_end && figures.detections);
  EXPECT_EQ(figures.inference->p50, Nanoseconds{20});
  EXPECT_EQ(figures.end_to_end->max, Nanoseconds{37});
  ASSERT_TRUE(figures.device_time);
  EXPECT_EQ(figures.device_time->n, 2) << "not every frame has a device time";
  EXPECT_EQ(figures.device_time->max, Nanoseconds{25});
  EXPECT_NEAR(figures.fps.value_or(0), 1e9 / 20, 1);
  EXPECT_NEAR(figures.pipeline_fps.value_or(0), 1e9 / 27, 1);
  EXPECT_NEAR(figures.detections->mean, 1, 1e-9);
  EXPECT_TRUE(figures.warnings.empty());
}

TEST_F(WorkerResult, HasTheReportedOrTheSampledPeakOfAWorkerThatFailedToLoad) {
  reach("start", 1, 10, 11);
  reach("runtime_loaded", 2, 100, 120);
  sample(Bytes{700}, false);
  sample(Bytes{600}, false);
  account_.status = ModelStatus::crashed;
  account_.error = "it crashed";
  const ModelResult crashed = figures();
  EXPECT_EQ(crashed.died_in, Phase::runtime_loaded);
  EXPECT_EQ(crashed.memory.load_peak, Bytes{700});
  EXPECT_FALSE(crashed.memory.loaded);
  EXPECT_FALSE(crashed.memory.run_peak);
  EXPECT_FALSE(crashed.inference);
  ASSERT_EQ(crashed.warnings.size(), 1U);
  EXPECT_THAT(crashed.warnings[0], HasSubstr("its load peak comes from samples every 50 ms"));
  // Corrupt models and unknown operators: the worker reports the error and its peak.
  send(R"({"event":"error","kind":"failed","message":"the model is corrupt","peak_bytes":744})");
  EXPECT_EQ(figures().memory.load_peak, Bytes{744});
  EXPECT_THAT(figures().warnings, testing::IsEmpty());
}

// With --task vos, the phase `running` is marked after each clip.
TEST_F(WorkerResult, NamesTheVideoOfAWorkerThatDiedInALaterOne) {
  reach("start", 1, 10, 11);
  reach("runtime_loaded", 2, 100, 120);
  send(R"({"event":"model","name":"m","task":"vos"})");
  reach("model_loaded", 3, 300, 350);
  send(R"({"event":"vos_progress","video":"a","objects":2,"frames":2})");
  reach("warm", 4, 400, 450);
  send(R"({"event":"frames","model":0,"times":[[1,2,3,4,0],[1,2,3,4,0]]})");
  reach("running", 5, 400, 460);
  send(
      R"({"event":"vos_clip","clip":{"video":"a","width":4,"height":4,"frames":2,"objects":2},"bank_bytes":9})");
  account_.status = ModelStatus::crashed;
  account_.error = "killed";
  send(R"({"event":"vos_progress","video":"a","object":"001","objects":1,"frames":0})");
  EXPECT_EQ(figures().error,
            "killed; it was tracking object 001 of video a alone, after all objects together");
  send(R"({"event":"vos_progress","video":"b","objects":1,"frames":1})");
  EXPECT_EQ(figures().error, "killed; it was tracking video b (1 object, 1 frame)");
  send(R"({"event":"vos_progress","video":"b","objects":1,"frames":20})");
  send(R"({"event":"frames","model":0,"times":[[1,2,3,4,0]]})");
  sample(Bytes{700}, false);
  const ModelResult died = figures();
  EXPECT_EQ(died.error, "killed; it was tracking video b (1 object, at least 1 of 20 frames done)");
  EXPECT_EQ(died.died_in, Phase::warm);
  EXPECT_EQ(died.memory.run_peak, Bytes{700});
  ASSERT_EQ(died.warnings.size(), 1U);
  EXPECT_THAT(died.warnings[0], HasSubstr("its run peak comes from samples every 50 ms"));
  ASSERT_TRUE(died.vos);
  EXPECT_EQ(died.vos->clips.size(), 1U);
  send(R"({"event":"vos_progress"})");
  EXPECT_EQ(figures().died_in, Phase::running);
  EXPECT_EQ(figures().error, "killed");
}

TEST_F(WorkerResult, MentionsFramesWhenOutOfMemory) {
  reach("start", 1, 10, 11);
  reach("runtime_loaded", 2, 100, 120);
  reach("model_loaded", 3, 300, 350);
  sample(Bytes{5300}, false);
  send(R"({"event":"error","kind":"oom","message":"an allocation was refused"})");
  EXPECT_EQ(account_.status, ModelStatus::oom);
  const ModelResult figures = this->figures(Bytes{5000});
  EXPECT_EQ(figures.memory.run_peak, Bytes{5300});
  EXPECT_THAT(figures.error, HasSubstr("--max-frames-in-mem"));
}

TEST(MemorySamples, BoundsTheSeriesAndSeparatesThePssOfTheRun) {
  MemorySamples samples;
  ProcessMemory seen;
  seen.rss = Bytes{1};
  for (int i = 0; i < 100'000; ++i) samples.add(Nanoseconds{i}, seen, false, nullptr);
  EXPECT_LE(samples.series.size(), 600U);
  EXPECT_GE(samples.series.size(), 300U);
  EXPECT_LE(samples.series.front().time.count, 600);
  EXPECT_GE(samples.series.back().time.count, 99'000);
  EXPECT_FALSE(samples.run_mean()) << "no sample was taken during the run";
  samples.add_share(mebibytes(90), false);
  samples.add_share(mebibytes(60), true);
  EXPECT_EQ(samples.pss_peak, mebibytes(90));
  EXPECT_EQ(samples.pss_run_peak, mebibytes(60));
}

// The last model was cut short before the last frame.
TEST(PipelineTimes, SumsAllModelsAndDecodesOnce) {
  std::vector<ModelAccount> models(2);
  for (int i = 0; i < 1000; ++i) models[0].frames.add({{5}, {1}, {i + 1}, {1}, 0, {}});
  for (int i = 0; i < 999; ++i) models[1].frames.add({{5}, {10}, {20}, {30}, 0, {}});
  for (const bool with_decode : {false, true}) {
    const std::int64_t decode = with_decode ? 5 : 0;
    std::vector<std::int64_t> times;
    times_through_all(models, with_decode)(
        [&](std::span<const std::int64_t> piece) { times.insert(times.end(), piece.begin(), piece.end()); });
    ASSERT_EQ(times.size(), 1000U);
    EXPECT_EQ(times[0], decode + 3 + 60);
    EXPECT_EQ(times[998], decode + 1001 + 60);
    EXPECT_EQ(times[999], decode + 1002);
  }
}

std::unique_ptr<limits::MemoryLimit> limit_by(const char* mechanism) {
  std::string note;
  auto limit = limits::make_memory_limit("test", mebibytes(50), mechanism, note);
  return limit ? std::move(*limit) : nullptr;
}

// 57 MiB resident and 30 MiB reserved under a limit of 50 MiB: RLIMIT_DATA was kept.
TEST_F(WorkerResult, JudgesByTheFigureOfTheMechanism) {
  const auto limit = limit_by("rlimit");
  ASSERT_TRUE(limit);
  const auto resident = static_cast<int>(mebibytes(57).count);
  for (const char* name : {"start", "runtime_loaded", "model_loaded", "warm", "running"})
    reach(name, 1, resident, resident);
  samples_.data_peak = mebibytes(30);
  EXPECT_EQ(figures({}, limit.get()).memory.within_limit, true);
  samples_.data_peak = mebibytes(51);
  EXPECT_EQ(figures({}, limit.get()).memory.within_limit, false);
}

ProcessMemory sample_of(Bytes resident, Bytes reserved) {
  ProcessMemory sample;
  sample.rss = resident;
  sample.data = reserved;
  return sample;
}

// Libraries and shared memory are resident, but RLIMIT_DATA does not count them.
TEST(MemorySamples, CountsViolationsInTheLimitsOwnFigure) {
  const auto rlimit = limit_by("rlimit"), watchdog = limit_by("watchdog");
  ASSERT_TRUE(rlimit && watchdog);
  MemorySamples by_reservation, by_watchdog;
  by_reservation.add({}, sample_of(mebibytes(57), mebibytes(30)), true, rlimit.get());
  EXPECT_EQ(by_reservation.violations, 0);
  by_reservation.add({}, sample_of(mebibytes(40), mebibytes(51)), true, rlimit.get());
  EXPECT_EQ(by_reservation.violations, 1);
  by_watchdog.add({}, sample_of(mebibytes(57), mebibytes(30)), true, watchdog.get());
  by_watchdog.add({}, sample_of(mebibytes(40), mebibytes(51)), true, watchdog.get());
  EXPECT_EQ(by_watchdog.violations, 1);
}

}  // namespace

}  // namespace headroom::bench
