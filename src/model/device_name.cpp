#include "model/device_name.h"

#include "base/text.h"

namespace headroom {

std::string DeviceName::text() const { return is_cuda ? "cuda:" + std::to_string(ordinal) : "cpu"; }

std::optional<DeviceName> parse_device_name(std::string_view text) {
  if (text == "cpu") return DeviceName{};
  if (text == "cuda") return DeviceName{true, 0};
  constexpr std::string_view kPrefix = "cuda:";
  if (!text.starts_with(kPrefix)) return std::nullopt;
  const auto ordinal = parse_number<unsigned>(text.substr(kPrefix.size()));
  if (!ordinal || *ordinal >= kMostCudaDevices) return std::nullopt;
  return DeviceName{true, *ordinal};
}

}  // namespace headroom
