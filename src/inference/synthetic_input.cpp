#include "inference/synthetic_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "base/units.h"

namespace headroom::inference {
namespace {

constexpr std::int64_t kSequenceLength = 16;
constexpr std::int64_t kSamplingRate = 16000;
constexpr std::int64_t kSileroWindow = 512;  // samples per window at 16 kHz; the model accepts no other size
constexpr int kLargestStride = 32;
constexpr std::int64_t kLargestInput = gibibytes(2).count;

bool contains_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}
bool is_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

std::int64_t spatial_size(int image_size) {
  const std::int64_t wanted = std::clamp(image_size, kLargestStride, 1 << 16);
  return (wanted + kLargestStride - 1) / kLargestStride * kLargestStride;
}

// The size that a dimension's symbolic name suggests; -1 if none. A name may be a sum: decoders name the
// width of their attention mask "past_sequence_length + sequence_length". The size is then the sum of the
// terms.
std::int64_t size_by_name(std::string_view dim_name, std::int64_t image_size) {
  const std::string name = to_lower(trim(dim_name));
  if (const auto number = parse_number<std::int64_t>(name)) return *number;
  if (const std::size_t plus = name.find('+'); plus != std::string::npos) {
    const std::int64_t left = size_by_name(name.substr(0, plus), image_size);
    const std::int64_t right = size_by_name(name.substr(plus + 1), image_size);
    return left >= 0 && right >= 0 ? left + right : -1;
  }
  if (contains_any(name, {"past"})) return 0;
  if (contains_any(name, {"batch"}) || is_any(name, {"b", "n", "bs"})) return 1;
  if (contains_any(name, {"height", "width", "imgsz", "image_size"}) || is_any(name, {"h", "w"}))
    return image_size;
  if (contains_any(name, {"channel"}) || is_any(name, {"c"})) return 3;
  if (contains_any(name, {"seq", "time", "token", "length", "frames", "samples"}) ||
      is_any(name, {"t", "l", "s"}))
    return kSequenceLength;
  return -1;
}

bool is_channel_count(std::int64_t dim) { return dim == 1 || dim == 3 || dim == 4; }

// The axes of height and width in a shape, found by its rank and channels; {-1, -1} if it is not a
// picture.
std::pair<int, int> spatial_axes(const std::vector<std::int64_t>& dims) {
  switch (dims.size()) {
    case 3:  // one picture without a batch dimension
      if (is_channel_count(dims[0])) return {1, 2};
      if (is_channel_count(dims[2]) && dims[0] < 0 && dims[1] < 0) return {0, 1};
      return {-1, -1};
    case 4:
      if (is_channel_count(dims[3]) && !is_channel_count(dims[1])) return {1, 2};
      return {2, 3};
    case 5:  // video
      return {3, 4};
    default:
      return {-1, -1};
  }
}

std::int64_t size_by_position(const std::vector<std::int64_t>& dims, std::size_t axis,
                              std::int64_t image_size) {
  const auto [height, width] = spatial_axes(dims);
  const int at = static_cast<int>(axis);
  if (at == height || at == width) return image_size;
  if (dims.size() == 4 && axis == 1) return 3;
  if (dims.size() <= 3 && dims.size() >= 2 && axis == 1)
    return kSequenceLength;  // [batch, time] or [batch, time, features]
  return 1;
}

bool is_state(std::string_view name) {
  return contains_any(name, {"state", "hidden", "cache", "past", "memory"}) ||
         is_any(name, {"h", "c", "h0", "c0", "hn", "cn"});
}

// silero-vad: inputs for a window of samples, a recurrent state and a sampling rate.
bool is_silero(const ModelDescription& model) {
  const auto has = [&](std::string_view name) {
    return std::any_of(model.inputs.begin(), model.inputs.end(),
                       [&](const TensorSpec& input) { return input.name == name; });
  };
  return has("input") && has("sr") && (has("state") || (has("h") && has("c")));
}

std::vector<std::int64_t> concrete_dims(const TensorSpec& spec, bool silero, std::int64_t image_size) {
  if (silero && spec.name == "input" && spec.dims.size() == 2) return {1, kSileroWindow};
  std::vector<std::int64_t> dims = spec.dims;
  const bool state = is_state(to_lower(spec.name));
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] >= 0) continue;
    const std::int64_t named = i < spec.dim_names.size() ? size_by_name(spec.dim_names[i], image_size) : -1;
    // An unnamed dimension of a state is the batch: [layers, batch, size].
    dims[i] = named >= 0 ? named : state ? 1 : size_by_position(spec.dims, i, image_size);
  }
  return dims;
}

// xorshift32: the same values on every machine and with every standard library.
class Random {
 public:
  explicit Random(std::uint32_t seed) : state_(seed * 2654435761U + 1U) {
    if (state_ == 0) state_ = 1;
  }
  std::uint32_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    return state_;
  }
  double unit() { return (next() >> 8) * (1.0 / (1 << 24)); }

 private:
  std::uint32_t state_;
};

// How to compute the value of an element, before the cast to the input's type.
enum class FillRule {
  uniform,
  small_integers,
  zeros,
  ones,
  ascending,
  bytes,
  sampling_rate,
  length,
  image_size
};

