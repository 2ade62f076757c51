#include "inference/vos/families.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "inference/synthetic_input.h"
#include "inference/vos/graph.h"
#include "inference/vos/small_floats.h"

namespace headroom::inference::vos {
namespace {
namespace fs = std::filesystem;

constexpr std::string_view kOneGraph = "G";
const std::vector<std::int64_t> kMemoriesOfOneGraph{7, 1, 512, 64};
constexpr std::array<float, 3> kMean{0.485F, 0.456F, 0.406F}, kStd{0.229F, 0.224F, 0.225F};

bool has_all(const std::vector<TensorSpec>& specs, const std::vector<std::string_view>& names) {
  return std::ranges::all_of(names, [&](std::string_view name) {
    return std::ranges::find(specs, name, &TensorSpec::name) != specs.end();
  });
}

bool has_shape(const std::vector<TensorSpec>& specs, const std::vector<std::int64_t>& dims) {
  return std::ranges::find(specs, dims, &TensorSpec::dims) != specs.end();
}

bool fits(const Family& family, const FamilyGraph& graph, const ModelDescription& file) {
  if (family.id == kOneGraph)
    return has_shape(file.inputs, kMemoriesOfOneGraph) && has_shape(file.outputs, kMemoriesOfOneGraph);
  return has_all(file.inputs, graph.inputs) && has_all(file.outputs, graph.outputs);
}

// The files of a family's graphs, if there are all of them.
std::vector<std::size_t> files_of(const Family& family, std::span<const NamedSignature> files) {
  std::vector<std::size_t> chosen;
  for (const FamilyGraph& graph : family.graphs) {
    std::size_t file = 0;
    while (file < files.size() &&
           (std::ranges::find(chosen, file) != chosen.end() || !fits(family, graph, files[file].description)))
      ++file;
    if (file == files.size()) return {};
    chosen.push_back(file);
  }
  return chosen;
}

bool mentions(std::span<const NamedSignature> files, std::initializer_list<std::string_view> words) {
  const auto in = [&](const std::vector<TensorSpec>& specs) {
    return std::ranges::any_of(specs, [&](const TensorSpec& spec) {
      return std::ranges::any_of(
          words, [&](std::string_view word) { return spec.name.find(word) != std::string::npos; });
    });
  };
  return std::ranges::any_of(files, [&](const NamedSignature& file) {
    return in(file.description.inputs) || in(file.description.outputs);
  });
}

// Concrete dims of an input for `elements` values. Dynamic dims are those of `source` if the ranks are equal;
// otherwise they are 1, but the last one takes what is left. Empty if the number does not fit.
Graph::Dims dims_for(const TensorSpec& spec, std::int64_t elements, const TensorView* source) {
  Graph::Dims dims = spec.dims;
  if (source != nullptr && source->rank == dims.size())
    for (std::size_t i = 0; i < dims.size(); ++i)
      if (dims[i] < 0) dims[i] = source->dims[i];
  const auto last =
      std::ranges::find_if(dims.rbegin(), dims.rend(), [](std::int64_t dim) { return dim < 0; });
  std::int64_t others = 1;
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    if (dim == last) continue;
    if (*dim < 0) *dim = 1;
    others *= *dim;
  }
  if (last != dims.rend() && others > 0) *last = elements / others;
  return element_count(dims) == elements ? dims : Graph::Dims{};
}

// The last outputs of a graph, as floats in a ring.
struct History {
  std::vector<std::vector<float>> ring;
  std::size_t stored = 0;  // since the start of the video
  std::size_t count() const { return std::min(stored, ring.size()); }
};

// The files that a backend reads: those of a folder, or the model itself.
Result<std::vector<fs::path>> files_of_model(const fs::path& model, std::string_view backend) {
  std::error_code code;
  if (fs::is_regular_file(model, code)) return std::vector{model};
  std::vector<fs::path> paths;
  for (fs::directory_iterator entry(model, code), end; !code && entry != end; entry.increment(code)) {
    const auto able = backends_for_extension(entry->path().extension().string());
    if (std::ranges::find(able, backend) != able.end()) paths.push_back(entry->path());
  }
  if (code) return input_error(fmt::format("cannot read the folder {}", model.string()), code.message());
  std::ranges::sort(paths);
  return paths;
}

}  // namespace

std::string label_of(const Family& family) {
  return fmt::format("not the reference algorithm: {}", family.faults);
}

