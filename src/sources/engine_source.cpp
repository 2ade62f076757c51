// The engines of a Jetson other than CPU and GPU (video, JPEG, deep learning, audio), from the clocks in
// debugfs, which only root can read.
#include <fmt/format.h>
#include <array>

#include <algorithm>

#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

struct Engine {
  std::string name;
  RereadFile hertz, enabled;
};

class EngineSource : public MetricSource {
 public:
  explicit EngineSource(std::vector<Engine> engines) : engines_(std::move(engines)) {}
  std::string describe() const override { return fmt::format("engines: {}", engines_.size()); }
  bool read(SystemSample& sample) override {
    const std::size_t before = sample.engines.size();
    for (const Engine& engine : engines_) {
      const auto users = engine.enabled.read_integer();
      const auto hertz = engine.hertz.read_integer();
      if (!users && !hertz) continue;
      EngineReading& reading = sample.engines.emplace_back();
      reading.name = engine.name;
      if (users) reading.on = *users > 0;
      if (hertz && reading.on.value_or(true)) reading.clock_hz = static_cast<double>(*hertz);
    }
    return sample.engines.size() > before;
  }

 private:
  std::vector<Engine> engines_;
};

// "nvdec", "nvdec1", "dla0_core": the engines, not the many other clocks.
bool is_engine_name(std::string_view name) {
  constexpr std::array<std::string_view, 10> kBeginnings{"msenc", "nvenc", "nvdec", "nvjpg", "se",
                                                         "vic",   "ape",   "ofa",   "dla",   "pva"};
  return std::any_of(kBeginnings.begin(), kBeginnings.end(), [&](std::string_view beginning) {
    if (!name.starts_with(beginning)) return false;
    const std::string_view rest = name.substr(beginning.size());
    return rest.empty() || (rest.size() == 1 && rest[0] >= '0' && rest[0] <= '9') ||
           ((beginning == "dla" || beginning == "pva") && rest.size() > 1 && rest.ends_with("_core"));
  });
}

}  // namespace

std::unique_ptr<MetricSource> make_engine_source(const std::filesystem::path& root) {
  std::vector<Engine> engines;
  for (const auto& clock : entries(root / "sys/kernel/debug/clk")) {
    const std::string name = clock.filename().string();
    if (!is_engine_name(name)) continue;
    Engine engine{name, RereadFile(clock / "clk_rate"), RereadFile(clock / "clk_enable_count")};
    if (engine.hertz.exists()) engines.push_back(std::move(engine));
  }
  if (engines.empty()) return nullptr;
  return std::make_unique<EngineSource>(std::move(engines));
}

}  // namespace headroom::sources
