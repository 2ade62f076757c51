// The device on which a model runs, as users name it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

// The largest number of CUDA devices that the ledger supports.
inline constexpr unsigned kMostCudaDevices = 64;

struct DeviceName {
  bool is_cuda = false;
  unsigned ordinal = 0;  // CUDA device number, as the process sees it (CUDA_VISIBLE_DEVICES)
  friend bool operator==(DeviceName a, DeviceName b) {
    return a.is_cuda == b.is_cuda && a.ordinal == b.ordinal;
  }
  std::string text() const;  // "cpu", "cuda:1"
};

// Parses "cpu", "cuda:N", or "cuda" for the first device. Returns nothing for any other text.
std::optional<DeviceName> parse_device_name(std::string_view text);

// The numbers of the CUDA devices among these names, without duplicates, in order of first use.
std::vector<unsigned> cuda_ordinals(const std::vector<std::string>& devices);

// Formats a device's 16 bytes as NVIDIA's tools do: "GPU-12345678-1234-1234-1234-123456789abc". A MIG
// instance gets "MIG-…".
std::string gpu_uuid_text(const std::uint8_t (&uuid)[16], bool is_mig_instance = false);

}  // namespace headroom
