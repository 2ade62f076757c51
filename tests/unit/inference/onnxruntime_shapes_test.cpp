// Tests shapes and types that the public models do not have.
#include "onnxruntime_fixture.h"
#include "tiny_onnx.h"

namespace headroom::inference {
namespace {

using test::OnnxNode;
using test::OnnxType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Dims = std::vector<std::int64_t>;

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
  auto session = load_node(kNonZero);
  ASSERT_TRUE(session) << session.error().sentence();
  EXPECT_EQ(session->description().metadata_value("colour"), "green");
  EXPECT_EQ(session->description().metadata_value("producer_name"), "headroom-test");
  EXPECT_EQ(session->description().metadata_value("graph_name"), "tiny");
  EXPECT_EQ(session->description().outputs[0].describe(), "int64[1,found]");
}

// As after NMS: the number of results changes from frame to frame, also to zero and back.
TEST_F(Shapes, OutputShapesMayChangeBetweenRuns) {
  auto session = load_node(kNonZero);
  ASSERT_TRUE(session) << session.error().sentence();
  std::vector<float> values{1, 0, 1, 0};
  ASSERT_TRUE(bind(*session, values, {4}));
  std::vector<TensorView> views;
  for (const std::vector<float>& frame : std::vector<std::vector<float>>{
           {1, 0, 1, 0}, {0, 1, 0, 1}, {1, 1, 1, 0}, {0, 0, 0, 0}, {0, 0, 0, 1}, {1, 1, 1, 1}}) {
    std::copy(frame.begin(), frame.end(), values.begin());
    std::vector<std::int64_t> expected;
    for (std::size_t i = 0; i < frame.size(); ++i)
      if (frame[i] != 0) expected.push_back(static_cast<std::int64_t>(i));
    const Status ran = session->run();
    ASSERT_TRUE(ran) << ran.error().sentence();
    for (int reading = 0; reading < 2; ++reading) {
      ASSERT_TRUE(session->outputs(views));
      EXPECT_THAT(dims_of(views[0]), ElementsAre(1, static_cast<std::int64_t>(expected.size())));
      const auto* found = static_cast<const std::int64_t*>(views[0].data);
      EXPECT_EQ(std::vector<std::int64_t>(found, found + views[0].count()), expected);
    }
  }
  EXPECT_TRUE(session->trim());
  EXPECT_TRUE(session->run());
  ASSERT_TRUE(session->outputs(views));
  EXPECT_THAT(dims_of(views[0]), ElementsAre(1, 4));
}

TEST_F(Shapes, SupportsScalarsAndEmptyTensors) {
  auto session = load_node({"Identity", {{"x", OnnxType::float32, {}}}, {{"y", OnnxType::float32, {}}}});
  ASSERT_TRUE(session) << session.error().sentence();
  std::vector<float> one{42};
  ASSERT_TRUE(bind(*session, one, {}));
  ASSERT_TRUE(session->run());
  std::vector<TensorView> views;
  ASSERT_TRUE(session->outputs(views));
  EXPECT_EQ(views[0].rank, 0U);
  EXPECT_EQ(views[0].count(), 1);
  EXPECT_EQ(views[0].as_float()[0], 42);

  auto empty =
      load_node({"Identity", {{"x", OnnxType::float32, {"n", "3"}}}, {{"y", OnnxType::float32, {"n", "3"}}}});
  ASSERT_TRUE(empty) << empty.error().sentence();
  const Status bound = empty->bind_input(0, nullptr, 0, ElementType::float32, {0, 3});
  ASSERT_TRUE(bound) << bound.error().sentence();
  for (int run = 0; run < 2; ++run) {
    const Status ran = empty->run();
    ASSERT_TRUE(ran) << ran.error().sentence();
  }
  ASSERT_TRUE(empty->outputs(views));
  EXPECT_THAT(dims_of(views[0]), ElementsAre(0, 3));
}

// The model declares a shape that its output contradicts. ONNX Runtime only warns, so Headroom must not
// fail.
TEST_F(Shapes, AcceptsOutputsThatContradictTheDeclaredShape) {
  auto session =
      load_node({"NonZero", {{"x", OnnxType::float32, {"4"}}}, {{"y", OnnxType::int64, {"1", "2"}}}});
  ASSERT_TRUE(session) << session.error().sentence();
  std::vector<float> values{1, 1, 1, 0};
  ASSERT_TRUE(bind(*session, values, {4}));
  const Status ran = session->run();
  ASSERT_TRUE(ran) << ran.error().sentence();
  std::vector<TensorView> views;
  ASSERT_TRUE(session->outputs(views));
  EXPECT_THAT(dims_of(views[0]), ElementsAre(1, 3));
}

TEST_F(Shapes, RejectsStringInputs) {
  auto session =
      load_node({"Identity", {{"words", OnnxType::string, {"2"}}}, {{"y", OnnxType::string, {"2"}}}});
  ASSERT_TRUE(session) << session.error().sentence();
  EXPECT_EQ(session->description().inputs[0].type, ElementType::string);
  const Status bound = session->bind_input(0, nullptr, 0, ElementType::string, {2});
  ASSERT_FALSE(bound);
  EXPECT_EQ(bound.error().sentence(),
            "cannot bind an input of tiny.onnx: input words takes strings, which Headroom does not support");
}

TEST_F(Shapes, SequenceOutputsHaveNoData) {
  auto session = load_node(
      {"SequenceConstruct", {{"x", OnnxType::float32, {"2"}}}, {{"y", OnnxType::float32, {"2"}, true}}});
  ASSERT_TRUE(session) << session.error().sentence();
  EXPECT_EQ(session->description().outputs[0].type, ElementType::unknown);
  std::vector<float> values{1, 2};
  ASSERT_TRUE(bind(*session, values, {2}));
  std::vector<TensorView> views;
  for (int run = 0; run < 3; ++run) {
    const Status ran = session->run();
    ASSERT_TRUE(ran) << ran.error().sentence();
    ASSERT_TRUE(session->outputs(views));
    EXPECT_EQ(views[0].data, nullptr);
  }
}

}  // namespace
}  // namespace headroom::inference
