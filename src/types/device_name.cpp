#include "types/device_name.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace headroom {

std::string DeviceName::text() const { return is_cuda ? "cuda:" + std::to_string(ordinal) : "cpu"; }

std::optional<DeviceName> parse_device_name(std::string_view text) {
  if (text == "cpu") return DeviceName{};
  if (text == "cuda") return DeviceName{true, 0};
  constexpr std::string_view kPrefix = "cuda:";
  if (!starts_with(text, kPrefix)) return std::nullopt;
  const auto ordinal = parse_number<unsigned>(text.substr(kPrefix.size()));
  if (!ordinal || *ordinal >= kMostCudaDevices) return std::nullopt;
  return DeviceName{true, *ordinal};
}

std::vector<unsigned> cuda_ordinals(const std::vector<std::string>& devices) {
  std::vector<unsigned> ordinals;
  for (const std::string& name : devices) {
    const auto device = parse_device_name(name);
    if (device && device->is_cuda &&
        std::find(ordinals.begin(), ordinals.end(), device->ordinal) == ordinals.end())
      ordinals.push_back(device->ordinal);
  }
  return ordinals;
}

std::string gpu_uuid_text(const std::uint8_t (&uuid)[16], bool is_mig_instance) {
  std::string text = is_mig_instance ? "MIG" : "GPU";
  for (int i = 0; i < 16; ++i)
    text += fmt::format("{}{:02x}", i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
  return text;
}

}  // namespace headroom
