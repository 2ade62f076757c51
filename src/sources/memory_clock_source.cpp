// The memory controller (EMC) of a Jetson. The clock comes from devfreq on JetPack 7 and from debugfs
// before. The load comes from the activity monitor's counters. Only root can read the clock in debugfs and
// the counters.
#include <array>

#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

class MemoryClockSource : public MetricSource {
 public:
  MemoryClockSource(RereadFile hertz, RereadFile active)
      : hertz_(std::move(hertz)), active_(std::move(active)) {}
  std::string describe() const override {
    return active_.exists() ? "memory clock and load" : "memory clock";
  }
  bool read(SystemSample& sample) override {
    const auto hertz = hertz_.read_integer();
    if (!hertz) return false;
    sample.clocks_hz.push_back({"emc", static_cast<double>(*hertz)});
    // The counter is the active part of the clock, in kilohertz.
    if (const auto kilohertz = active_.read_integer(); kilohertz && *hertz > 0 && *kilohertz >= 0)
      sample.emc_percent = 1e5 * static_cast<double>(*kilohertz) / static_cast<double>(*hertz);
    return true;
  }

 private:
  RereadFile hertz_, active_;
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

RereadFile find_activity(const std::filesystem::path& root) {
  constexpr std::array<const char*, 3> kFiles{"sys/kernel/debug/cactmon/mc_all",  // TX2 to Orin
                                              "sys/kernel/debug/bpmp/debug/actmon/mc_all_avg_activity",
                                              "sys/kernel/actmon_avg_activity/mc_all"};  // Nano, TX1
  for (const char* path : kFiles)
    if (RereadFile active(root / path); active.exists()) return active;
  return {};
}

}  // namespace

std::unique_ptr<MetricSource> make_memory_clock_source(const std::filesystem::path& root) {
  RereadFile hertz = find_clock(root);
  if (!hertz.exists()) return nullptr;
  return std::make_unique<MemoryClockSource>(std::move(hertz), find_activity(root));
}

}  // namespace headroom::sources
