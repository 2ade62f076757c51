#include "inference/vos/contract.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/files.h"
#include "inference/vos/small_floats.h"

namespace headroom::inference::vos {
namespace {
namespace fs = std::filesystem;

constexpr std::string_view kExportFix =
    "export the model with python/export_vos.py (docs/video-segmentation.md)";
constexpr Bytes kLargestManifest = mebibytes(1);

bool reads(std::string_view backend, const fs::path& file) {
  const std::string extension = file.extension().string();
  const auto able = backends_for_extension(extension);
  if (std::ranges::find(able, backend) != able.end()) return true;
  return able.empty() && !extension.empty() && find_named<Part>(file.stem().string(), Part::memory_encoder);
}

// Collects the indices of inputs by name, and the names that are missing.
class InputFinder {
 public:
  InputFinder(const Graph& graph, Part part) : graph_(graph), part_(part) {}
  // `rank`: of the tensor; graphs that do not know it have none.
  void need(std::string_view name, std::size_t rank, std::size_t& index) {
    const auto found = graph_.find_input(name);
    if (!found) {
      missing_.emplace_back(name);
      return;
    }
    index = *found;
    const TensorSpec& spec = graph_.input(index);
    if (!spec.dims.empty() && spec.dims.size() != rank && problem_.empty())
      problem_ = fmt::format("its input {} is {}, not of {} dimensions", name, spec.describe(), rank);
    if (size_of(spec.type) == 0 && problem_.empty())
      problem_ = fmt::format("its input {} is {}", name, spec.describe());
  }
  Status status(const fs::path& file) const {
    const std::string what = fmt::format("{} is not the {} of {}", file.string(), name_of(part_), kContract);
    if (!missing_.empty())
      return input_error(what, fmt::format("it lacks the inputs {}", fmt::join(missing_, ", ")),
                         std::string(kExportFix));
    if (!problem_.empty()) return input_error(what, problem_, std::string(kExportFix));
    return {};
  }

