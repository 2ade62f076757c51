#include "inference/synthetic_input.h"

#include <cstring>

#include "support/test_support.h"

namespace headroom::inference {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Lt;

using Dims = std::vector<std::int64_t>;

TensorSpec spec(std::string name, ElementType type, Dims dims, std::vector<std::string> names = {}) {
  names.resize(dims.size());
  return {std::move(name), type, std::move(dims), std::move(names)};
}

std::vector<SyntheticInput> make(std::vector<TensorSpec> inputs, int image_size = 320) {
  ModelDescription model;
  model.inputs = std::move(inputs);
  auto made = make_synthetic_inputs(model, image_size, 7);
  EXPECT_TRUE(made) << made.error().sentence();
  return made ? *made : std::vector<SyntheticInput>();
}

Dims dims_of(const TensorSpec& input, int image_size = 320) { return make({input}, image_size).front().dims; }

template <class Element>
std::vector<Element> values_of(const SyntheticInput& input) {
  std::vector<Element> values(input.data.size() / sizeof(Element));
  if (!values.empty()) std::memcpy(values.data(), input.data.data(), input.data.size());
  return values;
}

TEST(SyntheticInput, KeepsFixedShapes) {
  EXPECT_THAT(dims_of(spec("x", ElementType::float32, {1, 3, 240, 320})), ElementsAre(1, 3, 240, 320));
  EXPECT_THAT(dims_of(spec("scalar", ElementType::float32, {})), ElementsAre());
  EXPECT_THAT(dims_of(spec("empty", ElementType::float32, {0, 4})), ElementsAre(0, 4));
}

TEST(SyntheticInput, ResolvesDimensionsByName) {
  EXPECT_THAT(dims_of(spec("input", ElementType::float32, {-1, 3, -1, -1}, {"batch", "", "height", "width"})),
              ElementsAre(1, 3, 320, 320));
  EXPECT_THAT(dims_of(spec("ids", ElementType::int64, {-1, -1}, {"batch_size", "sequence_length"})),
              ElementsAre(1, 16));
  EXPECT_THAT(
      dims_of(spec("past.0.key", ElementType::float32, {-1, 8, -1, 64}, {"batch", "", "past_length", ""})),
      ElementsAre(1, 8, 0, 64));
  // A decoder's mask covers past and new tokens.
  EXPECT_THAT(dims_of(spec("attention_mask", ElementType::int64, {-1, -1},
                           {"batch_size", "past_sequence_length + sequence_length"})),
              ElementsAre(1, 16));
  EXPECT_THAT(dims_of(spec("mask", ElementType::int64, {1, -1}, {"", "sequence_length + 1"})),
              ElementsAre(1, 17));
}

TEST(SyntheticInput, ResolvesUnnamedPicturesByTheirChannels) {
  EXPECT_THAT(dims_of(spec("nchw", ElementType::float32, {-1, 3, -1, -1})), ElementsAre(1, 3, 320, 320));
  EXPECT_THAT(dims_of(spec("nhwc", ElementType::float32, {1, -1, -1, 3}, {"", "unk__349", "unk__350", ""})),
              ElementsAre(1, 320, 320, 3));
  EXPECT_THAT(dims_of(spec("line of text", ElementType::float32, {-1, 3, 48, -1})),
              ElementsAre(1, 3, 48, 320));
  EXPECT_THAT(dims_of(spec("all open", ElementType::float32, {-1, -1, -1, -1})), ElementsAre(1, 3, 320, 320));
}

TEST(SyntheticInput, RoundsPicturesUpToNetworkStride) {
  EXPECT_THAT(dims_of(spec("x", ElementType::float32, {1, 3, -1, -1}), 300), ElementsAre(1, 3, 320, 320));
  EXPECT_THAT(dims_of(spec("x", ElementType::float32, {1, 3, -1, -1}), 0), ElementsAre(1, 3, 32, 32));
}

TEST(SyntheticInput, MakesSileroInputs) {
  const auto inputs =
      make({spec("input", ElementType::float32, {-1, -1}), spec("state", ElementType::float32, {2, -1, 128}),
            spec("sr", ElementType::int64, {})});
  ASSERT_EQ(inputs.size(), 3U);
  EXPECT_THAT(inputs[0].dims, ElementsAre(1, 512));
  EXPECT_THAT(inputs[1].dims, ElementsAre(2, 1, 128));
  EXPECT_THAT(values_of<float>(inputs[1]), Each(0.0F));
  EXPECT_THAT(values_of<std::int64_t>(inputs[2]), ElementsAre(16000));
}

TEST(SyntheticInput, FillsPlausibleValues) {
  const auto inputs = make(
      {spec("x", ElementType::float32, {4, 100}), spec("input_ids", ElementType::int64, {1, 8}),
       spec("attention_mask", ElementType::int64, {1, 3}), spec("position_ids", ElementType::int32, {1, 3}),
       spec("orig_target_sizes", ElementType::int64, {1, 2}), spec("flag", ElementType::boolean, {2}),
       spec("lengths", ElementType::int64, {1})});
  EXPECT_THAT(values_of<float>(inputs[0]), Each(AllOf(Ge(0.0F), Lt(1.0F))));
  EXPECT_NE(values_of<float>(inputs[0])[0], values_of<float>(inputs[0])[1]);
  EXPECT_THAT(values_of<std::int64_t>(inputs[1]), Each(AllOf(Ge(0), Lt(10))));
  EXPECT_THAT(values_of<std::int64_t>(inputs[2]), ElementsAre(1, 1, 1));
  EXPECT_THAT(values_of<std::int32_t>(inputs[3]), ElementsAre(0, 1, 2));
  EXPECT_THAT(values_of<std::int64_t>(inputs[4]), ElementsAre(320, 320));
  EXPECT_THAT(values_of<std::uint8_t>(inputs[5]), ElementsAre(1, 1));
  EXPECT_THAT(values_of<std::int64_t>(inputs[6]), ElementsAre(16));
}

TEST(SyntheticInput, WritesHalfPrecision) {
  const auto inputs =
      make({spec("scale_factor", ElementType::float16, {1}), spec("state", ElementType::float16, {1}),
            spec("image_size", ElementType::float16, {1}), spec("scale_factor", ElementType::bfloat16, {1})});
  EXPECT_THAT(values_of<std::uint16_t>(inputs[0]), ElementsAre(0x3C00));  // 1
  EXPECT_THAT(values_of<std::uint16_t>(inputs[1]), ElementsAre(0));
  EXPECT_THAT(values_of<std::uint16_t>(inputs[2]), ElementsAre(0x5D00));  // 320
  EXPECT_THAT(values_of<std::uint16_t>(inputs[3]), ElementsAre(0x3F80));  // 1
}

TEST(SyntheticInput, IsTheSameForTheSameSeed) {
  ModelDescription model;
  model.inputs = {spec("x", ElementType::float32, {64})};
  const auto first = make_synthetic_inputs(model, 320, 1);
  EXPECT_EQ(first->front().data, make_synthetic_inputs(model, 320, 1)->front().data);
  EXPECT_NE(first->front().data, make_synthetic_inputs(model, 320, 2)->front().data);
}

TEST(SyntheticInput, RejectsUnsupportedInputs) {
  ModelDescription model;
  model.inputs = {spec("words", ElementType::string, {1})};
  EXPECT_EQ(make_synthetic_inputs(model, 320, 1).error().sentence(),
            "cannot create input words: it takes strings; export the model without this input");
  model.inputs = {spec("huge", ElementType::float32, {1, 3, -1, -1})};
  EXPECT_THAT(make_synthetic_inputs(model, 1 << 16, 1).error().why, HasSubstr("needs more than 2.00 GiB"));
  model.inputs = {spec("overflow", ElementType::float32, {std::int64_t{1} << 40, std::int64_t{1} << 40})};
  EXPECT_FALSE(make_synthetic_inputs(model, 320, 1));
}

}  // namespace
}  // namespace headroom::inference