FillRule fill_rule_of(const TensorSpec& spec) {
  const std::string name = to_lower(spec.name);
  const bool integer = spec.type != ElementType::float32 && spec.type != ElementType::float16 &&
                       spec.type != ElementType::bfloat16 && spec.type != ElementType::float64;
  if (is_any(name, {"sr", "sample_rate", "sampling_rate", "samplerate"})) return FillRule::sampling_rate;
  if (contains_any(name, {"im_shape", "image_shape", "image_size", "target_size", "orig_size"}))
    return FillRule::image_size;
  if (contains_any(name, {"scale_factor"})) return FillRule::ones;
  if (is_state(name)) return FillRule::zeros;
  if (spec.type == ElementType::boolean) return FillRule::ones;
  if (!integer) return FillRule::uniform;
  if (contains_any(name, {"mask"})) return FillRule::ones;
  if (contains_any(name, {"position"})) return FillRule::ascending;
  if (contains_any(name, {"token_type", "segment"})) return FillRule::zeros;
  if (contains_any(name, {"length", "_len"}) || is_any(name, {"len"})) return FillRule::length;
  return spec.type == ElementType::uint8 ? FillRule::bytes : FillRule::small_integers;
}

double value_at(FillRule rule, std::int64_t index, std::int64_t image_size, Random& random) {
  switch (rule) {
    case FillRule::uniform:
      return random.unit();
    case FillRule::small_integers:
      return random.next() % 10;
    case FillRule::zeros:
      return 0;
    case FillRule::ones:
      return 1;
    case FillRule::ascending:
      return static_cast<double>(index);
    case FillRule::bytes:
      return random.next() % 256;
    case FillRule::sampling_rate:
      return static_cast<double>(kSamplingRate);
    case FillRule::length:
      return static_cast<double>(kSequenceLength);
    case FillRule::image_size:
      return static_cast<double>(image_size);
  }
  return 0;
}

// Truncates the mantissa. Exact for 0, 1 and small integers; within one unit of the last place for [0,1).
// Values below half precision's normal range become 0, values above it the largest finite value.
std::uint16_t half_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const int exponent = static_cast<int>((bits >> 23) & 0xFF) - 127 + 15;
  if (exponent <= 0) return 0;
  if (exponent >= 31) return 0x7BFF;
  return static_cast<std::uint16_t>((static_cast<unsigned>(exponent) << 10) | ((bits >> 13) & 0x3FFU));
}

template <class Element>
void put(std::byte* to, Element value) {
  std::memcpy(to, &value, sizeof value);
}

void put_as(ElementType type, std::byte* to, double value) {
  switch (type) {
    case ElementType::float32:
      return put(to, static_cast<float>(value));
    case ElementType::float64:
      return put(to, value);
    case ElementType::float16:
      return put(to, half_of(static_cast<float>(value)));
    case ElementType::bfloat16:
      return put(to,
                 static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16));
    case ElementType::int8:
      return put(to, static_cast<std::int8_t>(std::min(value, 127.0)));
    case ElementType::uint8:
      return put(to, static_cast<std::uint8_t>(std::min(value, 255.0)));
    case ElementType::boolean:
      return put(to, static_cast<std::uint8_t>(value != 0 ? 1 : 0));
    case ElementType::int16:
      return put(to, static_cast<std::int16_t>(std::min(value, 32767.0)));
    case ElementType::uint16:
      return put(to, static_cast<std::uint16_t>(std::min(value, 65535.0)));
    case ElementType::int32:
      return put(to, static_cast<std::int32_t>(value));
    case ElementType::uint32:
      return put(to, static_cast<std::uint32_t>(value));
    case ElementType::int64:
      return put(to, static_cast<std::int64_t>(value));
    case ElementType::uint64:
      return put(to, static_cast<std::uint64_t>(value));
    case ElementType::unknown:
    case ElementType::string:
      return;
  }
}

// The size of a tensor in bytes; nothing if it exceeds kLargestInput.
std::optional<std::int64_t> bytes_of(const std::vector<std::int64_t>& dims, std::size_t element_size) {
  auto bytes = static_cast<std::int64_t>(element_size);
  for (const std::int64_t dim : dims)
    if (__builtin_mul_overflow(bytes, dim, &bytes) || bytes > kLargestInput) return std::nullopt;
  return bytes;
}

}  // namespace

Result<std::vector<SyntheticInput>> make_synthetic_inputs(const ModelDescription& model, int image_size,
                                                          std::uint32_t seed) {
  const std::int64_t size = spatial_size(image_size);
  const bool silero = is_silero(model);
  Random random(seed);
  std::vector<SyntheticInput> inputs;
  for (const TensorSpec& spec : model.inputs) {
    const std::size_t element_size = size_of(spec.type);
    if (element_size == 0)
      return failure(fmt::format("cannot create input {}", spec.name),
                     spec.type == ElementType::string ? "it takes strings" : "it is not a tensor of numbers",
                     "export the model without this input");
    SyntheticInput input;
    input.type = spec.type;
    input.dims = concrete_dims(spec, silero, size);
    const auto bytes = bytes_of(input.dims, element_size);
    if (!bytes)
      return failure(
          fmt::format("cannot create input {}", spec.name),
          fmt::format("{} needs more than {}", TensorSpec{"", spec.type, input.dims, {}}.describe(),
                      format_bytes({kLargestInput})),
          "choose a smaller --imgsz");
    input.data.resize(static_cast<std::size_t>(*bytes));
    const FillRule rule = fill_rule_of(spec);
    for (std::size_t offset = 0; offset < input.data.size(); offset += element_size)
      put_as(spec.type, input.data.data() + offset,
             value_at(rule, static_cast<std::int64_t>(offset / element_size), size, random));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

}  // namespace headroom::inference
