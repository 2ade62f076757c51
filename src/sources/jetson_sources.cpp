// Sources of a Jetson: GPU, memory controller, engines, power mode, and NvMap. Only root can read the files
// in debugfs.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/text.h"
#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

// Names in the device tree: Orin with JetPack 6, TX2, Xavier, Orin with JetPack 5, Thor.
constexpr std::array<std::string_view, 5> kGpuNames{"gpu", "gp10b", "gv11b", "ga10b", "gb10b"};

bool is_gpu(const fs::path& device) {
  const std::string node = file_text(device / "device/of_node/name");
  const std::string name = device.filename().string();
  if (name.starts_with("gpu-gpc")) return true;  // Thor
  return std::ranges::any_of(
      kGpuNames, [&](std::string_view gpu) { return node == gpu || name.ends_with("." + std::string(gpu)); });
}

// The clock of the memory controller (EMC): in devfreq on JetPack 7, and in debugfs before.
RereadFile memory_clock(const fs::path& root) {
  for (const auto& device : entries(root / "sys/class/devfreq")) {
    const std::string name = device.filename().string();
    if (!name.starts_with("bwmgr") && name.find("emc") == std::string::npos) continue;
    if (RereadFile hertz(device / "cur_freq"); hertz.exists()) return hertz;
  }
  return first_file(root, {"sys/kernel/debug/bpmp/debug/clk/emc/rate",        // TX2 to Orin
                           "sys/kernel/debug/clk/override.emc/clk_rate",      // Nano, TX1
                           "sys/kernel/debug/clock/override.emc/clk_rate"});  // TK1, R21
}

// The engines other than CPU and GPU (video, JPEG, deep learning, audio), from the clocks in debugfs.
struct Engine {
  std::string name;
  RereadFile hertz, enabled;
};

