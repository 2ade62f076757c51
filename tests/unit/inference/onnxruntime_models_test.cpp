// Loads real models and runs them on synthetic inputs.
// Tests shapes and types that the public models do not have.
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

#include "onnxruntime_fixture.h"
#include "tiny_onnx.h"
#include "unit/inference/results.h"

namespace headroom::inference {
namespace {

using ::testing::ElementsAre;
using Dims = std::vector<std::int64_t>;

std::optional<std::filesystem::path> find_model(const std::string& name) {
  if (auto shared = test::shared_data("models/" + name)) return shared;
  return test::dependency_file("models/" + name);
}

std::vector<Dims> shapes_of(const std::vector<TensorView>& views) {
  std::vector<Dims> shapes;
  for (const TensorView& view : views) shapes.emplace_back(view.dims, view.dims + view.rank);
  return shapes;
}

struct ModelCase {
  std::string file;
  std::vector<Dims> outputs;  // dynamic sides have an image size of 320
};
void PrintTo(const ModelCase& model, std::ostream* out) { *out << model.file; }

class Models : public test::OnnxRuntime, public ::testing::WithParamInterface<ModelCase> {};

TEST_P(Models, OutputsHaveKnownShapes) {
  const auto path = find_model(GetParam().file);
  if (!path) GTEST_SKIP() << test::absent_message(GetParam().file);
  auto model = test::value_of(load(*path, one_thread()));
  std::vector<TensorView> views;
  // The second run writes into memory whose size the first run found. Both results must be equal.
  std::vector<std::vector<float>> first;
  for (int run = 0; run < 2; ++run) {
    test::value_of(model.session.run());
    test::value_of(model.session.outputs(views));
    EXPECT_EQ(shapes_of(views), GetParam().outputs);
    for (std::size_t i = 0; i < views.size(); ++i) {
      ASSERT_EQ(views[i].type, ElementType::float32);
      ASSERT_NE(views[i].data, nullptr);
      std::vector<float> values(views[i].as_float(), views[i].as_float() + views[i].count());
      for (const float value : values) ASSERT_TRUE(std::isfinite(value)) << "output " << i;
      if (run == 0)
        first.push_back(std::move(values));
      else
        EXPECT_EQ(first[i], values) << "output " << i;
    }
  }
}

std::vector<Dims> yunet_shapes() {
  std::vector<Dims> shapes;
  for (const std::int64_t last : {1, 1, 4, 10})
    for (const std::int64_t count : {1600, 400, 100}) shapes.push_back({1, count, last});
  return shapes;
}

INSTANTIATE_TEST_SUITE_P(
    Real, Models,
    ::testing::Values(ModelCase{"yolox_nano_416x416.onnx", {{1, 3549, 85}}},
                      ModelCase{"yolox_nano_640x640.onnx", {{1, 8400, 85}}},
                      ModelCase{"yolox_nano_1280x1280.onnx", {{1, 33600, 85}}},
                      ModelCase{"FastestDet.onnx", {{1, 85, 22, 22}}},
                      ModelCase{"yunet_n_320_320.onnx", yunet_shapes()},
                      ModelCase{"yunet_n_dynamic.onnx", yunet_shapes()},
                      ModelCase{"ultraface_rfb_320.onnx", {{1, 4420, 2}, {1, 4420, 4}}},
                      ModelCase{"bodypix_mbv1_050_s16.onnx",
                                {{1, 20, 20, 32},
                                 {1, 20, 20, 32},
                                 {1, 20, 20, 17},
                                 {1, 20, 20, 34},
                                 {1, 20, 20, 24},
                                 {1, 20, 20, 48},
                                 {1, 20, 20, 1},
                                 {1, 20, 20, 34}}},
                      ModelCase{"selfie_segmentation_landscape.onnx", {{1, 144, 256, 1}}},
                      ModelCase{"silero_vad.onnx", {{1, 1}, {2, 1, 128}}}, ModelCase{"mnist.onnx", {{1, 10}}},
                      ModelCase{"ch_PP-OCRv4_det_infer.onnx", {{1, 1, 320, 320}}},
                      ModelCase{"ch_PP-OCRv4_rec_infer.onnx", {{1, 40, 6625}}},
                      ModelCase{"face_detection_front_128x128_barracuda.onnx",
                                {{1, 512, 1}, {1, 384, 1}, {1, 512, 16}, {1, 384, 16}}},
                      ModelCase{"face_detection_back_256x256_barracuda.onnx",
                                {{1, 512, 1}, {1, 384, 1}, {1, 512, 16}, {1, 384, 16}}},
                      ModelCase{"mlsd_320x320_tiny.onnx", {{1, 160, 160, 4}, {1, 160, 160, 1}}}),
    [](const auto& tested) {
      std::string name = tested.param.file.substr(0, tested.param.file.rfind('.'));
      for (char& c : name)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
      return name;
    });

class Sessions : public test::OnnxRuntime {};

TEST_F(Sessions, DescribeTheModel) {
  const auto path = test::shared_data("models/yunet_n_dynamic.onnx");
  if (!path) GTEST_SKIP() << test::absent_message("yunet_n_dynamic.onnx");
  auto session = test::value_of(backend_->load(*path, one_thread()));
  const ModelDescription& model = session.description();
  ASSERT_EQ(model.inputs.size(), 1U);
  EXPECT_EQ(model.inputs[0].name, "input");
  EXPECT_EQ(model.inputs[0].describe(), "float32[batch,3,height,width]");
  ASSERT_EQ(model.outputs.size(), 12U);
  EXPECT_EQ(model.outputs[0].name, "cls_8");
  EXPECT_EQ(model.metadata_value("producer_name"), "pytorch");
  EXPECT_FALSE(model.metadata_value("graph_name").empty());
}

TEST_F(Sessions, DescribeScalars) {
  const auto path = test::shared_data("models/silero_vad.onnx");
  if (!path) GTEST_SKIP() << test::absent_message("silero_vad.onnx");
  auto session = test::value_of(backend_->load(*path, one_thread()));
  ASSERT_EQ(session.description().inputs.size(), 3U);
  EXPECT_EQ(session.description().inputs[2].describe(), "int64[]");
}

TEST_F(Sessions, ReadTheBoundMemoryAtEachRun) {
  const auto path = test::shared_data("models/mnist.onnx");
  if (!path) GTEST_SKIP() << test::absent_message("mnist.onnx");
  auto model = test::value_of(load(*path, one_thread()));
  std::vector<TensorView> views;
  ASSERT_TRUE(model.session.run());
  ASSERT_TRUE(model.session.outputs(views));
  const float before = views[0].as_float()[0];
  std::memset(model.inputs[0].data.data(), 0, model.inputs[0].data.size());
  ASSERT_TRUE(model.session.run());
  ASSERT_TRUE(model.session.outputs(views));
  EXPECT_NE(views[0].as_float()[0], before);
}

TEST_F(Sessions, AcceptInputsOfAnotherShape) {
  const auto path = test::shared_data("models/yunet_n_dynamic.onnx");
  if (!path) GTEST_SKIP() << test::absent_message("yunet_n_dynamic.onnx");
  auto model = test::value_of(load(*path, one_thread()));
  std::vector<TensorView> views;
  for (const std::int64_t size : {320, 640, 160}) {
    std::vector<float> picture(static_cast<std::size_t>(3 * size * size), 0.5F);
    test::value_of(model.session.bind_input(0, picture.data(), picture.size() * sizeof(float),
                                            ElementType::float32, {1, 3, size, size}));
    for (int run = 0; run < 3; ++run) {
      test::value_of(model.session.run());
    }
    ASSERT_TRUE(model.session.outputs(views));
    EXPECT_THAT(Dims(views[0].dims, views[0].dims + views[0].rank), ElementsAre(1, size * size / 64, 1));
  }
}

TEST_F(Sessions, OutliveTheBackendAndEachOther) {
  const auto path = test::shared_data("models/mnist.onnx");
  if (!path) GTEST_SKIP() << test::absent_message("mnist.onnx");
  auto opened = Backend::open({"onnxruntime", test::onnxruntime_plugin()});
  ASSERT_TRUE(opened);
  std::optional<Backend> second = std::move(*opened);
  ASSERT_TRUE(second->start());
  auto kept = test::value_of(second->load(*path, one_thread()));
  second.reset();
  Session moved = std::move(kept);
  std::vector<float> picture(28 * 28, 0.0F);
  ASSERT_TRUE(moved.bind_input(0, picture.data(), picture.size() * sizeof(float), ElementType::float32,
                               {1, 1, 28, 28}));
  EXPECT_TRUE(moved.run());
  auto other = test::value_of(backend_->load(*path, one_thread()));
  moved = std::move(other);
  EXPECT_EQ(moved.description().inputs.size(), 1U);
}

TEST_F(Sessions, ShareTheirWeightsAndRunAtTheSameTime) {
  const auto path = test::dependency_file("models/face_detection_front_128x128_barracuda.onnx");
  if (!path) GTEST_SKIP() << test::absent_message("face_detection_front_128x128_barracuda.onnx");
  auto first = test::value_of(load(*path, one_thread()));
  ASSERT_TRUE(first.session.can_share());
  auto shared = test::value_of(first.session.share());
  EXPECT_EQ(shared.description().inputs.size(), first.session.description().inputs.size());
  EXPECT_FALSE(shared.run());  // it has separate inputs, which are not bound yet

  auto inputs = inference::make_synthetic_inputs(shared.description(), 128, 2);
  ASSERT_TRUE(inputs);
  auto& input = inputs->front();
  ASSERT_TRUE(shared.bind_input(0, input.data.data(), input.data.size(), input.type, input.dims));
  const auto values_of = [](Session& session) {
    std::vector<TensorView> views;
    EXPECT_TRUE(session.run());
    EXPECT_TRUE(session.outputs(views));
    return std::vector<float>(views[0].as_float(), views[0].as_float() + 16);
  };
  const auto of_first = values_of(first.session), of_second = values_of(shared);
  EXPECT_NE(of_first, of_second);
  const auto repeat = [&](Session& session, const std::vector<float>& expected) {
    for (int i = 0; i < 50; ++i) EXPECT_EQ(values_of(session), expected);
  };
  std::thread other([&] { repeat(shared, of_second); });
  repeat(first.session, of_first);
  other.join();
  { const Session ended = std::move(first.session); }  // the other session keeps the weights
  repeat(shared, of_second);
}

TEST_F(Sessions, ShareOnePreallocatedArena) {
  const auto path = test::dependency_file("models/face_detection_front_128x128_barracuda.onnx");
  if (!path) GTEST_SKIP() << test::absent_message("face_detection_front_128x128_barracuda.onnx");
  RuntimeSettings settings = one_thread();
  settings.shared_arena = mebibytes(32);
  for (int i = 0; i < 2; ++i) {
    auto model = test::value_of(load(*path, settings));
    ASSERT_TRUE(model.session.run());
    const MemoryStats stats = model.session.memory_stats();
    if (!stats.arena_total) GTEST_SKIP() << "this ONNX Runtime has no arena statistics";
    EXPECT_GE(*stats.arena_total, mebibytes(32));
    EXPECT_LE(*stats.arena_total, mebibytes(40));
  }
}

using test::OnnxNode;
using test::OnnxType;
using ::testing::HasSubstr;

class Shapes : public test::OnnxRuntime {
 protected:
  Result<Session> load_node(const OnnxNode& node) {
    test::write_text(folder_ / "tiny.onnx", test::onnx_model(node));
    return backend_->load(folder_ / "tiny.onnx", one_thread());
  }
  static Status bind(Session& session, std::vector<float>& values, const Dims& dims) {
    return session.bind_input(0, values.data(), values.size() * sizeof(float), ElementType::float32, dims);
  }
  static Dims dims_of(const TensorView& view) { return {view.dims, view.dims + view.rank}; }
  test::TemporaryFolder folder_;
};

const OnnxNode kNonZero{
    "NonZero", {{"x", OnnxType::float32, {"4"}}}, {{"y", OnnxType::int64, {"1", "found"}}}};

TEST_F(Shapes, ReadsMetadata) {
  auto session = test::value_of(load_node(kNonZero));
  EXPECT_EQ(session.description().metadata_value("colour"), "green");
  EXPECT_EQ(session.description().metadata_value("producer_name"), "headroom-test");
  EXPECT_EQ(session.description().metadata_value("graph_name"), "tiny");
  EXPECT_EQ(session.description().outputs[0].describe(), "int64[1,found]");
}

// As after NMS: the number of results changes from frame to frame, also to zero and back.
TEST_F(Shapes, OutputShapesMayChangeBetweenRuns) {
  auto session = test::value_of(load_node(kNonZero));
  std::vector<float> values{1, 0, 1, 0};
  ASSERT_TRUE(bind(session, values, {4}));
  std::vector<TensorView> views;
  for (const std::vector<float>& frame : std::vector<std::vector<float>>{
           {1, 0, 1, 0}, {0, 1, 0, 1}, {1, 1, 1, 0}, {0, 0, 0, 0}, {0, 0, 0, 1}, {1, 1, 1, 1}}) {
    std::copy(frame.begin(), frame.end(), values.begin());
    std::vector<std::int64_t> expected;
    for (std::size_t i = 0; i < frame.size(); ++i)
      if (frame[i] != 0) expected.push_back(static_cast<std::int64_t>(i));
    test::value_of(session.run());
    for (int reading = 0; reading < 2; ++reading) {
      ASSERT_TRUE(session.outputs(views));
      EXPECT_THAT(dims_of(views[0]), ElementsAre(1, static_cast<std::int64_t>(expected.size())));
      const auto* found = static_cast<const std::int64_t*>(views[0].data);
      EXPECT_EQ(std::vector<std::int64_t>(found, found + views[0].count()), expected);
    }
  }
  EXPECT_TRUE(session.trim());
  EXPECT_TRUE(session.run());
  ASSERT_TRUE(session.outputs(views));
  EXPECT_THAT(dims_of(views[0]), ElementsAre(1, 4));
}

TEST_F(Shapes, SupportsScalarsAndEmptyTensors) {
  auto session =
      test::value_of(load_node({"Identity", {{"x", OnnxType::float32, {}}}, {{"y", OnnxType::float32, {}}}}));
  std::vector<float> one{42};
  ASSERT_TRUE(bind(session, one, {}));
  ASSERT_TRUE(session.run());
  std::vector<TensorView> views;
  ASSERT_TRUE(session.outputs(views));
  EXPECT_EQ(views[0].rank, 0U);
  EXPECT_EQ(views[0].count(), 1);
  EXPECT_EQ(views[0].as_float()[0], 42);

  auto empty = test::value_of(load_node(
      {"Identity", {{"x", OnnxType::float32, {"n", "3"}}}, {{"y", OnnxType::float32, {"n", "3"}}}}));
  test::value_of(empty.bind_input(0, nullptr, 0, ElementType::float32, {0, 3}));
  for (int run = 0; run < 2; ++run) {
    test::value_of(empty.run());
  }
  ASSERT_TRUE(empty.outputs(views));
  EXPECT_THAT(dims_of(views[0]), ElementsAre(0, 3));
}

// The model declares a shape that its output contradicts. ONNX Runtime only warns, so Headroom must not
// fail.
TEST_F(Shapes, AcceptsOutputsThatContradictTheDeclaredShape) {
  auto session = test::value_of(
      load_node({"NonZero", {{"x", OnnxType::float32, {"4"}}}, {{"y", OnnxType::int64, {"1", "2"}}}}));
  std::vector<float> values{1, 1, 1, 0};
  ASSERT_TRUE(bind(session, values, {4}));
  test::value_of(session.run());
  std::vector<TensorView> views;
  ASSERT_TRUE(session.outputs(views));
  EXPECT_THAT(dims_of(views[0]), ElementsAre(1, 3));
}

TEST_F(Shapes, RejectsStringInputs) {
  auto session = test::value_of(
      load_node({"Identity", {{"words", OnnxType::string, {"2"}}}, {{"y", OnnxType::string, {"2"}}}}));
  EXPECT_EQ(session.description().inputs[0].type, ElementType::string);
  const Status bound = session.bind_input(0, nullptr, 0, ElementType::string, {2});
  ASSERT_FALSE(bound);
  EXPECT_EQ(bound.error().sentence(),
            "cannot bind an input of tiny.onnx: input words takes strings, which Headroom does not support");
}

TEST_F(Shapes, SequenceOutputsHaveNoData) {
  auto session = test::value_of(load_node(
      {"SequenceConstruct", {{"x", OnnxType::float32, {"2"}}}, {{"y", OnnxType::float32, {"2"}, true}}}));
  EXPECT_EQ(session.description().outputs[0].type, ElementType::unknown);
  std::vector<float> values{1, 2};
  ASSERT_TRUE(bind(session, values, {2}));
  std::vector<TensorView> views;
  for (int run = 0; run < 3; ++run) {
    test::value_of(session.run());
    ASSERT_TRUE(session.outputs(views));
    EXPECT_EQ(views[0].data, nullptr);
  }
}

}  // namespace
}  // namespace headroom::inference