 private:
  const Graph& graph_;
  Part part_;
  std::vector<std::string> missing_;
  std::string problem_;
};

Status find_inputs(ContractModel& model, const ContractFiles& files) {
  InputFinder encoder(model.encoder, Part::image_encoder);
  encoder.need("image", 4, model.encoder_inputs.image);

  InputFinder decoder(model.decoder, Part::mask_decoder);
  DecoderInputs& d = model.decoder_inputs;
  decoder.need("image_embed", 4, d.image_embed);
  decoder.need("high_res_0", 4, d.high_res_0);
  decoder.need("high_res_1", 4, d.high_res_1);
  decoder.need("point_coords", 3, d.point_coords);
  decoder.need("point_labels", 2, d.point_labels);
  decoder.need("mask_input", 4, d.mask_input);
  decoder.need("mask_on", 4, d.mask_on);
  decoder.need("no_memory", 4, d.no_memory);

  InputFinder attention(model.attention, Part::memory_attention);
  AttentionInputs& a = model.attention_inputs;
  attention.need("image_embed", 4, a.image_embed);
  attention.need("mem_features", 4, a.mem_features);
  attention.need("mem_slot", 2, a.mem_slot);
  attention.need("obj_ptrs", 3, a.obj_ptrs);
  attention.need("ptr_age", 2, a.ptr_age);
  a.mem_valid = model.attention.find_input("mem_valid");
  a.ptr_valid = model.attention.find_input("ptr_valid");

  InputFinder memory(model.memory, Part::memory_encoder);
  MemoryInputs& m = model.memory_inputs;
  memory.need("image_embed", 4, m.image_embed);
  memory.need("mask_logits", 4, m.mask_logits);
  memory.need("binarize", 4, m.binarize);
  memory.need("object_score", 2, m.object_score);

  const InputFinder* finders[] = {&encoder, &decoder, &attention, &memory};
  for (const Part part : kParts) {
    const auto index = static_cast<std::size_t>(part);
    if (auto status = finders[index]->status(files.graphs[index]); !status) return status;
  }
  return {};
}

// Buffers of these sizes are allocated, so a damaged graph must not ask for all memory.
Status check_fixed_sizes(const FixedSizes& fixed, const std::string& what) {
  constexpr std::int64_t kMost = 4096;  // as in the manifest
  const std::pair<const char*, std::optional<std::int64_t>> sizes[] = {{"objects", fixed.objects},
                                                                       {"points", fixed.points},
                                                                       {"memories", fixed.memories},
                                                                       {"pointers", fixed.pointers}};
  for (const auto& [name, size] : sizes)
    if (size && (*size < 1 || *size > kMost))
      return input_error(
          what, fmt::format("the graphs fix the number of {} to {}, not to 1 to {}", name, *size, kMost),
          std::string(kExportFix));
  return {};
}

Status read_sizes(ContractModel& model, const fs::path& folder) {
  const std::string what = fmt::format("the graphs in {} do not fit together", folder.string());
  const auto height = model.encoder.fixed_dim(model.encoder_inputs.image, 2);
  const auto width = model.encoder.fixed_dim(model.encoder_inputs.image, 3);
  if (height != width)
    return input_error(what, fmt::format("the image is not square: {}",
                                         model.encoder.input(model.encoder_inputs.image).describe()));
  if (height && *height > kLargestSide)
    return input_error(
        fmt::format("cannot use the graphs in {}", folder.string()),
        fmt::format("the image's side is {}, and Headroom supports at most {}", *height, kLargestSide),
        std::string(kExportFix));
  model.side = height ? static_cast<int>(*height) : model.manifest.size;
  if (model.side <= 0 || model.side % 16 != 0 ||
      (model.manifest.size != 0 && model.manifest.size != model.side))
    return input_error(what,
                       fmt::format("the image's side is {} in the graph and {} in the manifest",
                                   height.value_or(0), model.manifest.size),
                       std::string(kExportFix));

  const AttentionInputs& a = model.attention_inputs;
  FixedSizes& fixed = model.fixed;
  fixed.points = model.decoder.fixed_dim(model.decoder_inputs.point_coords, 1);
  fixed.memories = model.attention.fixed_dim(a.mem_features, 1);
  fixed.pointers = model.attention.fixed_dim(a.obj_ptrs, 1);
  if ((fixed.memories && !a.mem_valid) || (fixed.pointers && !a.ptr_valid))
    return input_error(
        what, "memory_attention has a fixed number of memories or pointers, but no mem_valid and ptr_valid",
        std::string(kExportFix));
  if ((fixed.memories && *fixed.memories < model.manifest.num_maskmem) ||
      (fixed.pointers && *fixed.pointers < model.manifest.max_obj_ptrs))
    return input_error(
        what, fmt::format("memory_attention takes {} memories and {} pointers, the manifest needs {} and {}",
                          fixed.memories.value_or(0), fixed.pointers.value_or(0), model.manifest.num_maskmem,
                          model.manifest.max_obj_ptrs));

  const std::optional<std::int64_t> batches[] = {
      model.decoder.fixed_dim(model.decoder_inputs.point_coords, 0),
      model.attention.fixed_dim(a.mem_features, 0),
      model.memory.fixed_dim(model.memory_inputs.mask_logits, 0)};
  for (const auto& batch : batches) {
    if (!batch) continue;
    if (fixed.objects && *fixed.objects != *batch)
      return input_error(what, fmt::format("their batches are {} and {} objects", *fixed.objects, *batch));
    fixed.objects = batch;
  }
  return check_fixed_sizes(fixed, fmt::format("cannot use the graphs in {}", folder.string()));
}

// Whether the backend passes outputs to a captured graph. Otherwise such a graph takes its inputs from the
// host.
bool links_captured_runs(std::string_view backend) { return backend == "libtorch"; }

Result<Manifest> read_manifest(const ContractFiles& files, const Graph& encoder) {
  if (!files.manifest.empty()) {
    auto text = read_file(files.manifest, kLargestManifest);
    if (!text) return forward_error(text);
    return parse_manifest(*text, files.manifest.string());
  }
  const std::string text = encoder.description().metadata_value(kManifestMetadata);
  if (text.empty())
    return input_error(fmt::format("{} has no manifest", files.folder.string()),
                       fmt::format("there is no {}, and the image encoder's metadata has no {}",
                                   kManifestFile, kManifestMetadata),
                       std::string(kExportFix));
  return parse_manifest(text, files.graphs[0].string());
}

}  // namespace

Result<ContractFiles> find_contract_files(const fs::path& model, std::string_view backend) {
  std::error_code code;
  ContractFiles files;
  const bool is_folder = fs::is_directory(model, code);
  files.folder = is_folder ? model : model.parent_path();
  if (files.folder.empty()) files.folder = ".";
  files.manifest = is_folder ? model / kManifestFile : model;
  std::map<Part, std::string> named;
  if (fs::exists(files.manifest, code)) {
    auto text = read_file(files.manifest, kLargestManifest);
    if (!text) return forward_error(text);
    auto manifest = parse_manifest(*text, files.manifest.string());
    if (!manifest) return forward_error(manifest);
    named = std::move(manifest->files);
  } else if (is_folder) {
    files.manifest.clear();
  } else {
    return input_error(fmt::format("cannot open the model {}", model.string()), "no such file or folder");
  }

  std::vector<std::string> missing;
  for (const Part part : kParts) {
    fs::path& found = files.graphs[static_cast<std::size_t>(part)];
    if (const auto entry = named.find(part); entry != named.end() && reads(backend, entry->second))
      found = files.folder / entry->second;
    std::vector<fs::path> candidates;
    for (fs::directory_iterator entry(files.folder, code), end; found.empty() && !code && entry != end;
         entry.increment(code))
      if (entry->path().stem() == name_of(part) && reads(backend, entry->path()))
        candidates.push_back(entry->path());
    if (found.empty() && !candidates.empty()) found = std::ranges::min(candidates);
    if (found.empty()) missing.emplace_back(name_of(part));
  }
  if (!missing.empty())
    return input_error(fmt::format("{} has not all graphs of {}", files.folder.string(), kContract),
                       fmt::format("{} finds no file for {}", backend, fmt::join(missing, ", ")),
                       std::string(kExportFix));
  return files;
}

bool follows_contract(const fs::path& model) {
  std::error_code code;
  if (!fs::is_directory(model, code)) return model.filename() == kManifestFile;
  if (fs::exists(model / kManifestFile, code)) return true;
  // Other projects use the same file names. The mask decoder is small, so its search is quick.
  for (fs::directory_iterator entry(model, code), end; !code && entry != end; entry.increment(code))
    if (entry->path().stem() == name_of(Part::mask_decoder) &&
        file_contains(entry->path(), kManifestMetadata))
      return true;
  return false;
}

Result<ContractModel> open_contract(Backend& backend, const fs::path& model,
                                    const RuntimeSettings& settings) {
  auto files = find_contract_files(model, backend.name());
  if (!files) return forward_error(files);
  std::vector<Graph> graphs;
  for (const fs::path& file : files->graphs) {
    auto session = backend.load(file, settings, /*in_turns=*/true);
    if (!session) return forward_error(session);
    graphs.emplace_back(std::move(*session));
  }
  auto manifest = read_manifest(*files, graphs[0]);
  if (!manifest) return forward_error(manifest);
  ContractModel opened{std::move(*manifest),
                       0,
                       {},
                       !settings.device_graph || links_captured_runs(backend.name()),
                       std::move(graphs[0]),
                       std::move(graphs[2]),
                       std::move(graphs[1]),
                       std::move(graphs[3]),
                       {},
                       {},
                       {},
                       {}};
  if (auto status = find_inputs(opened, *files); !status) return forward_error(status);
  if (auto status = read_sizes(opened, files->folder); !status) return forward_error(status);
  return opened;
}

}  // namespace headroom::inference::vos