bool read_engines(const std::vector<Engine>& engines, SystemSample& sample) {
  const std::size_t before = sample.engines.size();
  for (const Engine& engine : engines) {
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

// "nvdec", "nvdec1", "dla0_core": the engines, not the many other clocks.
bool is_engine_name(std::string_view name) {
  constexpr std::array<std::string_view, 10> kBeginnings{"msenc", "nvenc", "nvdec", "nvjpg", "se",
                                                         "vic",   "ape",   "ofa",   "dla",   "pva"};
  return std::ranges::any_of(kBeginnings, [&](std::string_view beginning) {
    if (!name.starts_with(beginning)) return false;
    const std::string_view rest = name.substr(beginning.size());
    return rest.empty() || (rest.size() == 1 && rest[0] >= '0' && rest[0] <= '9') ||
           ((beginning == "dla" || beginning == "pva") && rest.size() > 1 && rest.ends_with("_core"));
  });
}

// nvpmodel's power mode: the mode that its service saved last, with its name from the configuration. The file
// is replaced when the mode changes, so it is reopened periodically.
class PowerMode {
 public:
  explicit PowerMode(const fs::path& root) : status_(root / "var/lib/nvpmodel/status") {
    read_names(root / "etc/nvpmodel.conf");
    read_mode();
  }
  bool exists() const { return !mode_.empty(); }
  bool operator()(SystemSample& sample) {
    if (++samples_ % kSamplesBetween == 0) read_mode();
    sample.power_mode = mode_;
    return !mode_.empty();
  }

 private:
  static constexpr int kSamplesBetween = 16;

  // "pmode:0002 …" or "pmode:2".
  void read_mode() {
    mode_.clear();
    const auto text = read_small_file(status_);
    if (!text) return;
    auto rest = rest_of_line(*text, "pmode:");
    const auto number = rest ? parse_number<int>(take_word(*rest)) : std::nullopt;
    if (!number) return;
    const auto name = names_.find(*number);
    mode_ = name == names_.end() ? "mode " + std::to_string(*number) : name->second;
  }
  // "< POWER_MODEL ID=2 NAME=MODE_15W >"
  void read_names(const fs::path& path) {
    const auto text = read_small_file(path);
    if (!text) return;
    for (const std::string_view line : split(*text, '\n')) {
      if (line.find("POWER_MODEL") == line.npos) continue;
      std::optional<int> id;
      std::string_view name;
      for (std::string_view word : split_words(line)) {
        if (word.starts_with("ID=")) id = parse_number<int>(word.substr(3));
        if (word.starts_with("NAME=")) name = word.substr(5);
      }
      if (id && !name.empty()) names_[*id] = name;
    }
  }

  fs::path status_;
  std::map<int, std::string> names_;
  std::string mode_;
  int samples_ = 0;
};

// "23549320K", "12M"; without a letter the number is bytes.
std::optional<Bytes> size_of(std::string_view word) {
  if (word.empty()) return std::nullopt;
  constexpr std::string_view kUnits = "KMG";
  const std::size_t unit = kUnits.find(word.back());
  const int shift = unit == kUnits.npos ? 0 : 10 * static_cast<int>(unit + 1);
  if (shift > 0) word.remove_suffix(1);
  const auto count = parse_number<std::int64_t>(word);
  if (!count || *count < 0 || *count > (std::int64_t{1} << 62) >> shift) return std::nullopt;
  return Bytes{*count << shift};
}

}  // namespace

std::optional<Bytes> read_nvmap_clients(std::string_view text, std::vector<ProcessSample>& processes) {
  std::optional<Bytes> total;
  while (!text.empty()) {
    std::string_view line = trim(take_line(text));
    // Parse from the end of the line, because names may contain spaces.
    const auto take_last = [&line] {
      const std::size_t space = line.find_last_of(" \t");
      const std::string_view word = space == line.npos ? line : line.substr(space + 1);
      line = space == line.npos ? std::string_view() : trim(line.substr(0, space));
      return word;
    };
    const auto size = size_of(take_last());
    if (!size) continue;
    if (line == "total") {
      total = size;
      continue;
    }
    const auto pid = parse_number<std::int64_t>(take_last());
    std::string_view name = line;
    take_word(name);  // "user", "kernel"
    name = trim(name);
    if (!pid || *pid <= 0 || name.empty()) continue;
    ProcessSample& process = processes.emplace_back();
    process.pid = *pid;
    process.name = name;
    process.gpu = size;
  }
  return total;
}

// The integrated GPU: its clock from devfreq, its load from a file of its driver.
SourcePointer make_gpu_source(const fs::path& root) {
  RereadFile hertz, permille;
  for (const auto& device : entries(root / "sys/class/devfreq")) {
    if (!is_gpu(device)) continue;
    if (!hertz.exists()) hertz = RereadFile(device / "cur_freq");
    if (!permille.exists()) permille = RereadFile(device / "device/load");
  }
  if (!permille.exists())  // the load file is not next to the clock
    permille = first_file(
        root, {"sys/devices/gpu.0/load", "sys/devices/57000000.gpu/load", "sys/devices/17000000.gp10b/load",
               "sys/devices/17000000.gv11b/load", "sys/devices/platform/17000000.ga10b/load",
               "sys/devices/platform/bus@0/17000000.gpu/load"});
  if (!hertz.exists() && !permille.exists()) return nullptr;
  const char* const description = !permille.exists() ? "GPU clock"
                                  : hertz.exists()   ? "GPU clock and load"
                                                     : "GPU load";
  return make_source(description,
                     [clock = std::move(hertz), load = std::move(permille)](SystemSample& sample) {
                       const auto frequency = clock.read_integer(), part = load.read_integer();
                       if (frequency) sample.clocks_hz.push_back({"gpu", static_cast<double>(*frequency)});
                       if (part) sample.gpu_percent = static_cast<double>(*part) / 10.0;  // in permille
                       return frequency || part;
                     });
}

// The load comes from the activity monitor's counters: the active part of the clock, in kilohertz.
SourcePointer make_memory_clock_source(const fs::path& root) {
  RereadFile clock = memory_clock(root);
  if (!clock.exists()) return nullptr;
  RereadFile active = first_file(root, {"sys/kernel/debug/cactmon/mc_all",  // TX2 to Orin
                                        "sys/kernel/debug/bpmp/debug/actmon/mc_all_avg_activity",
                                        "sys/kernel/actmon_avg_activity/mc_all"});  // Nano, TX1
  const char* const description = active.exists() ? "memory clock and load" : "memory clock";
  return make_source(
      description, [clock = std::move(clock), active = std::move(active)](SystemSample& sample) {
        const auto hertz = clock.read_integer(), kilohertz = active.read_integer();
        if (!hertz) return false;
        sample.clocks_hz.push_back({"emc", static_cast<double>(*hertz)});
        if (kilohertz && *hertz > 0 && *kilohertz >= 0)
          sample.emc_percent = 1e5 * static_cast<double>(*kilohertz) / static_cast<double>(*hertz);
        return true;
      });
}

SourcePointer make_engine_source(const fs::path& root) {
  std::vector<Engine> engines;
  for (const auto& clock : entries(root / "sys/kernel/debug/clk")) {
    const std::string name = clock.filename().string();
    if (!is_engine_name(name)) continue;
    Engine engine{name, RereadFile(clock / "clk_rate"), RereadFile(clock / "clk_enable_count")};
    if (engine.hertz.exists()) engines.push_back(std::move(engine));
  }
  if (engines.empty()) return nullptr;
  std::string description = fmt::format("engines: {}", engines.size());
  return make_source(std::move(description), [engines = std::move(engines)](SystemSample& sample) {
    return read_engines(engines, sample);
  });
}

SourcePointer make_power_mode_source(const fs::path& root) {
  PowerMode mode(root);
  return mode.exists() ? make_source("power mode", std::move(mode)) : nullptr;
}

// Memory of the GPU and other devices by process. It is part of MemTotal − MemFree, but not of any process's
// resident memory.
SourcePointer make_nvmap_source(const fs::path& root) {
  return make_file_source(root / "sys/kernel/debug/nvmap/iovmm/clients", "NvMap by process",
                          [](std::string_view text, SystemSample& sample) {
                            const auto total = read_nvmap_clients(text, sample.processes);
                            if (!sample.nvmap_used) sample.nvmap_used = total;
                            return total.has_value();
                          });
}

}  // namespace headroom::sources
