// The table of devices, with the source of each total. `total` is MemTotal as tegrastats prints it (in MiB),
// or the "Memory-Usage" total of nvidia-smi: the memory that the firmware and the kernel leave.
//
// The memory of system and desktop depends on the installation; --live measures it. The table's values:
// - Boards, system: 544 MiB after the start of a headless Orin Nano (`free -h` in
//   dusty-nv/jetson-containers issue 342). DGX OS has more services.
// - Boards, desktop: 800 MB more (jetson-ai-lab.com, "RAM Optimization"). Both together are within the
//   memory guide's "typical baseline 800 MB to 1.5 GB".
// - GPUs, system: nothing (1 MiB of an idle RTX 3060, in the issue below).
// - GPUs, desktop: 500 MB, an estimate. GPUs of servers have no display.

#include "planning/devices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/text.h"
#include "sources/system_sampler.h"

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

// Other names of the same memory: a chip, a maker's board, a product that is a setting.
struct OtherName {
  std::string_view name, id;
};
constexpr OtherName kOtherNames[] = {
    {"gb10", "dgx-spark"},
    {"gx10", "dgx-spark"},
    {"spark", "dgx-spark"},
    {"orin-nano-super", "orin-nano-8gb"},
    {"orin-nano-super-8gb", "orin-nano-8gb"},
    {"thor", "agx-thor"},
};

// "Jetson_Orin-Nano Super" is "orin-nano-super".
std::string device_word(std::string_view text) {
  std::string word = to_lower(trim(text));
  for (char& letter : word)
    if (letter == '_' || letter == ' ') letter = '-';
  for (const std::string_view maker : {"nvidia-", "jetson-"})
    if (word.starts_with(maker)) word.erase(0, maker.size());
  const auto* const other = std::ranges::find(kOtherNames, std::string_view(word), &OtherName::name);
  return other == std::end(kOtherNames) ? word : std::string(other->id);
}

// The memory that is left of a limit: the minimum of all samples.
struct MemoryLeft {
  Bytes total;
  std::optional<Bytes> left;
  void add(Bytes now_left) { left = std::min(left.value_or(now_left), std::max(now_left, Bytes{})); }
  Bytes taken() const { return total - left.value_or(total); }
};

Result<DeviceProfile> live_device(const std::filesystem::path& root, std::string& words) {
  constexpr int kSamples = 5;
  constexpr std::chrono::milliseconds kBetween{200};
  sources::SystemSampler sampler(root);
  MemoryLeft machine, group;
  Bytes cache;
  bool has_nvmap = false;
  for (int i = 0; i < kSamples; ++i) {
    if (i > 0 && root == "/") std::this_thread::sleep_for(kBetween);
    const SystemSample sample = sampler.sample();
    if (!sample.ram_total || !sample.ram_available)
      return input_error("cannot read the memory of this machine",
                         "/proc/meminfo has no MemTotal or MemAvailable", "use --device instead of --live");
    machine.total = *sample.ram_total;
    machine.add(*sample.ram_available);
    if (sample.ram_free) cache = *sample.ram_available - *sample.ram_free;
    has_nvmap = sample.nvmap_used.has_value();
    const auto& limited = sample.cgroup;
    if (!limited || !limited->limit || *limited->limit >= machine.total) continue;
    group.total = *limited->limit;
    // The kernel can reclaim inactive file pages that are charged to the group.
    group.add(group.total - limited->current.value_or(Bytes{}) + limited->inactive_file.value_or(Bytes{}));
  }
  // The tighter one counts: the machine may have less memory left than the group.
  if (group.left && *group.left <= *machine.left) {
    words = fmt::format(
        "baseline: headroom runs in a control group of {}, of which {} are in use now (reclaimable file "
        "pages are not counted)",
        format_bytes(group.total), format_bytes(group.taken()));
    return DeviceProfile{.id = "live",
                         .name = "This control group",
                         .total = group.total,
                         .system = group.taken(),
                         .source = "the control group of headroom, now",
                         .is_control_group = true};
  }
  words = fmt::format("baseline: {} of {} are in use now", format_bytes(machine.taken()),
                      format_bytes(machine.total));
  if (group.left)
    words += fmt::format("; the control group of headroom has more left, {} of {}", format_bytes(*group.left),
                         format_bytes(group.total));
  // The driver of a Jetson's GPU allocates from free memory only; it does not reclaim the page cache.
  if (has_nvmap && cache > Bytes{})
    words += fmt::format("; {} of the rest are page cache, which the GPU driver does not reclaim",
                         format_bytes(cache));
  return DeviceProfile{.id = "live",
                       .name = "This machine",
                       .total = machine.total,
                       .system = machine.taken(),
                       .source = "/proc/meminfo, now"};
}

}  // namespace

const std::vector<DeviceProfile>& device_profiles() {
  static const std::vector<DeviceProfile> kProfiles{
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
      {"dgx-spark", "DGX Spark (GB10) 128 GB", mebibytes(124'610), gibibytes(8), kBoardDesktop, false,
       "MemTotal, and 8.0 GiB in use when idle, Syllo/nvtop issue 449"},
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
  return kProfiles;
}

Result<DeviceProfile> device_profile(std::string_view id) {
  const std::string word = device_word(id);
  std::vector<std::string> known;
  for (const DeviceProfile& profile : device_profiles()) {
    if (profile.id == word) return profile;
    known.push_back(profile.id);
  }
  return usage_error(
      fmt::format("unknown device '{}'", id), "",
      did_you_mean(word, known,
                   fmt::format("known devices: {}; or write [device] with a total", fmt::join(known, ", "))));
}

Status use_live_device(Budget& budget, const std::filesystem::path& root, std::string& words) {
  auto device = live_device(root, words);
  if (!device) return forward_error(device);
  budget.device = std::move(*device);
  const std::vector<std::string> measured = take_out_system(budget);
  if (!measured.empty()) words += fmt::format(", which replaces {}", fmt::join(measured, ", "));
  return {};
}

std::vector<std::string> take_out_system(Budget& budget) {
  std::vector<std::string> system;
  for (const BudgetComponent& component : budget.components)
    if (component.is_system) system.push_back(component.name);
  std::erase_if(budget.components, [](const BudgetComponent& component) { return component.is_system; });
  const auto is_system = [&](const std::string& name) {
    return std::ranges::find(system, name) != system.end();
  };
  for (BudgetComponent& component : budget.components) {
    std::erase_if(component.after, is_system);
    std::erase_if(component.needs, is_system);
  }
  return system;
}

}  // namespace headroom::planning
