// Compares the plug-in's results for TorchScript modules with PyTorch's results for the same files.
#include <cmath>

#include "libtorch_fixture.h"

namespace headroom::inference {
namespace {

using test::Dims;
using test::shapes_of;
using ::testing::ElementsAre;

void expect_near(const std::vector<float>& given, const std::vector<float>& wanted, float most) {
  ASSERT_EQ(given.size(), wanted.size());
  for (std::size_t i = 0; i < given.size(); ++i)
    ASSERT_NEAR(given[i], wanted[i], most * std::max(1.0F, std::abs(wanted[i]))) << "value " << i;
}

class TorchScriptModels : public test::LibTorch {
 protected:
  // Loads, binds filled(dims), runs twice and reads the outputs.
  void run(const std::string& name, const Dims& dims = {1, 3, 64, 64},
           const RuntimeSettings& settings = one_thread()) {
    session_.emplace(test::value_of(backend_->load(module(name), settings)));
    input_ = test::filled(dims);
    test::value_of(bind(*session_, input_, dims));
    for (int run = 0; run < 2; ++run) test::value_of(session_->run());
    test::value_of(session_->learn_outputs());
    test::value_of(session_->outputs(views_));
  }
  void expect_values_of(const std::string& name, float most = 1e-5F) {
    expect_near(test::values_of(views_), expected(name), most);
  }
  std::vector<float> input_;  // declared before the session, which reads it
  std::optional<Session> session_;
  std::vector<TensorView> views_;
};

TEST_F(TorchScriptModels, MatchPyTorch) {
  for (const char* name : {"script", "trace", "frozen", "yolov5_config"}) {
    run(name);
    EXPECT_EQ(shapes_of(views_), (std::vector<Dims>{{1, 10}})) << name;
    expect_values_of(name);
  }
  run("in_training");  // saved in training mode, runs in evaluation mode
  expect_values_of("script");
}

TEST_F(TorchScriptModels, ResultDoesNotDependOnGraphLevel) {
  for (const int level : {0, 1, 2, 99}) {
    RuntimeSettings settings = one_thread();
    settings.graph_level = level;
    run("script", {1, 3, 64, 64}, settings);
    expect_values_of("script");
  }
}

// The attribute that changes stays an attribute. LibTorch may freeze the rest, or nothing.
TEST_F(TorchScriptModels, RunsModuleThatChangesItsAttributes) {
  run("counting");
  expect_values_of("counting");
}

TEST_F(TorchScriptModels, FindsInputShapeFromFirstConvolution) {
  const auto session = test::value_of(backend_->load(module("dictionary"), one_thread()));
  EXPECT_FALSE(session.knows_outputs());
  ASSERT_EQ(session.description().inputs.size(), 1U);
  EXPECT_EQ(session.description().inputs[0].name, "x");
  EXPECT_EQ(session.description().inputs[0].describe(), "float32[batch,1,height,width]");
}

TEST_F(TorchScriptModels, UsesTracedInputShape) {
  auto session = test::value_of(backend_->load(module("traced_shape"), one_thread()));
  EXPECT_EQ(session.description().inputs.at(0).dims, (Dims{2, 3, 48, 80}));
  run("traced_shape", {2, 3, 48, 80});
  EXPECT_EQ(shapes_of(views_), (std::vector<Dims>{{2, 10}}));
}

TEST_F(TorchScriptModels, DictionaryKeysNameOutputs) {
  run("dictionary", {1, 1, 64, 64});
  EXPECT_TRUE(session_->knows_outputs());
  const auto& outputs = session_->description().outputs;
  ASSERT_EQ(outputs.size(), 2U);
  EXPECT_EQ(outputs[0].name + " " + outputs[0].describe(), "features float32[1,2,62,62]");
  EXPECT_EQ(outputs[1].name + " " + outputs[1].describe(), "mean float32[]");
  expect_values_of("dictionary");
}

TEST_F(TorchScriptModels, FlattensTuplesAndLists) {
  run("nested");
  std::vector<std::string> names;
  for (const TensorSpec& output : session_->description().outputs) names.push_back(output.name);
  EXPECT_THAT(names, ElementsAre("output_0", "output_1_0", "output_1_1", "output_2"));
  EXPECT_EQ(views_[3].data, nullptr);  // a number
  expect_values_of("nested");
}

TEST_F(TorchScriptModels, EmbeddingTakesIntegers) {
  auto session = test::value_of(backend_->load(module("tokens"), one_thread()));
  EXPECT_EQ(session.description().inputs[0].describe(), "int64[batch,sequence]");
  std::vector<std::int64_t> tokens(16);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int64_t>(i % 10);
  ASSERT_TRUE(
      session.bind_input(0, tokens.data(), tokens.size() * sizeof tokens[0], ElementType::int64, {1, 16}));
  ASSERT_TRUE(session.run());
  ASSERT_TRUE(session.learn_outputs());
  ASSERT_TRUE(session.outputs(views_));
  expect_values_of("tokens", 1e-6F);
}

TEST_F(TorchScriptModels, ReadsShapesAndNamesFromExporterConfig) {
  auto yolov5 = test::value_of(backend_->load(module("yolov5_config"), one_thread()));
  EXPECT_EQ(yolov5.description().inputs[0].describe(), "float32[1,3,64,64]");
  EXPECT_EQ(yolov5.description().metadata_value("stride"), "32");
  EXPECT_EQ(yolov5.description().metadata_value("names"), R"(["cat","dog"])");
  run("ultralytics_config", {1, 3, 64, 96});
  EXPECT_EQ(session_->description().inputs[0].describe(), "float32[1,3,64,96]");
  EXPECT_EQ(session_->description().metadata_value("task"), "classify");
  expect_values_of("ultralytics_config");
}

TEST_F(TorchScriptModels, RunsSeveralRecordedInputs) {
  Session session = test::value_of(backend_->load(module("two_recorded"), one_thread()));
  ASSERT_EQ(session.description().inputs.size(), 2U);
  EXPECT_EQ(session.description().inputs[0].describe(), "float32[?,3]");
  EXPECT_EQ(session.description().inputs[1].describe(), "int64[?,3]");
  EXPECT_EQ(session.description().metadata_value("headroom.vos.manifest"), "{}");
  std::vector<float> a{1, 2, 3, 4, 5, 6};
  std::vector<std::int64_t> b{10, 20, 30, 40, 50, 60};
  test::value_of(bind(session, a, {2, 3}));
  EXPECT_EQ(test::error_of(session.run()).why, "an input is not bound");
  test::value_of(session.bind_input(1, b.data(), b.size() * sizeof b[0], ElementType::int64, {2, 3}));
  test::value_of(session.run());
  test::value_of(session.learn_outputs());
  std::vector<TensorView> views;
  test::value_of(session.outputs(views));
  EXPECT_THAT(test::values_of(views), ElementsAre(11, 22, 33, 44, 55, 66));
}

// The sum of a linked input and an own one.
class LinkedTorchScript : public test::LibTorch {
 protected:
  void SetUp() override {
    LibTorch::SetUp();
    if (IsSkipped()) return;
    first_.emplace(test::value_of(backend_->load(module("two_recorded"), one_thread())));
    second_.emplace(test::value_of(backend_->load(module("two_recorded"), one_thread())));
    bind_first(2);
    test::value_of(
        second_->bind_input(1, twos_.data(), twos_.size() * sizeof twos_[0], ElementType::int64, {2, 3}));
  }
  void bind_first(std::int64_t rows) {
    const auto count = static_cast<std::size_t>(rows * 3);
    test::value_of(first_->bind_input(0, a_.data(), count * sizeof a_[0], ElementType::float32, {rows, 3}));
    test::value_of(
        first_->bind_input(1, tens_.data(), count * sizeof tens_[0], ElementType::int64, {rows, 3}));
  }
  void link() {
    test::value_of(first_->run());
    test::value_of(first_->learn_outputs());
    test::value_of(second_->link_input(0, *first_, 0));
  }
  std::vector<float> run_second() {
    test::value_of(second_->run());
    test::value_of(second_->learn_outputs());
    std::vector<TensorView> views;
    test::value_of(second_->outputs(views));
    return test::values_of(views);
  }
  std::vector<float> a_{1, 2, 3, 4, 5, 6};  // declared before the sessions, which read them
  std::vector<std::int64_t> tens_{10, 10, 10, 10, 10, 10}, twos_{2, 2, 2, 2, 2, 2};
  std::optional<Session> first_, second_;
};

TEST_F(LinkedTorchScript, ReadsLastRunOfOtherSession) {
  ASSERT_TRUE(second_->can_link());
  EXPECT_THAT(test::error_of(second_->link_input(0, *first_, 0)).why,
              ::testing::HasSubstr("has not run yet"));
  link();
  EXPECT_THAT(run_second(), ElementsAre(13, 14, 15, 16, 17, 18));
  a_[0] = 100;
  test::value_of(first_->run());
  EXPECT_THAT(run_second(), ElementsAre(112, 14, 15, 16, 17, 18));
  std::vector<TensorView> views;
  test::value_of(first_->outputs(views));  // on the CPU they are still there
  EXPECT_THAT(test::values_of(views), ElementsAre(110, 12, 13, 14, 15, 16));
}

TEST_F(LinkedTorchScript, FollowsOtherShape) {
  link();
  bind_first(1);
  test::value_of(first_->run());
  test::value_of(second_->bind_input(1, twos_.data(), 3 * sizeof twos_[0], ElementType::int64, {1, 3}));
  EXPECT_THAT(run_second(), ElementsAre(13, 14, 15));
}

TEST_F(LinkedTorchScript, BoundMemoryEndsLink) {
  link();
  std::vector<float> own{0, 0, 0, 0, 0, 1};
  test::value_of(
      second_->bind_input(0, own.data(), own.size() * sizeof own[0], ElementType::float32, {2, 3}));
  test::value_of(first_->run());
  EXPECT_THAT(run_second(), ElementsAre(2, 2, 2, 2, 2, 3));
  second_.reset();  // must end before the memory that it reads
}

TEST_F(LinkedTorchScript, RejectsUnsuitableLinks) {
  link();
  EXPECT_THAT(test::error_of(second_->link_input(1, *first_, 0)).why,
              ::testing::HasSubstr("different types"));
  EXPECT_THAT(test::error_of(second_->link_input(0, *first_, 1)).why,
              ::testing::HasSubstr("invalid output index 1"));
  EXPECT_THAT(test::error_of(second_->link_input(2, *first_, 0)).why,
              ::testing::HasSubstr("invalid input index 2"));
  test::value_of(first_->trim());
  EXPECT_THAT(test::error_of(second_->run()).why, ::testing::HasSubstr("has no outputs"));
  test::value_of(first_->run());
  EXPECT_THAT(run_second(), ElementsAre(13, 14, 15, 16, 17, 18));
}

TEST_F(TorchScriptModels, ReadsBoundMemoryAtEachRun) {
  run("nested");
  const float before = views_[0].as_float()[5];
  input_[5] += 10;
  ASSERT_TRUE(session_->run());
  ASSERT_TRUE(session_->outputs(views_));
  EXPECT_FLOAT_EQ(views_[0].as_float()[5], before + 10);
}

TEST_F(TorchScriptModels, TrimReleasesOutputsAndRunsContinue) {
  run("script");
  ASSERT_TRUE(session_->trim());
  EXPECT_FALSE(session_->outputs(views_));
  ASSERT_TRUE(session_->run());
  ASSERT_TRUE(session_->outputs(views_));
  expect_values_of("script");
}

// Another input shape does not need a new session.
TEST_F(TorchScriptModels, InputShapeMayChange) {
  run("dictionary", {1, 1, 64, 64});
  std::vector<float> larger = test::filled({2, 1, 32, 48});
  ASSERT_TRUE(bind(*session_, larger, {2, 1, 32, 48}));
  ASSERT_TRUE(session_->run());
  ASSERT_TRUE(session_->outputs(views_));
  EXPECT_EQ(shapes_of(views_)[0], (Dims{2, 2, 30, 46}));
  session_.reset();  // must end before the memory that it reads
}

TEST_F(TorchScriptModels, SessionsAreIndependent) {
  run("script");
  auto other = test::value_of(backend_->load(module("dictionary"), one_thread()));
  std::vector<float> input = test::filled({1, 1, 64, 64});
  ASSERT_TRUE(bind(other, input, {1, 1, 64, 64}));
  ASSERT_TRUE(other.run());
  expect_values_of("script");
}

// Runs the same network on two runtimes.
TEST_F(TorchScriptModels, YoloxMatchesOnnxRuntime) {
  const auto script = test::shared_data("models/yolox_nano_640x640.torchscript.pt");
  const auto onnx = test::shared_data("models/yolox_nano_640x640.onnx");
  if (!script || !onnx) GTEST_SKIP() << test::absent_message("yolox_nano_640x640");
  const auto plugin = test::plugin_path("onnxruntime");
  if (!std::filesystem::exists(plugin)) GTEST_SKIP() << test::absent_message("ONNX Runtime's plug-in");
  auto other = test::value_of(Backend::open({"onnxruntime", plugin}));
  if (auto started = other.start(); !started)
    GTEST_SKIP() << test::absent_message(started.error().sentence());
  std::vector<std::vector<float>> answers;
  std::vector<float> input = test::filled({1, 3, 640, 640});
  for (float& value : input) value *= 255;
  for (Backend* backend : {&*backend_, &other}) {
    auto session = test::value_of(backend->load(backend == &other ? *onnx : *script, one_thread()));
    ASSERT_TRUE(bind(session, input, {1, 3, 640, 640}));
    ASSERT_TRUE(session.run());
    ASSERT_TRUE(session.learn_outputs());
    ASSERT_TRUE(session.outputs(views_));
    ASSERT_EQ(shapes_of(views_), (std::vector<Dims>{{1, 8400, 85}}));
    answers.push_back(test::values_of(views_));
  }
  expect_near(answers[0], answers[1], 1e-4F);
}

}  // namespace
}  // namespace headroom::inference