Result<RecognisedFamily> recognise_family(std::span<const NamedSignature> files, const std::string& folder) {
  for (const Family& family : families())
    if (auto chosen = files_of(family, files); !chosen.empty())
      return RecognisedFamily{&family, std::move(chosen)};
  const std::string what = fmt::format("{} cannot track objects in videos", folder);
  const std::string fix = "export the model with python/export_vos.py (docs/video-segmentation.md)";
  if (!mentions(files, {"mem"}) && mentions(files, {"point_coords", "coords", "mask", "iou"}))
    return input_error(
        what,
        "its files segment single pictures: there is no memory attention and no memory encoder, so a "
        "frame cannot see earlier ones",
        fix);
  std::vector<std::string> names;
  for (const NamedSignature& file : files) names.push_back(file.file);
  return input_error(what,
                     names.empty()
                         ? "it holds no models"
                         : fmt::format("its files are of no known kind: {}", fmt::join(names, ", ")),
                     fix);
}

struct FamilyRun::State {
  const Family* family = nullptr;
  std::vector<Graph> graphs{};
  std::vector<FamilyFeed> feeds{};
  std::size_t image = 0;  // input of the first graph
  int side = 0;
  // [object][feed]: of feeds that join several frames
  std::vector<std::vector<History>> histories{};
  std::size_t objects = 0;
  std::vector<bool> has_run{};                            // in this frame
  std::vector<std::vector<std::uint8_t>> needs_values{};  // inputs that still need synthetic values
  std::vector<float> scratch{};
  bool can_trim = false;

  std::optional<std::size_t> index_of(std::string_view graph) const {
    for (std::size_t i = 0; i < family->graphs.size(); ++i)
      if (family->graphs[i].name == graph) return i;
    return std::nullopt;
  }
  Status prepare(const std::string& folder);
  Status give_image(std::span<const std::uint8_t> planes, std::span<const std::uint16_t> halves);
  Status step(std::span<const std::uint8_t> image, std::span<const std::uint16_t> halves);
  Status run_graph(std::size_t graph, std::size_t object);
  Status run_object(std::size_t object);
  Result<bool> give(std::size_t graph, std::size_t input, const FamilyFeed& feed, const History& history);
  Status give_synthetic(std::size_t graph);
  Status keep_outputs(std::size_t object);
};

Status FamilyRun::State::prepare(const std::string& folder) {
  feeds = family->feeds;
  if (family->id == kOneGraph) {
    const ModelDescription& description = graphs[0].description();
    for (const TensorSpec& input : description.inputs)
      for (const TensorSpec& output : description.outputs)
        if (input.is_static() && input.dims == output.dims && input.dims.size() > 2)
          feeds.push_back({"step", input.name, "step", output.name, 1});
  }
  const auto& inputs = graphs[0].description().inputs;
  const auto picture = std::ranges::find_if(inputs, [](const TensorSpec& spec) {
    return spec.dims.size() == 4 && spec.dims[1] == 3 && spec.dims[2] > 0 && spec.dims[2] == spec.dims[3];
  });
  if (picture == inputs.end() || !is_float(picture->type))
    return input_error(fmt::format("cannot run the image encoder in {}", folder),
                       "it has no input of floats [1,3,S,S] with a known S");
  image = static_cast<std::size_t>(picture - inputs.begin());
  side = static_cast<int>(picture->dims[2]);
  has_run.resize(graphs.size());
  for (const Graph& graph : graphs) needs_values.emplace_back(graph.description().inputs.size(), 1);
  return {};
}

Status FamilyRun::State::give_image(std::span<const std::uint8_t> planes,
                                    std::span<const std::uint16_t> halves) {
  Graph& graph = graphs[0];
  if (auto shaped = graph.shape_input(image, {1, 3, side, side}); !shaped) return forward_error(shaped);
  if (!halves.empty()) graph.write(image, 0, halves.data(), ElementType::float16, halves.size());
  const std::size_t plane = planes.size() / 3, row = static_cast<std::size_t>(side);
  scratch.resize(std::max(scratch.size(), row));
  for (std::size_t at = 0; at < planes.size(); at += row) {
    const std::size_t c = at / plane;
    for (std::size_t x = 0; x < row; ++x)
      scratch[x] = (static_cast<float>(planes[at + x]) / 255 - kMean[c]) / kStd[c];
    graph.write(image, at, std::span<const float>(scratch).first(row));
  }
  needs_values[0][image] = 0;
  return {};
}

