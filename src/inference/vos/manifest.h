// The manifest of a model of video object segmentation (contract headroom.vos=1): the facts that the graphs'
// signatures do not hold. docs/video-segmentation.md describes its JSON.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "types/enum_names.h"

namespace headroom::inference::vos {

inline constexpr std::string_view kContract = "headroom.vos=1";
inline constexpr std::string_view kManifestFile = "manifest.json";              // beside the graphs
inline constexpr std::string_view kManifestMetadata = "headroom.vos.manifest";  // key of a graph's metadata

// The largest S. SAM2 and EdgeTAM have 1024. At 4096 one picture takes 192 MiB as float32, so a larger number
// is taken for a damaged file.
inline constexpr int kLargestSide = 4096;

// The four graphs, in the order of their use.
enum class Part { image_encoder, mask_decoder, memory_attention, memory_encoder };
inline constexpr std::array kParts{Part::image_encoder, Part::mask_decoder, Part::memory_attention,
                                   Part::memory_encoder};
constexpr std::string_view name_of(Part part) {
  return name_in({"image_encoder", "mask_decoder", "memory_attention", "memory_encoder"}, part);
}

struct Manifest {
  std::string family{};  // sam2, sam2.1 or edgetam; for people
  int size = 0;          // S; 0: as in the signature of the image encoder
  std::array<float, 3> mean{0.485F, 0.456F, 0.406F}, std{0.229F, 0.224F, 0.225F};
  int num_maskmem = 7;    // of one prompt frame and the most recent frames
  int max_obj_ptrs = 16;  // of one prompt frame and the most recent frames
  // The best of tokens 1 to 3 is taken if the number of points lies in this range.
  int multimask_min_points = 0, multimask_max_points = 1;
  float stability_delta = 0.05F, stability_threshold = 0.98F;
  bool ptr_tpos = true;  // pointers have an age (SAM2.1)
  // 16 weights [4,4] and the bias of the convolution (stride 4) that makes the decoder's mask input from a
  // mask prompt. Absent: no mask prompts.
  std::optional<std::array<float, 17>> mask_downsample{};
  std::map<Part, std::string> files{};  // in the manifest's folder; absent: the part's name and any extension
};

// Reads a manifest's JSON; `name` is for errors. Ignores unknown keys. A missing key has the value above.
Result<Manifest> parse_manifest(std::string_view json, const std::string& name);

}  // namespace headroom::inference::vos
