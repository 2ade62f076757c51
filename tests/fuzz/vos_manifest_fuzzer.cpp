// Manifests of video object segmentation: for any text, the reader returns a usable manifest or an error.
#include "fuzz.h"
#include "inference/vos/manifest.h"

void fuzz(std::string_view text) {
  const auto manifest = headroom::inference::vos::parse_manifest(text, "fuzz.json");
  if (!manifest) return;
  if (manifest->num_maskmem < 1 || manifest->max_obj_ptrs < 1 || manifest->size < 0) __builtin_trap();
  for (const auto& [part, file] : manifest->files)
    if (file.empty() || file.find('/') != std::string::npos) __builtin_trap();
}
