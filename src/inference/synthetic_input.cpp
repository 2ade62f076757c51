#include "inference/synthetic_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>

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
  return std::ranges::any_of(
      words, [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}
bool is_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
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
    return std::ranges::any_of(model.inputs, [&](const TensorSpec& input) { return input.name == name; });
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

// Computes the value of the element with this index, before the cast to the input's type.
using Fill = std::function<double(std::size_t index)>;

Fill constant(double value) {
  return [value](std::size_t) { return value; };
}

Fill fill_of(const TensorSpec& spec, std::int64_t image_size, Random& random) {
  const std::string name = to_lower(spec.name);
  const bool integer = spec.type != ElementType::float32 && spec.type != ElementType::float16 &&
                       spec.type != ElementType::bfloat16 && spec.type != ElementType::float64;
  if (is_any(name, {"sr", "sample_rate", "sampling_rate", "samplerate"})) return constant(kSamplingRate);
  if (contains_any(name, {"im_shape", "image_shape", "image_size", "target_size", "orig_size"}))
    return constant(static_cast<double>(image_size));
  if (contains_any(name, {"scale_factor"})) return constant(1);
  if (is_state(name)) return constant(0);
  if (spec.type == ElementType::boolean) return constant(1);
  if (!integer) return [&random](std::size_t) { return random.unit(); };
  if (contains_any(name, {"mask"})) return constant(1);
  if (contains_any(name, {"position"})) return [](std::size_t index) { return static_cast<double>(index); };
  if (contains_any(name, {"token_type", "segment"})) return constant(0);
  if (contains_any(name, {"length", "_len"}) || is_any(name, {"len"})) return constant(kSequenceLength);
  const std::uint32_t bound = spec.type == ElementType::uint8 ? 256 : 10;
  return [&random, bound](std::size_t) { return random.next() % bound; };
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

using Put = void (*)(std::byte* to, double value);

// Writes the value as this type, at most the type's largest value if that is below 2³¹.
template <class Element>
void put(std::byte* to, double value) {
  constexpr double kMost =
      sizeof(Element) < 4 ? static_cast<double>(std::numeric_limits<Element>::max()) : 1e300;
  const auto element = static_cast<Element>(std::min(value, kMost));
  std::memcpy(to, &element, sizeof element);
}
void put_half(std::byte* to, double value) { put<std::uint16_t>(to, half_of(static_cast<float>(value))); }
void put_bfloat(std::byte* to, double value) {
  put<std::uint16_t>(to, std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
}
void put_boolean(std::byte* to, double value) { put<std::uint8_t>(to, value != 0 ? 1 : 0); }

// By ElementType; null: not a number.
constexpr Put kPut[] = {nullptr,
                        put<float>,
                        put_half,
                        put_bfloat,
                        put<double>,
                        put<std::int8_t>,
                        put<std::uint8_t>,
                        put<std::int16_t>,
                        put<std::uint16_t>,
                        put<std::int32_t>,
                        put<std::uint32_t>,
                        put<std::int64_t>,
                        put<std::uint64_t>,
                        put_boolean};

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
    const Fill value_at = fill_of(spec, size, random);
    const Put put_value = kPut[static_cast<std::size_t>(spec.type)];
    for (std::size_t offset = 0; offset < input.data.size(); offset += element_size)
      put_value(input.data.data() + offset, value_at(offset / element_size));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

}  // namespace headroom::inference
