#include "bench/conductor/unified_memory.h"

#include <algorithm>
#include <string>

#include "base/files.h"
#include "cuda/visible_devices.h"
#include "limits/memory_limit.h"

namespace headroom::bench {

bool is_tegra(const std::filesystem::path& root) {
  // Strings that end with a zero byte each: "nvidia,p3768-0000+p3767-0005", "nvidia,tegra234".
  const auto compatible = read_small_file(root / "proc/device-tree/compatible");
  return compatible && compatible->find("nvidia,tegra") != std::string::npos;
}

bool has_unified_memory(const std::vector<unsigned>& ordinals) {
  if (is_tegra()) return true;
  const auto devices = cuda::visible_devices();
  if (ordinals.empty())
    return std::any_of(devices.begin(), devices.end(),
                       [](const auto& device) { return device.is_integrated; });
  return std::any_of(ordinals.begin(), ordinals.end(), [&](unsigned ordinal) {
    return ordinal < devices.size() && devices[ordinal].is_integrated;
  });
}

Result<Limit> prove_memory_limit(Bytes bytes, std::string_view forced_mechanism) {
  auto limit = limits::probe_limit(bytes, forced_mechanism);
  if (limit && has_unified_memory()) limits::note_unproved_cuda_memory(*limit);
  return limit;
}

}  // namespace headroom::bench
