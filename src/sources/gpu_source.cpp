// The integrated GPU and the memory controller of a Jetson, from devfreq. NVML is another source.
#include <algorithm>
#include <array>

#include "base/text.h"
#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

constexpr std::array<std::string_view, 5> kGpuNames{"gpu", "gp10b", "gv11b", "ga10b", "gb10b"};

struct Device {
  std::string name;
  ReopenedFile frequency;  // Hz
};

class GpuSource : public MetricSource {
 public:
  GpuSource(std::vector<Device> devices, ReopenedFile load)
      : devices_(std::move(devices)), load_(std::move(load)) {}
  std::string describe() const override {
    return load_.exists() ? "GPU clock and load" : "GPU and memory clocks";
  }
  void read(SystemSample& sample) override {
    for (Device& device : devices_)
      if (const auto hertz = device.frequency.read_integer())
        sample.clocks_hz.push_back({device.name, static_cast<double>(*hertz)});
    if (const auto permille = load_.read_integer())
      sample.gpu_percent = static_cast<double>(*permille) / 10.0;
  }

 private:
  std::vector<Device> devices_;
  ReopenedFile load_;
};

// What a devfreq device is for: "gpu", "emc", or empty.
std::string purpose_of(const std::filesystem::path& device) {
  const std::string node = one_line(device / "device/of_node/name");
  const std::string name = device.filename().string();
  if (std::find(kGpuNames.begin(), kGpuNames.end(), node) != kGpuNames.end()) return "gpu";
  for (const std::string_view gpu : kGpuNames)
    if (name.ends_with("." + std::string(gpu)) || name.starts_with("gpu-gpc")) return "gpu";
  if (name.starts_with("bwmgr") || name.find("emc") != std::string::npos) return "emc";
  return {};
}

}  // namespace

std::unique_ptr<MetricSource> make_gpu_source(const std::filesystem::path& root) {
  std::vector<Device> devices;
  ReopenedFile load("");
  for (const auto& folder : entries(root / "sys/class/devfreq")) {
    const std::string purpose = purpose_of(folder);
    if (purpose.empty()) continue;
    ReopenedFile frequency(folder / "cur_freq");
    if (frequency.exists()) devices.push_back({purpose, std::move(frequency)});
    if (purpose == "gpu" && !load.exists()) load = ReopenedFile(folder / "device/load");
  }
  // JetPack 4 and before have the load, but not always under devfreq.
  for (const char* path :
       {"sys/devices/gpu.0/load", "sys/devices/57000000.gpu/load", "sys/devices/17000000.gp10b/load",
        "sys/devices/17000000.gv11b/load", "sys/devices/platform/17000000.ga10b/load",
        "sys/devices/platform/bus@0/17000000.gpu/load"})
    if (!load.exists()) load = ReopenedFile(root / path);
  if (devices.empty() && !load.exists()) return nullptr;
  return std::make_unique<GpuSource>(std::move(devices), std::move(load));
}

}  // namespace headroom::sources
