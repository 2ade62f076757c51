#include <gtest/gtest.h>
#include <vector>

#include "base/json.h"
#include "base/subprocess.h"
#include "bench/conductor/child_process.h"
#include "bench/protocol.h"

namespace headroom::bench {
namespace {

TEST(WorkerJob, IsReadBackAsWritten) {
  WorkerJob job;
  job.kind = WorkerKind::pipeline;
  WorkerModel model{"yolox", "/m/yolox.onnx", "onnxruntime", "/lib/b.so", "yolox", {}};
  model.settings.threads = 3;
  model.settings.arena = false;
  model.settings.precision = Precision::bf16;
  model.every = 5;
  model.isolated = true;
  model.load_peak = mebibytes(7);
  model.run_peak = mebibytes(5);
  model.outputs = {{"boxes", ElementType::float32, {1, -1, 85}, {"", "", ""}},
                   {"", ElementType::int64, {}, {}}};
  job.models = {model};
  job.max_frames = 17;
  job.window_frames = 5;
  job.sequences = {{"video", 20, {"1", "2"}}, {"other", 0, {}}};
  job.use_frames = true;
  job.wait_for_gate = true;
  job.pool = WorkerPool{mebibytes(64), {9}, "/run/pool-events.jsonl", 3};
  const auto read = message_from_json<WorkerJob>(*parse_json(to_line(message_to_json(job))));
  ASSERT_TRUE(read) << read.error().sentence();
  EXPECT_EQ(to_line(message_to_json(*read)), to_line(message_to_json(job)));
  EXPECT_EQ(read->models[0].settings, model.settings);
  EXPECT_EQ(read->models[0].every, 5);
  EXPECT_EQ(read->models[0].load_peak, mebibytes(7));
  EXPECT_EQ(read->models[0].run_peak, mebibytes(5));
  EXPECT_TRUE(read->models[0].isolated);
  EXPECT_EQ(read->pool->threads, 3);
  EXPECT_EQ(read->pool->budget, mebibytes(64));
  EXPECT_EQ(read->pool->events_to, "/run/pool-events.jsonl");
  ASSERT_EQ(read->models[0].outputs.size(), 2U);
  EXPECT_EQ(read->models[0].outputs[0].name, "boxes");
  EXPECT_EQ(read->models[0].outputs[0].describe(), "float32[1,?,85]");
  EXPECT_EQ(read->models[0].outputs[1].describe(), "int64[]");
  EXPECT_EQ(read->sequences[0].objects, (std::vector<std::string>{"1", "2"}));
}

TEST(SetupJob, IsReadBackAsWritten) {
  BenchOptions options;
  options.models = {{"m", "m.onnx", "", ""}};
  options.models[0].settings = "arena=off";
  options.precision = Precision::bf16;
  options.memory_limit = mebibytes(64);
  for (const auto& source :
       {std::optional<SourceSpec>(), std::optional(SourceSpec{SourceKind::camera, "", 3})}) {
    options.source = source;
    const auto read = bench_options_from_json(to_json(options));
    ASSERT_TRUE(read) << read.error().sentence();
    EXPECT_EQ(*read, options);
  }
}

TEST(SetupJob, RejectsAnUnknownSourceKind) {
  Json job = to_json(BenchOptions{});
  job["source"]["kind"] = "microscope";
  const auto options = bench_options_from_json(job);
  ASSERT_FALSE(options);
  EXPECT_EQ(options.error().kind, ErrorKind::internal);
}

TEST(LineReader, JoinsPiecesAndKeepsALastLineWithoutNewline) {
  auto pipe = Pipe::create();
  LineReader reader(std::move(pipe->read_end));
  std::vector<std::string> lines;
  const auto collect = [&](std::string_view line) { lines.emplace_back(line); };
  ASSERT_TRUE(write_all(pipe->write_end.get(), "one\ntw"));
  reader.read_available(collect);
  EXPECT_EQ(lines, (std::vector<std::string>{"one"}));
  ASSERT_TRUE(write_all(pipe->write_end.get(), "o\n\nlast"));
  pipe->write_end.reset();
  reader.read_available(collect);
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "two", "", "last"}));
  EXPECT_FALSE(reader.open());
}

}  // namespace

}  // namespace headroom::bench
