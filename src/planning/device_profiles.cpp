// The table of devices, with the source of each total. `total` is MemTotal as tegrastats prints it (in MiB),
// or the "Memory-Usage" total of nvidia-smi: the memory that the firmware and the kernel leave.
//
// The memory of system and desktop depends on the installation; --live measures it. The table's values:
// - Boards, system: 544 MiB after the start of a headless Orin Nano (`free -h` in
//   dusty-nv/jetson-containers issue 342).
// - Boards, desktop: 800 MB more (jetson-ai-lab.com, "RAM Optimization"). Both together are within the
//   memory guide's "typical baseline 800 MB to 1.5 GB".
// - GPUs, system: nothing (1 MiB of an idle RTX 3060, in the issue below).
// - GPUs, desktop: 500 MB, an estimate. GPUs of servers have no display.
#include "planning/device_profiles.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"

namespace headroom::planning {
namespace {

constexpr Bytes kBoardSystem = mebibytes(544), kBoardDesktop{800'000'000}, kGpuDesktop{500'000'000};

DeviceProfile board(const char* id, const char* name, std::int64_t mebibytes_total, const char* source) {
  return {id, name, mebibytes(mebibytes_total), kBoardSystem, kBoardDesktop, false, source};
}

DeviceProfile gpu(const char* id, const char* name, std::int64_t mebibytes_total, const char* source) {
  return {id, name, mebibytes(mebibytes_total), {}, kGpuDesktop, true, source};
}

DeviceProfile server_gpu(const char* id, const char* name, std::int64_t mebibytes_total, const char* source) {
  return {id, name, mebibytes(mebibytes_total), {}, {}, true, source};
}

constexpr const char* kModal = "nvidia-smi, modal-labs/modal-client pull request 2797";

std::vector<DeviceProfile> make_profiles() {
  return {
      board("nano-4gb", "Jetson Nano 4 GB", 3964, "tegrastats lines, L4T 32"),
      board("nano-2gb", "Jetson Nano 2 GB", 1980, "a tegrastats line, L4T 32"),
      board("tx2-nx", "Jetson TX2 NX", 3750, "estimate: 4 GiB minus what the TX2 8 GB reserves"),
      board("tx2", "Jetson TX2 8 GB", 7846, "tegrastats lines and /proc/meminfo, L4T 28 to 32"),
      board("xavier-nx-8gb", "Jetson Xavier NX 8 GB", 7771, "tegrastats lines, JetPack 4"),
      board("xavier-nx-16gb", "Jetson Xavier NX 16 GB", 15963,
            "estimate: 16 GiB minus what the 8 GB module reserves"),
      board("agx-xavier-16gb", "Jetson AGX Xavier 16 GB", 15692, "tegrastats lines, L4T 32"),
      board("agx-xavier-32gb", "Jetson AGX Xavier 32 GB", 31919, "tegrastats lines, L4T 32"),
      board("agx-xavier-64gb", "Jetson AGX Xavier 64 GB", 64'373,
            "estimate: 64 GiB minus a part extrapolated from the 16 and 32 GB modules"),
      board("orin-nano-4gb", "Jetson Orin Nano 4 GB", 3524,
            "estimate: 4 GiB minus what the 8 GB module reserves"),
      board("orin-nano-8gb", "Jetson Orin Nano 8 GB", 7620, "tegrastats lines, JetPack 6"),
      board("orin-nx-8gb", "Jetson Orin NX 8 GB", 7620, "tegrastats lines, JetPack 6"),
      board("orin-nx-16gb", "Jetson Orin NX 16 GB", 15388, "tegrastats lines, JetPack 5"),
      board("agx-orin-32gb", "Jetson AGX Orin 32 GB", 30622, "tegrastats lines, L4T 35 and 36"),
      board("agx-orin-64gb", "Jetson AGX Orin 64 GB", 62795, "tegrastats lines, L4T 35 to 39"),
      board("agx-thor", "Jetson AGX Thor 128 GB", 125772, "tegrastats lines, L4T 38 and 39"),
      gpu("rtx-3060", "GeForce RTX 3060 12 GB", 12288,
          "nvidia-smi, geerlingguy/raspberry-pi-pcie-devices issue 790"),
      gpu("rtx-3090", "GeForce RTX 3090", 24576, "nvidia-smi, noonghunna/club-3090 issue 1128"),
      gpu("rtx-4090", "GeForce RTX 4090", 24564, "nvidia-smi, RLinf/RLinf issue 255"),
      gpu("rtx-5090", "GeForce RTX 5090", 32607, "nvidia-smi, noonghunna/club-3090 issue 1229"),
      server_gpu("t4", "T4", 15360, kModal),
      server_gpu("l4", "L4", 23034, kModal),
      server_gpu("a10", "A10", 23028, kModal),
      server_gpu("l40s", "L40S", 46068, kModal),
      server_gpu("a100-40gb", "A100 40 GB", 40960, kModal),
      server_gpu("a100-80gb", "A100 80 GB", 81920, kModal),
      server_gpu("h100-80gb", "H100 80 GB", 81559, kModal),
      server_gpu("h200", "H200", 143771, "the driver's figure in benchmarks/results/gpu_ledger.md"),
  };
}

}  // namespace

const std::vector<DeviceProfile>& device_profiles() {
  static const std::vector<DeviceProfile> kProfiles = make_profiles();
  return kProfiles;
}

Result<DeviceProfile> device_profile(std::string_view id) {
  std::string word = to_lower(trim(id));
  std::replace(word.begin(), word.end(), '_', '-');
  std::vector<std::string> known;
  for (const DeviceProfile& profile : device_profiles()) {
    if (profile.id == word) return profile;
    known.push_back(profile.id);
  }
  const std::string closest = closest_match(word, known);
  return usage_error(fmt::format("unknown device '{}'", id), "",
                     closest.empty() ? fmt::format("known devices: {}; or write [device] with a total",
                                                   fmt::join(known, ", "))
                                     : fmt::format("did you mean '{}'?", closest));
}

}  // namespace headroom::planning
