// Where a model runs, as a person names it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace headroom {

// CUDA's ordinals, as the ledger counts them at most.
inline constexpr unsigned kMostCudaDevices = 64;

struct DeviceName {
  bool is_cuda = false;
  unsigned ordinal = 0;  // of a CUDA device: of those that CUDA_VISIBLE_DEVICES leaves, as the driver counts
  friend bool operator==(const DeviceName&, const DeviceName&) = default;
  std::string text() const;  // "cpu", "cuda:1"
};

// "cpu", "cuda:N", or "cuda" for the first. Nothing for anything else.
std::optional<DeviceName> parse_device_name(std::string_view text);

}  // namespace headroom