// Gives the input the feed's value. False if there is none yet, or it does not fit.
Result<bool> FamilyRun::State::give(std::size_t graph, std::size_t input, const FamilyFeed& feed,
                                    const History& history) {
  Graph& to = graphs[graph];
  const TensorSpec& spec = to.input(input);
  if (!feed.zeros_like.empty()) {
    std::int64_t elements = 0;
    for (const std::string_view other : feed.zeros_like)
      if (const auto index = to.find_input(other)) elements += to.elements(*index);
    const Graph::Dims dims = dims_for(spec, elements, nullptr);
    if (dims.empty()) return false;
    auto shaped = to.shape_input(input, dims);
    if (!shaped) return forward_error(shaped);
    return true;
  }
  const auto from = index_of(feed.from);
  if (feed.last == 0) {
    if (!from || !has_run[*from]) return false;
    auto output = graphs[*from].output(feed.output, 0);
    if (!output || !is_float(spec.type)) return false;
    const Graph::Dims dims = dims_for(spec, output->count(), &*output);
    if (dims.empty()) return false;
    TensorView view = *output;
    view.dims = dims.data();
    view.rank = dims.size();
    if (auto status = to.forward(input, view); !status) return forward_error(status);
    return true;
  }
  const std::size_t count = history.count();
  if (count == 0) return false;
  const std::size_t each = history.ring[0].size();
  // A fixed number of memories is filled up with the last one.
  std::size_t copies = count;
  if (spec.is_static())
    copies = static_cast<std::size_t>(element_count(spec.dims)) / std::max<std::size_t>(each, 1);
  const Graph::Dims dims = dims_for(spec, static_cast<std::int64_t>(copies * each), nullptr);
  if (dims.empty()) return false;
  if (auto shaped = to.shape_input(input, dims); !shaped) return forward_error(shaped);
  for (std::size_t i = 0; i < copies; ++i) to.write(input, i * each, history.ring[std::min(i, count - 1)]);
  return true;
}

Status FamilyRun::State::give_synthetic(std::size_t graph) {
  auto& needed = needs_values[graph];
  if (std::ranges::find(needed, 1) == needed.end()) return {};
  Graph& to = graphs[graph];
  auto values = make_synthetic_inputs(to.description(), side, 1);
  if (!values) return forward_error(values);
  for (std::size_t input = 0; input < needed.size(); ++input) {
    if (needed[input] == 0) continue;
    const SyntheticInput& value = (*values)[input];
    if (auto shaped = to.shape_input(input, value.dims); !shaped) return forward_error(shaped);
    std::ranges::copy(value.data, to.buffer(input));
    needed[input] = 0;
  }
  return {};
}

Status FamilyRun::State::run_graph(std::size_t graph, std::size_t object) {
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    const FamilyFeed& feed = feeds[i];
    if (feed.graph != family->graphs[graph].name) continue;
    const auto input = graphs[graph].find_input(feed.input);
    const bool is_given = input && std::any_of(feeds.begin(), feeds.begin() + static_cast<std::ptrdiff_t>(i),
                                               [&](const FamilyFeed& earlier) {
                                                 const auto of = index_of(earlier.from);
                                                 return earlier.graph == feed.graph &&
                                                        earlier.input == feed.input && of && has_run[*of];
                                               });
    if (!input || is_given) continue;
    auto given = give(graph, *input, feed, histories[object][i]);
    if (!given) return forward_error(given);
    if (*given) needs_values[graph][*input] = 0;
  }
  if (auto status = give_synthetic(graph); !status) return status;
  if (auto status = graphs[graph].run(); !status) return status;
  has_run[graph] = true;
  return {};
}

Status FamilyRun::State::keep_outputs(std::size_t object) {
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    if (feeds[i].last == 0) continue;
    const auto from = index_of(feeds[i].from);
    if (!from || !has_run[*from]) continue;
    auto output = graphs[*from].output(feeds[i].output, 0);
    if (!output) return forward_error(output);
    History& history = histories[object][i];
    std::vector<float>& place = history.ring[history.stored++ % history.ring.size()];
    place.resize(static_cast<std::size_t>(output->count()));
    convert(output->data, output->type, place.data(), ElementType::float32, place.size());
  }
  return {};
}

