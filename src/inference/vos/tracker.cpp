#include "inference/vos/tracker.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "inference/vos/families.h"
#include "inference/vos/small_floats.h"
#include "inference/vos/tracker_state.h"

namespace headroom::inference::vos {
namespace {

constexpr int kLevels = 256, kChannels = 3;

}  // namespace

Status check_dims(std::string_view name, const TensorView& tensor,
                  std::initializer_list<std::int64_t> wanted) {
  if (std::equal(wanted.begin(), wanted.end(), tensor.dims, tensor.dims + tensor.rank)) return {};
  return failure(fmt::format("the graphs do not follow {}", kContract),
                 fmt::format("'{}' has the shape [{}] instead of [{}]", name,
                             fmt::join(tensor.dims, tensor.dims + tensor.rank, ","), fmt::join(wanted, ",")));
}

// --- One frame
// -------------------------------------------------------------------------------------------------

Status Tracker::State::step(std::int64_t frame, std::span<const std::uint8_t> image,
                            std::span<const std::uint16_t> halves) {
  for (std::size_t i = 0; i < objects; ++i) {
    const auto& pending = states[i].pending;
    if (!pending.empty() && pending.front().frame < frame)
      return failure(
          fmt::format("cannot track frame {}", frame),
          fmt::format("object {} has a prompt for frame {}, which was left out", i, pending.front().frame));
  }
  last_frame = frame;
  const auto has_prompt = [&](const ObjectState& state) {
    return !state.pending.empty() && state.pending.front().frame == frame;
  };
  const bool has_work =
      std::any_of(states.begin(), states.begin() + static_cast<std::ptrdiff_t>(objects),
                  [&](const ObjectState& state) { return state.is_tracked || has_prompt(state); });
  if (has_work) {
    if (auto status = encode(image, halves); !status) return status;
    order.clear();
    for (std::size_t i = 0; i < objects; ++i) {
      ObjectState& state = states[i];
      if (!has_prompt(state)) {
        if (state.is_tracked) order.push_back(i);
        continue;
      }
      const VosPrompt prompt = std::move(state.pending.front());
      state.pending.erase(state.pending.begin());
      if (auto status = prompt_object(frame, i, prompt); !status) return status;
      state.is_tracked = true;
    }
    if (auto status = track_objects(frame); !status) return status;
    can_trim = true;
  }
  make_masks();
  return {};
}

Status Tracker::State::encode(std::span<const std::uint8_t> image, std::span<const std::uint16_t> halves) {
  Graph& graph = model.encoder;
  const std::size_t input = model.encoder_inputs.image;
  if (auto shaped = graph.shape_input(input, {1, kChannels, side(), side()}); !shaped)
    return forward_error(shaped);
  const ElementType type = graph.input(input).type;
  if (type == ElementType::uint8) {  // the graph normalises the picture itself
    if (!halves.empty())
      return input_error("cannot give halves to the image encoder", "its input has the type uint8",
                         "use --planes uint8");
    std::memcpy(graph.buffer(input), image.data(), image.size());
    return run_encoder();
  }
  if (!is_float(type))
    return failure("cannot give the picture to the image encoder", graph.input(input).describe());
  if (!halves.empty()) graph.write(input, 0, halves.data(), ElementType::float16, halves.size());
  const std::size_t plane = image.size() / kChannels;
  for (std::size_t c = 0; c < kChannels && plane > 0; ++c) {
    const float mean = model.manifest.mean[c], deviation = model.manifest.std[c];
    std::array<float, kLevels> levels{};
    for (std::size_t level = 0; level < kLevels; ++level)
      levels[level] = (static_cast<float>(level) / 255 - mean) / deviation;
    std::byte* out = graph.buffer(input) + c * plane * size_of(type);
    const auto from = image.subspan(c * plane, plane);
    if (type == ElementType::float32) {
      std::ranges::transform(from, reinterpret_cast<float*>(out),
                             [&](std::uint8_t level) { return levels[level]; });
      continue;
    }
    std::array<std::uint16_t, kLevels> table{};
    convert(levels.data(), ElementType::float32, table.data(), type, levels.size());
    std::ranges::transform(from, reinterpret_cast<std::uint16_t*>(out),
                           [&](std::uint8_t level) { return table[level]; });
  }
  return run_encoder();
}

Status Tracker::State::run_encoder() {
  Graph& graph = model.encoder;
  if (auto status = graph.run(); !status) return status;
  auto embed = graph.output_shape("image_embed", 0);
  if (!embed) return forward_error(embed);
  channels = embed->dim(1);
  return check_dims("image_embed", *embed, {1, channels, side() / 16, side() / 16});
}

// Gives the picture's features to a graph. They stay on the device, unless the graphs have a fixed number of
// objects, which needs copies of them.
Status Tracker::State::forward_features(Graph& graph, std::size_t input, std::int64_t copies) {
  const bool may_link = model.may_link && model.fixed.objects.value_or(1) == 1;
  return graph.forward(input, model.encoder, "image_embed", 0, may_link, copies);
}

// --- The public interface
// -------------------------------------------------------------------------------------------------

// A family's files: their masks are not the reference's, so there are none.
struct Tracker::FamilyState {
  FamilyRun run;
  Manifest manifest{};
  std::vector<BinaryMask> masks{};
};

Tracker::Tracker(std::unique_ptr<State> state, std::unique_ptr<FamilyState> family)
    : state_(std::move(state)), family_(std::move(family)) {}
Tracker::Tracker(Tracker&&) noexcept = default;
Tracker& Tracker::operator=(Tracker&&) noexcept = default;
Tracker::~Tracker() = default;

Result<Tracker> Tracker::load(Backend& backend, const std::filesystem::path& model,
                              const RuntimeSettings& settings, const TrackerOptions& options) {
  if (options.memory_type && !is_float(*options.memory_type))
    return usage_error(fmt::format("the memory bank cannot hold {}", name_of(*options.memory_type)), {},
                       "use bfloat16, float16 or float32");
  if (!follows_contract(model)) {
    auto run = FamilyRun::load(backend, model, settings);
    if (!run) return forward_error(run);
    return Tracker(nullptr, std::unique_ptr<FamilyState>(new FamilyState{std::move(*run)}));
  }
  auto opened = open_contract(backend, model, settings);
  if (!opened) return forward_error(opened);
  return Tracker(std::unique_ptr<State>(new State{std::move(*opened), options}), nullptr);
}

std::string Tracker::label() const { return family_ ? label_of(family_->run.family()) : std::string(); }
const Manifest& Tracker::manifest() const { return family_ ? family_->manifest : state_->model.manifest; }
int Tracker::side() const { return family_ ? family_->run.side() : state_->model.side; }

Status Tracker::start_video(int width, int height, std::int64_t frames, std::size_t objects) {
  if (width <= 0 || height <= 0)
    return failure(fmt::format("a video of {} × {} pixels has no masks", width, height));
  if (family_) {
    family_->run.start_video(objects);
    const BinaryMask empty{
        width, height,
        std::vector<std::uint8_t>(static_cast<std::size_t>(width) * static_cast<std::size_t>(height))};
    family_->masks.assign(objects, empty);
    return {};
  }
  State& state = *state_;
  state.width = width;
  state.height = height;
  state.clip_frames = frames;
  state.last_frame = -1;
  state.objects = objects;
  if (state.states.size() < objects) state.states.resize(objects);
  for (std::size_t i = 0; i < objects; ++i) {
    ObjectState& object = state.states[i];
    object.pending.clear();
    if (object.bank) object.bank->clear();
    object.logits.assign(state.quarter_pixels(), kNoObjectLogit);
    object.mask.width = width;
    object.mask.height = height;
    object.mask.pixels.assign(static_cast<std::size_t>(width) * static_cast<std::size_t>(height), 0);
    object.is_tracked = false;
    object.score = kMaskBias;
  }
  const int quarter = static_cast<int>(state.quarter());
  state.resizer = MaskResizer(quarter, quarter, width, height, state.options.non_overlap ? objects : 1);
  state.placed.clear();
  state.order.reserve(objects);
  state.has_started = true;
  state.has_failed = false;
  return {};
}

Status Tracker::prompt(std::size_t object, const VosPrompt& prompt) {
  if (family_) return {};
  State& state = *state_;
  const std::string what = fmt::format("cannot prompt object {} in frame {}", object, prompt.frame);
  if (object >= state.objects) return failure(what, fmt::format("the video has {} objects", state.objects));
  if (prompt.frame <= state.last_frame) return failure(what, "this frame has been tracked already");
  if (prompt.mask) {
    const BinaryMask& mask = *prompt.mask;
    if (prompt.box || !prompt.points.empty()) return failure(what, "a mask takes no points and no box");
    if (!state.model.manifest.mask_downsample)
      return failure(what, "the model's manifest has no mask_downsample, which a mask needs",
                     "give points or a box");
    if (mask.width <= 0 || mask.height <= 0 ||
        mask.pixels.size() != static_cast<std::size_t>(mask.width) * static_cast<std::size_t>(mask.height) ||
        std::ranges::none_of(mask.pixels, [](std::uint8_t pixel) { return pixel != 0; }))
      return failure(what, "the mask is empty");
  } else if (!prompt.box && prompt.points.empty()) {
    return failure(what, "it has no points, box or mask");
  }
  auto& pending = state.states[object].pending;
  const auto place = std::ranges::lower_bound(pending, prompt.frame, {}, &VosPrompt::frame);
  if (place != pending.end() && place->frame == prompt.frame)
    *place = prompt;
  else
    pending.insert(place, prompt);
  return {};
}

Status Tracker::step(std::int64_t frame, std::span<const std::uint8_t> image) {
  if (family_) return family_->run.step(image);
  return step_checked(frame, image, {});
}

Status Tracker::step(std::int64_t frame, std::span<const std::uint16_t> halves) {
  if (family_) return family_->run.step(halves);
  return step_checked(frame, {}, halves);
}

Status Tracker::step_checked(std::int64_t frame, std::span<const std::uint8_t> image,
                             std::span<const std::uint16_t> halves) {
  State& state = *state_;
  const char* const what = "cannot track a frame";
  if (!state.has_started) return failure(what, "no video has been started");
  if (state.has_failed) return failure(what, "an earlier frame of this video failed");
  if (frame <= state.last_frame)
    return failure(what,
                   fmt::format("frame {} follows frame {}; frames must ascend", frame, state.last_frame));
  const std::size_t values = kChannels * static_cast<std::size_t>(state.side() * state.side());
  if (image.size() + halves.size() != values)
    return failure(what, fmt::format("the image has {} {} instead of {}", image.size() + halves.size(),
                                     halves.empty() ? "bytes" : "halves", values));
  auto status = state.step(frame, image, halves);
  state.has_failed = !status;
  if (!status) state.can_trim = false;
  return status;
}

const BinaryMask& Tracker::mask(std::size_t object) const {
  return family_ ? family_->masks[object] : state_->states[object].mask;
}
std::span<const float> Tracker::logits(std::size_t object) const {
  return family_ ? std::span<const float>() : state_->states[object].logits;
}
TrackedObject Tracker::object(std::size_t object) const {
  if (family_) return {object, false, 0};
  const ObjectState& state = state_->states[object];
  return {object, state.is_tracked && state.score > 0, state.score};
}

Status Tracker::end_video() {
  if (family_) return family_->run.end_video();
  state_->has_started = false;
  return state_->trim();
}

Bytes Tracker::bank_bytes() const {
  if (family_) return family_->run.bank_bytes();
  std::size_t total = 0;
  for (const ObjectState& object : state_->states)
    if (object.bank) total += object.bank->bytes();
  return {static_cast<std::int64_t>(total)};
}

Bytes Tracker::scratch_bytes() const {
  if (family_) return family_->run.scratch_bytes();
  const State& state = *state_;
  std::size_t total = state.holes.bytes() + state.resizer.bytes();
  for (const Graph* graph :
       {&state.model.encoder, &state.model.decoder, &state.model.attention, &state.model.memory})
    total += graph->bytes();
  for (const ObjectState& object : state.states)
    total += object.logits.capacity() * sizeof(float) + object.mask.pixels.capacity();
  total +=
      (state.mask_scratch.capacity() + state.small_scratch.capacity() + state.pointer_scratch.capacity()) *
      sizeof(float);
  return {static_cast<std::int64_t>(total)};
}

}  // namespace headroom::inference::vos
