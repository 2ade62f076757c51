#include "bench/setup_job.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace headroom::bench {
namespace {

TEST(SetupJob, KeepsTheSourceOrNone) {
  BenchOptions options;
  options.source = SourceSpec{SourceKind::camera, "", 3};
  const auto with_source = bench_options_from_json(to_json(options));
  ASSERT_TRUE(with_source) << with_source.error().sentence();
  EXPECT_EQ(with_source->source, options.source);
  options.source.reset();
  const auto without = bench_options_from_json(to_json(options));
  ASSERT_TRUE(without) << without.error().sentence();
  EXPECT_FALSE(without->source);
}

TEST(SetupJob, KeepsTheSettingsOfAModel) {
  BenchOptions options;
  options.models = {{"m", "m.onnx", "", ""}};
  options.models[0].settings = "arena=off";
  const auto read = bench_options_from_json(to_json(options));
  ASSERT_TRUE(read) << read.error().sentence();
  EXPECT_EQ(read->models, options.models);
}

TEST(SetupJob, RejectsAnUnknownSourceKind) {
  Json job = to_json(BenchOptions{});
  job["source_kind"] = 7;
  const auto options = bench_options_from_json(job);
  ASSERT_FALSE(options);
  EXPECT_EQ(options.error().kind, ErrorKind::internal);
}

}  // namespace
}  // namespace headroom::bench
