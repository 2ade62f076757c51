// Loads real models and runs them on synthetic inputs.
// Tests shapes and types that the public models do not have.
#include <cmath>
#include <thread>

#include "onnxruntime_fixture.h"
#include "tiny_onnx.h"

namespace headroom::inference {
namespace {

using test::Dims;
using test::OnnxNode;
using test::OnnxType;
using test::shapes_of;
using ::testing::ElementsAre;

struct ModelCase {
  std::string file;
  std::vector<Dims> outputs;  // dynamic sides have an image size of 320
};
void PrintTo(const ModelCase& model, std::ostream* out) { *out << model.file; }

class Models : public test::OnnxRuntime, public ::testing::WithParamInterface<ModelCase> {};

TEST_P(Models, OutputsHaveKnownShapes) {
  FIND_MODEL(path, GetParam().file);
  auto model = test::value_of(load(*path, one_thread()));
  const std::vector<float> first = run(model.session);
  for (const float value : first) ASSERT_TRUE(std::isfinite(value));
  // The second run writes into memory whose size the first run found.
  EXPECT_EQ(run(model.session), first);
  std::vector<TensorView> views;
  test::value_of(model.session.outputs(views));
  EXPECT_EQ(shapes_of(views), GetParam().outputs);
  for (const TensorView& view : views) {
    EXPECT_EQ(view.type, ElementType::float32);
    EXPECT_NE(view.data, nullptr);
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
      return test::name_of_case(tested.param.file.substr(0, tested.param.file.rfind('.')));
    });

class Sessions : public test::OnnxRuntime {
 protected:
  Session load_node(const OnnxNode& node) {
    test::write_text(folder_ / "tiny.onnx", test::onnx_model(node));
    return test::value_of(backend_->load(folder_ / "tiny.onnx", one_thread()));
  }
  // Runs the model and returns the first output.
  const TensorView& output_of(Session& session) {
    test::value_of(session.run());
    test::value_of(session.outputs(views_));
    return views_[0];
  }
  std::vector<TensorView> views_;
  test::TemporaryFolder folder_;
};

const OnnxNode kNonZero{
    "NonZero", {{"x", OnnxType::float32, {"4"}}}, {{"y", OnnxType::int64, {"1", "found"}}}};
const OnnxNode kNegative{
    "Neg", {{"x", OnnxType::float32, {"n", "3"}}}, {{"y", OnnxType::float32, {"n", "3"}}}};
const OnnxNode kSum{"Add",
                    {{"a", OnnxType::float32, {"n", "3"}}, {"b", OnnxType::float32, {"n", "3"}}},
                    {{"c", OnnxType::float32, {"n", "3"}}}};
const OnnxNode kIdentity{
    "Identity", {{"x", OnnxType::float32, {"n", "3"}}}, {{"y", OnnxType::float32, {"n", "3"}}}};

TEST_F(Sessions, OutliveTheBackendAndEachOther) {
  std::optional<Backend> second =
      test::value_of(Backend::open({"onnxruntime", test::plugin_path("onnxruntime")}));
  test::value_of(second->start());
  test::write_text(folder_ / "tiny.onnx", test::onnx_model(kNonZero));
  Session session = test::value_of(second->load(folder_ / "tiny.onnx", one_thread()));
  second.reset();
  std::vector<float> values(4);
  test::value_of(bind(session, values, {4}));
  EXPECT_TRUE(session.run());
  session = load_node(kIdentity);
  EXPECT_EQ(session.description().inputs.size(), 1U);
}

TEST_F(Sessions, ShareTheirWeightsAndRunAtTheSameTime) {
  FIND_MODEL(path, "face_detection_front_128x128_barracuda.onnx");
  auto first = test::value_of(load(*path, one_thread()));
  ASSERT_TRUE(first.session.can_share());
  auto shared = test::value_of(first.session.share());
  EXPECT_EQ(shared.description().inputs.size(), first.session.description().inputs.size());
  EXPECT_FALSE(shared.run());  // it has separate inputs, which are not bound yet

  auto inputs = test::value_of(make_synthetic_inputs(shared.description(), 128, 2));
  auto& input = inputs.front();
  ASSERT_TRUE(shared.bind_input(0, input.data.data(), input.data.size(), input.type, input.dims));
  const auto of_first = run(first.session), of_second = run(shared);
  EXPECT_NE(of_first, of_second);
  const auto repeat = [&](Session& session, const std::vector<float>& expected) {
    for (int i = 0; i < 50; ++i) EXPECT_EQ(run(session), expected);
  };
  std::thread other([&] { repeat(shared, of_second); });
  repeat(first.session, of_first);
  other.join();
  { const Session ended = std::move(first.session); }  // the other session keeps the weights
  repeat(shared, of_second);
}

TEST_F(Sessions, ShareOnePreallocatedArena) {
  FIND_MODEL(path, "face_detection_front_128x128_barracuda.onnx");
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

TEST_F(Sessions, DescribeTheModel) {
  const ModelDescription model = load_node(kNonZero).description();
  EXPECT_EQ(model.metadata_value("colour"), "green");
  EXPECT_EQ(model.metadata_value("producer_name"), "headroom-test");
  EXPECT_EQ(model.metadata_value("graph_name"), "tiny");
  EXPECT_EQ(model.inputs[0].describe(), "float32[4]");
  EXPECT_EQ(model.outputs[0].name, "y");
  EXPECT_EQ(model.outputs[0].describe(), "int64[1,found]");
}

// As after NMS: the number of results changes from frame to frame, also to zero and back.
TEST_F(Sessions, OutputShapesMayChangeBetweenRuns) {
  Session session = load_node(kNonZero);
  std::vector<float> values(4);
  ASSERT_TRUE(bind(session, values, {4}));
  for (const std::vector<float>& frame : std::vector<std::vector<float>>{
           {1, 0, 1, 0}, {0, 1, 0, 1}, {1, 1, 1, 0}, {0, 0, 0, 0}, {0, 0, 0, 1}, {1, 1, 1, 1}}) {
    std::copy(frame.begin(), frame.end(), values.begin());
    std::vector<std::int64_t> expected;
    for (std::size_t i = 0; i < frame.size(); ++i)
      if (frame[i] != 0) expected.push_back(static_cast<std::int64_t>(i));
    output_of(session);
    for (int reading = 0; reading < 2; ++reading) {
      ASSERT_TRUE(session.outputs(views_));
      EXPECT_THAT(shapes_of(views_)[0], ElementsAre(1, static_cast<std::int64_t>(expected.size())));
      const auto* found = static_cast<const std::int64_t*>(views_[0].data);
      EXPECT_EQ(std::vector<std::int64_t>(found, found + views_[0].count()), expected);
    }
  }
  EXPECT_TRUE(session.trim());
  output_of(session);
  EXPECT_THAT(shapes_of(views_)[0], ElementsAre(1, 4));
}

TEST_F(Sessions, AcceptScalars) {
  Session session = load_node({"Identity", {{"x", OnnxType::float32, {}}}, {{"y", OnnxType::float32, {}}}});
  EXPECT_EQ(session.description().inputs[0].describe(), "float32[]");
  std::vector<float> one{42};
  ASSERT_TRUE(bind(session, one, {}));
  const TensorView& output = output_of(session);
  EXPECT_EQ(output.rank, 0U);
  EXPECT_EQ(output.count(), 1);
  EXPECT_EQ(output.as_float()[0], 42);
}

TEST_F(Sessions, AcceptInputsOfAnotherShape) {
  Session session = load_node(kIdentity);
  for (const std::int64_t rows : {2, 0, 5, 1}) {
    std::vector<float> values(static_cast<std::size_t>(3 * rows), static_cast<float>(rows));
    test::value_of(bind(session, values, {rows, 3}));
    for (int run = 0; run < 3; ++run) output_of(session);
    EXPECT_THAT(shapes_of(views_)[0], ElementsAre(rows, 3));
    EXPECT_EQ(test::values_of(views_), values);
  }
}

// c = a + y, where y is the output of another session.
TEST_F(Sessions, ReadTheOutputOfAnotherSession) {
  Session first = load_node(kNegative), second = load_node(kSum);
  ASSERT_TRUE(second.can_link());
  std::vector<float> x{1, 2, 3}, a{10, 20, 30};
  const auto early = second.link_input(1, first, 0);
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().sentence(),
            "cannot pass an output of tiny.onnx to tiny.onnx: the model with the output y has not run yet");

  test::value_of(bind(first, x, {1, 3}));
  test::value_of(bind(second, a, {1, 3}));
  output_of(first);
  test::value_of(second.link_input(1, first, 0));
  for (const float value : {1.0F, 5.0F}) {
    x[0] = value;
    test::value_of(first.run());
    output_of(second);
    EXPECT_THAT(test::values_of(views_), ElementsAre(10 - value, 18, 27));
  }

  // The other session's output takes another shape.
  x = {1, 2, 3, 4, 5, 6};
  a = {0, 0, 0, 1, 1, 1};
  test::value_of(bind(first, x, {2, 3}));
  test::value_of(bind(second, a, {2, 3}));
  for (int run = 0; run < 2; ++run) {
    test::value_of(first.run());
    output_of(second);
    EXPECT_THAT(test::values_of(views_), ElementsAre(-1, -2, -3, -3, -4, -5));
  }

  // trim() releases the outputs that the link reads.
  test::value_of(first.trim());
  test::value_of(second.trim());
  const auto trimmed = second.run();
  ASSERT_FALSE(trimmed);
  EXPECT_THAT(trimmed.error().sentence(), ::testing::HasSubstr("the model that makes b has no outputs"));
  test::value_of(first.run());
  output_of(second);
  EXPECT_THAT(test::values_of(views_), ElementsAre(-1, -2, -3, -3, -4, -5));

  // bind_input ends the link.
  std::vector<float> zeros(6);
  test::value_of(
      second.bind_input(1, zeros.data(), zeros.size() * sizeof(float), ElementType::float32, {2, 3}));
  test::value_of(first.run());
  output_of(second);
  EXPECT_EQ(test::values_of(views_), a);
}

TEST_F(Sessions, RejectALinkBetweenTypes) {
  Session first = load_node(kNonZero), second = load_node(kIdentity);
  std::vector<float> values(4, 1);
  test::value_of(bind(first, values, {4}));
  output_of(first);
  const auto linked = second.link_input(0, first, 0);
  ASSERT_FALSE(linked);
  EXPECT_THAT(linked.error().sentence(), ::testing::HasSubstr("have different types"));
}

// The model declares a shape that its output contradicts. ONNX Runtime only warns, so Headroom must not
// fail.
TEST_F(Sessions, AcceptOutputsThatContradictTheDeclaredShape) {
  Session session =
      load_node({"NonZero", {{"x", OnnxType::float32, {"4"}}}, {{"y", OnnxType::int64, {"1", "2"}}}});
  std::vector<float> values{1, 1, 1, 0};
  ASSERT_TRUE(bind(session, values, {4}));
  output_of(session);
  EXPECT_THAT(shapes_of(views_)[0], ElementsAre(1, 3));
}

TEST_F(Sessions, RejectStringInputs) {
  Session session =
      load_node({"Identity", {{"words", OnnxType::string, {"2"}}}, {{"y", OnnxType::string, {"2"}}}});
  EXPECT_EQ(session.description().inputs[0].type, ElementType::string);
  const Status bound = session.bind_input(0, nullptr, 0, ElementType::string, {2});
  ASSERT_FALSE(bound);
  EXPECT_EQ(bound.error().sentence(),
            "cannot bind an input of tiny.onnx: input words takes strings, which Headroom does not support");
}

TEST_F(Sessions, SequenceOutputsHaveNoData) {
  Session session = load_node(
      {"SequenceConstruct", {{"x", OnnxType::float32, {"2"}}}, {{"y", OnnxType::float32, {"2"}, true}}});
  EXPECT_EQ(session.description().outputs[0].type, ElementType::unknown);
  std::vector<float> values{1, 2};
  ASSERT_TRUE(bind(session, values, {2}));
  for (int run = 0; run < 3; ++run) EXPECT_EQ(output_of(session).data, nullptr);
}

}  // namespace
}  // namespace headroom::inference
