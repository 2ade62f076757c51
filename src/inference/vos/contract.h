// The four graphs of the contract headroom.vos=1, opened and checked.
#pragma once

#include <array>
#include <filesystem>
#include <optional>

#include "inference/vos/graph.h"
#include "inference/vos/manifest.h"

namespace headroom::inference::vos {

// Indices of the inputs in their graphs.
struct EncoderInputs {
  std::size_t image = 0;
};
struct DecoderInputs {
  std::size_t image_embed = 0, high_res_0 = 0, high_res_1 = 0, point_coords = 0, point_labels = 0,
              mask_input = 0, mask_on = 0, no_memory = 0;
};
struct AttentionInputs {
  std::size_t image_embed = 0, mem_features = 0, mem_slot = 0, obj_ptrs = 0, ptr_age = 0;
  std::optional<std::size_t> mem_valid{}, ptr_valid{};
};
struct MemoryInputs {
  std::size_t image_embed = 0, mask_logits = 0, binarize = 0, object_score = 0;
};

// Sizes that the graphs fix; the others vary.
struct FixedSizes {
  std::optional<std::int64_t> objects{};               // B
  std::optional<std::int64_t> points{};                // P
  std::optional<std::int64_t> memories{}, pointers{};  // M, K: unused ones are marked by mem_valid, ptr_valid
};

struct ContractModel {
  Manifest manifest;
  int side = 0;  // S
  FixedSizes fixed;
  // Whether outputs may stay on the device. Of captured graphs, only LibTorch's take other sessions' outputs.
  bool may_link = true;
  Graph encoder, attention, decoder, memory;  // a graph outlives those that are linked to it
  EncoderInputs encoder_inputs;
  DecoderInputs decoder_inputs;
  AttentionInputs attention_inputs;
  MemoryInputs memory_inputs;
};

// The files of the four graphs. `model`: their folder, or the manifest in it.
struct ContractFiles {
  std::filesystem::path folder;
  std::filesystem::path manifest;  // empty: in the graphs' metadata
  std::array<std::filesystem::path, kParts.size()> graphs;
};
// Files that `backend` reads: those of the manifest, or those with the parts' names. The error names what is
// missing.
Result<ContractFiles> find_contract_files(const std::filesystem::path& model, std::string_view backend);

// Whether `model` is a manifest, or a folder with one or with a mask decoder that holds one.
bool follows_contract(const std::filesystem::path& model);

Result<ContractModel> open_contract(Backend& backend, const std::filesystem::path& model,
                                    const RuntimeSettings& settings);

}  // namespace headroom::inference::vos