FamilyRun::FamilyRun(std::unique_ptr<State> state) : state_(std::move(state)) {}
FamilyRun::FamilyRun(FamilyRun&&) noexcept = default;
FamilyRun& FamilyRun::operator=(FamilyRun&&) noexcept = default;
FamilyRun::~FamilyRun() = default;

Result<FamilyRun> FamilyRun::load(Backend& backend, const fs::path& model, const RuntimeSettings& settings) {
  auto paths = files_of_model(model, backend.name());
  if (!paths) return forward_error(paths);
  std::vector<NamedSignature> signatures;
  std::vector<Session> sessions;
  for (const fs::path& path : *paths) {
    auto session = backend.load(path, settings, /*in_turns=*/true);
    if (!session) return forward_error(session);
    signatures.push_back({path.filename().string(), session->description()});
    sessions.push_back(std::move(*session));
  }
  auto recognised = recognise_family(signatures, model.string());
  if (!recognised) return forward_error(recognised);
  auto state = std::make_unique<State>();
  state->family = recognised->family;
  for (const std::size_t file : recognised->files) state->graphs.emplace_back(std::move(sessions[file]));
  if (auto status = state->prepare(model.string()); !status) return forward_error(status);
  return FamilyRun(std::move(state));
}

const Family& FamilyRun::family() const { return *state_->family; }
int FamilyRun::side() const { return state_->side; }

void FamilyRun::start_video(std::size_t objects) {
  State& state = *state_;
  state.objects = objects;
  for (std::vector<History>& histories : state.histories)
    for (History& history : histories) history.stored = 0;
  while (state.histories.size() < objects) {
    std::vector<History>& added = state.histories.emplace_back(state.feeds.size());
    for (std::size_t i = 0; i < added.size(); ++i) added[i].ring.resize(state.feeds[i].last);
  }
}

Status FamilyRun::State::run_object(std::size_t object) {
  const bool has_memories =
      std::ranges::any_of(histories[object], [](const History& history) { return history.stored > 0; });
  std::fill(has_run.begin() + (graphs.size() > 1 ? 1 : 0), has_run.end(), false);
  for (std::size_t graph = 0; graph < graphs.size(); ++graph) {
    if (has_run[graph] || (family->graphs[graph].needs_memories && !has_memories)) continue;
    if (auto status = run_graph(graph, object); !status) return status;
  }
  return keep_outputs(object);
}

Status FamilyRun::step(std::span<const std::uint8_t> image) { return state_->step(image, {}); }
Status FamilyRun::step(std::span<const std::uint16_t> halves) { return state_->step({}, halves); }

// `levels` has bytes, or `halves` has values; the other one is empty.
Status FamilyRun::State::step(std::span<const std::uint8_t> levels, std::span<const std::uint16_t> halves) {
  const std::size_t values = 3 * static_cast<std::size_t>(side) * static_cast<std::size_t>(side);
  const std::size_t given = levels.size() + halves.size();
  if (given != values)
    return failure("cannot run a frame", fmt::format("the image has {} {} instead of {}", given,
                                                     halves.empty() ? "bytes" : "halves", values));
  has_run.assign(graphs.size(), false);
  if (auto status = give_image(levels, halves); !status) return status;
  for (std::size_t object = 0; object < objects; ++object)
    if (auto status = run_object(object); !status) return status;
  can_trim = objects > 0;
  return {};
}

// Graphs are trimmed before those whose outputs they read, because a trim may run them once more.
Status FamilyRun::end_video() {
  if (!state_->can_trim) return {};
  state_->can_trim = false;
  for (std::size_t i = state_->graphs.size(); i-- > 0;)
    if (state_->has_run[i])  // otherwise its inputs may be gone
      if (auto status = state_->graphs[i].trim(); !status) return status;
  return {};
}

Bytes FamilyRun::bank_bytes() const {
  std::size_t total = 0;
  for (const std::vector<History>& histories : state_->histories)
    for (const History& history : histories)
      for (const std::vector<float>& values : history.ring) total += values.capacity() * sizeof(float);
  return {static_cast<std::int64_t>(total)};
}

Bytes FamilyRun::scratch_bytes() const {
  std::size_t total = state_->scratch.capacity() * sizeof(float);
  for (const Graph& graph : state_->graphs) total += graph.bytes();
  return {static_cast<std::int64_t>(total)};
}

}  // namespace headroom::inference::vos
