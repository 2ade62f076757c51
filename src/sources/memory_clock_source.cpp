// The memory controller's clock (EMC) of a Jetson: devfreq on JetPack 7, before that debugfs, for root alone.
#include <array>

#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

class MemoryClockSource : public MetricSource {
 public:
  explicit MemoryClockSource(RereadFile hertz) : hertz_(std::move(hertz)) {}
  std::string describe() const override { return "memory clock"; }
  void read(SystemSample& sample) override {
    if (const auto hertz = hertz_.read_integer())
      sample.clocks_hz.push_back({"emc", static_cast<double>(*hertz)});
  }

 private:
  RereadFile hertz_;
};

RereadFile find_clock(const std::filesystem::path& root) {
  for (const auto& device : entries(root / "sys/class/devfreq")) {
    const std::string name = device.filename().string();
    if (!name.starts_with("bwmgr") && name.find("emc") == std::string::npos) continue;
    if (RereadFile hertz(device / "cur_freq"); hertz.exists()) return hertz;
  }
  constexpr std::array<const char*, 3> kDebugFiles{
      "sys/kernel/debug/bpmp/debug/clk/emc/rate",       // TX2 to Orin
      "sys/kernel/debug/clk/override.emc/clk_rate",     // Nano, TX1
      "sys/kernel/debug/clock/override.emc/clk_rate"};  // TK1, R21
  for (const char* path : kDebugFiles)
    if (RereadFile hertz(root / path); hertz.exists()) return hertz;
  return {};
}

}  // namespace

std::unique_ptr<MetricSource> make_memory_clock_source(const std::filesystem::path& root) {
  RereadFile hertz = find_clock(root);
  if (!hertz.exists()) return nullptr;
  return std::make_unique<MemoryClockSource>(std::move(hertz));
}

}  // namespace headroom::sources
