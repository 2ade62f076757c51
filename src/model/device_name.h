// Where a model runs, as a person names it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

// The ordinals of the CUDA devices among these names, each once, in the order of their first use.
std::vector<unsigned> cuda_ordinals(const std::vector<std::string>& devices);

// "GPU-12345678-1234-1234-1234-123456789abc", as NVIDIA's tools write a device's 16 bytes; of an instance of
// MIG "MIG-…".
std::string gpu_uuid_text(const std::uint8_t (&uuid)[16], bool is_mig_instance = false);

}  // namespace headroom
