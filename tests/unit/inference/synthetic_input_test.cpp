#include "inference/synthetic_input.h"

#include <cstring>

#include "support/test_support.h"
#include "unit/inference/results.h"

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
  return test::value_of(make_synthetic_inputs(model, image_size, 7));
}

template <class Element>
std::vector<Element> values_of(const SyntheticInput& input) {
  std::vector<Element> values(input.data.size() / sizeof(Element));
  if (!values.empty()) std::memcpy(values.data(), input.data.data(), input.data.size());
  return values;
}

TEST(SyntheticInput, ResolvesShapes) {
  constexpr ElementType kFloat = ElementType::float32, kInteger = ElementType::int64;
  const std::vector<std::pair<TensorSpec, Dims>> expected{
      // Fixed shapes.
      {spec("x", kFloat, {1, 3, 240, 320}), {1, 3, 240, 320}},
      {spec("scalar", kFloat, {}), {}},
      {spec("empty", kFloat, {0, 4}), {0, 4}},
      // By name.
      {spec("input", kFloat, {-1, 3, -1, -1}, {"batch", "", "height", "width"}), {1, 3, 320, 320}},
      {spec("ids", kInteger, {-1, -1}, {"batch_size", "sequence_length"}), {1, 16}},
      {spec("past.0.key", kFloat, {-1, 8, -1, 64}, {"batch", "", "past_length", ""}), {1, 8, 0, 64}},
      // A decoder's mask covers past and new tokens.
      {spec("mask", kInteger, {-1, -1}, {"batch_size", "past_sequence_length + sequence_length"}), {1, 16}},
      {spec("mask", kInteger, {1, -1}, {"", "sequence_length + 1"}), {1, 17}},
      // Unnamed sides of pictures, by their channels.
      {spec("nchw", kFloat, {-1, 3, -1, -1}), {1, 3, 320, 320}},
      {spec("nhwc", kFloat, {1, -1, -1, 3}, {"", "unk__349", "unk__350", ""}), {1, 320, 320, 3}},
      {spec("line of text", kFloat, {-1, 3, 48, -1}), {1, 3, 48, 320}},
      {spec("all open", kFloat, {-1, -1, -1, -1}), {1, 3, 320, 320}}};
  for (const auto& [input, dims] : expected) EXPECT_EQ(make({input}).front().dims, dims) << input.name;
}

TEST(SyntheticInput, RoundsPicturesUpToNetworkStride) {
  const TensorSpec picture = spec("x", ElementType::float32, {1, 3, -1, -1});
  EXPECT_THAT(make({picture}, 300).front().dims, ElementsAre(1, 3, 320, 320));
  EXPECT_THAT(make({picture}, 0).front().dims, ElementsAre(1, 3, 32, 32));
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
  const ModelDescription model{{spec("x", ElementType::float32, {64})}, {}, {}};
  const auto first = make_synthetic_inputs(model, 320, 1);
  EXPECT_EQ(first->front().data, make_synthetic_inputs(model, 320, 1)->front().data);
  EXPECT_NE(first->front().data, make_synthetic_inputs(model, 320, 2)->front().data);
}

TEST(SyntheticInput, RejectsUnsupportedInputs) {
  const auto error = [](const TensorSpec& input) {
    return test::error_of(make_synthetic_inputs({{input}, {}, {}}, 1 << 16, 1));
  };
  EXPECT_EQ(error(spec("words", ElementType::string, {1})).sentence(),
            "cannot create input words: it takes strings; export the model without this input");
  EXPECT_THAT(error(spec("huge", ElementType::float32, {1, 3, -1, -1})).why,
              HasSubstr("needs more than 2.00 GiB"));
  error(spec("overflow", ElementType::float32, {std::int64_t{1} << 40, std::int64_t{1} << 40}));
}

}  // namespace
}  // namespace headroom::inference
