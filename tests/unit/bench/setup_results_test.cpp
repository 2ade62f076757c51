#include "bench/conductor/setup_results.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace headroom::bench {
namespace {

PreparedModel prepared() {
  PreparedModel model;
  model.name = "m";
  model.path = "m.onnx";
  model.status = ModelStatus::ok;
  model.file_size = mebibytes(4);
  ModelResult trial;
  trial.status = ModelStatus::ok;
  trial.memory.loaded = mebibytes(40);
  trial.memory.run_peak = mebibytes(60);
  model.trial = trial;
  return model;
}

// setup.json keeps these figures. With --skip-inference they are the only memory figures of the model.
TEST(SetupResults, KeepsTheMemoryOfTheWarmUp) {
  const auto again = prepared_model_from_json(to_json(prepared()));
  ASSERT_TRUE(again);
  const ModelResult result = result_of_setup(*again);
  EXPECT_EQ(result.memory.loaded, mebibytes(40));
  EXPECT_EQ(result.memory.run_peak, mebibytes(60));
  EXPECT_EQ(result.file_size, mebibytes(4));
}

// The measured process gets the outputs that a run in the setup phase showed, and needs no such run.
TEST(SetupResults, KeepsTheLearntOutputs) {
  PreparedModel model = prepared();
  model.asked_precision = Precision::fp16;
  model.outputs = {{"output", ElementType::float32, {1, 8400, 85}, {"", "", ""}}};
  const auto again = prepared_model_from_json(to_json(model));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->asked_precision, Precision::fp16);
  ASSERT_EQ(again->outputs.size(), 1U);
  EXPECT_EQ(again->outputs[0].describe(), "float32[1,8400,85]");
}

TEST(SetupResults, DropsWarmUpMemoryOfAModelNotReached) {
  EXPECT_EQ(not_yet_measured(prepared()).memory, ModelMemory{});
  PreparedModel failed = prepared();
  failed.status = ModelStatus::oom;
  EXPECT_EQ(not_yet_measured(failed).memory.run_peak, mebibytes(60))
      << "a failed model is not measured again";
}

}  // namespace
}  // namespace headroom::bench
