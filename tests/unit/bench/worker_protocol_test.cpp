#include "bench/worker_protocol.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace headroom::bench {
namespace {

TEST(WorkerJob, SurvivesTheTrip) {
  WorkerJob job;
  job.kind = WorkerKind::pipeline;
  WorkerModel model{"yolox", "/m/yolox.onnx", "onnxruntime", "/lib/b.so", "yolox", {}};
  model.settings.threads = 3;
  model.settings.arena = false;
  job.models = {model};
  job.max_frames = 17;
  job.window_frames = 5;
  job.sequences = {{"video", 20, {"1", "2"}}, {"other", 0, {}}};
  job.use_frames = true;
  job.wait_for_gate = true;
  const auto read = worker_job_from_json(*parse_json(to_line(to_json(job))));
  ASSERT_TRUE(read) << read.error().sentence();
  EXPECT_EQ(to_line(to_json(*read)), to_line(to_json(job)));
  EXPECT_EQ(read->models[0].settings, model.settings);
  EXPECT_EQ(read->sequences[0].objects, (std::vector<std::string>{"1", "2"}));
}

TEST(WorkerJob, WithoutAModelOrAKindIsRefused) {
  EXPECT_FALSE(worker_job_from_json(*parse_json("{}")));
  EXPECT_FALSE(worker_job_from_json(*parse_json(R"({"kind": "inference", "models": []})")));
}

TEST(Findings, SurviveTheTrip) {
  FrameFindings findings;
  Detection face{1, 2, 3, 4, 0.5F, 7, {}, 2};
  face.landmarks[0] = 1.5F;
  face.landmarks[3] = 2.5F;
  findings.detections = {face};
  findings.quads = {{{0, 0, 4, 0, 4, 2, 0, 2}, 0.9F}};
  findings.lines = {{0, 1, 2, 3, 0.25F}};
  Mask mask;
  mask.width = 2;
  mask.height = 2;
  mask.values = {0, 128, 255, 1};
  mask.right = 20;
  findings.masks = {mask};
  const FrameFindings read = findings_from_json(*parse_json(to_line(to_json(findings))));
  EXPECT_EQ(to_line(to_json(read)), to_line(to_json(findings)));
  EXPECT_EQ(read.count(), findings.count());
  EXPECT_EQ(read.masks.size(), 1U);
}

TEST(Findings, AMaskWhoseSizeIsALieIsDropped) {
  const auto document = *parse_json(R"({"masks": [{"width": 1000, "height": 1000, "values": [1, 2, 3]}]})");
  EXPECT_TRUE(findings_from_json(document).masks.empty());
}

}  // namespace
}  // namespace headroom::bench
