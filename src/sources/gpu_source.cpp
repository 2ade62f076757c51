// The integrated GPU of a Jetson: its clock from devfreq, its load from a file of its driver.
#include <algorithm>
#include <array>

#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

// Names in the device tree: Orin with JetPack 6, TX2, Xavier, Orin with JetPack 5, Thor.
constexpr std::array<std::string_view, 5> kGpuNames{"gpu", "gp10b", "gv11b", "ga10b", "gb10b"};

// Where the load file is if it is not next to the clock.
constexpr std::array<const char*, 6> kLoadFiles{"sys/devices/gpu.0/load",
                                                "sys/devices/57000000.gpu/load",
                                                "sys/devices/17000000.gp10b/load",
                                                "sys/devices/17000000.gv11b/load",
                                                "sys/devices/platform/17000000.ga10b/load",
                                                "sys/devices/platform/bus@0/17000000.gpu/load"};

class GpuSource : public MetricSource {
 public:
  GpuSource(RereadFile hertz, RereadFile permille)
      : hertz_(std::move(hertz)), permille_(std::move(permille)) {}
  std::string describe() const override {
    if (!permille_.exists()) return "GPU clock";
    return hertz_.exists() ? "GPU clock and load" : "GPU load";
  }
  bool read(SystemSample& sample) override {
    const auto hertz = hertz_.read_integer();
    if (hertz) sample.clocks_hz.push_back({"gpu", static_cast<double>(*hertz)});
    const auto permille = permille_.read_integer();
    if (permille) sample.gpu_percent = static_cast<double>(*permille) / 10.0;
    return hertz || permille;
  }

 private:
  RereadFile hertz_, permille_;
};

bool is_gpu(const std::filesystem::path& device) {
  const std::string node = one_line(device / "device/of_node/name");
  const std::string name = device.filename().string();
  if (name.starts_with("gpu-gpc")) return true;  // Thor
  return std::any_of(kGpuNames.begin(), kGpuNames.end(), [&](std::string_view gpu) {
    return node == gpu || name.ends_with("." + std::string(gpu));
  });
}

}  // namespace

std::unique_ptr<MetricSource> make_gpu_source(const std::filesystem::path& root) {
  RereadFile hertz, permille;
  for (const auto& device : entries(root / "sys/class/devfreq")) {
    if (!is_gpu(device)) continue;
    if (!hertz.exists()) hertz = RereadFile(device / "cur_freq");
    if (!permille.exists()) permille = RereadFile(device / "device/load");
  }
  for (const char* path : kLoadFiles)
    if (!permille.exists()) permille = RereadFile(root / path);
  if (!hertz.exists() && !permille.exists()) return nullptr;
  return std::make_unique<GpuSource>(std::move(hertz), std::move(permille));
}

}  // namespace headroom::sources
