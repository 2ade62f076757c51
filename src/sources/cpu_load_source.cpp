// The load of all cores together and of each core. An offline core has no line.

#include "base/text.h"
#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

struct Ticks {
  std::int64_t total = 0, idle = 0;
  bool online = false;
};

// "  user nice system idle iowait irq softirq steal guest guest_nice"; guest time is already in user time.
std::optional<Ticks> ticks_of(std::string_view text) {
  Ticks ticks;
  int field = 0;
  for (; field < 8; ++field) {
    const auto value = parse_number<std::int64_t>(take_word(text));
    if (!value) break;  // kernels before 2.6.11 have fewer fields
    ticks.total += *value;
    if (field == 3 || field == 4) ticks.idle += *value;  // idle and iowait
  }
  ticks.online = field >= 4;
  return ticks.online ? std::optional<Ticks>(ticks) : std::nullopt;
}

std::optional<double> load_between(const Ticks& before, const Ticks& now) {
  if (!before.online || !now.online || now.total <= before.total) return std::nullopt;
  const auto total = static_cast<double>(now.total - before.total);
  const auto idle = static_cast<double>(now.idle - before.idle);
  return 100.0 * (total - idle) / total;
}

class CpuLoad {
 public:
  bool operator()(std::string_view text, SystemSample& sample) {
    const Ticks before = all_;
    all_ = {};
    for (Core& core : cores_) core.now.online = false;
    // The core lines come first; the interrupt line after them is long, so stop before it.
    while (text.starts_with("cpu")) read_line(take_line(text).substr(3));
    sample.cpu_percent = load_between(before, all_);
    for (Core& core : cores_) {
      sample.cores.push_back({core.now.online, load_between(core.before, core.now), {}});
      core.before = core.now;
    }
    return all_.online;
  }

 private:
  struct Core {
    Ticks before, now;
  };

  void read_line(std::string_view line) {
    constexpr std::size_t kMostCores = 4096;
    const std::size_t space = std::min(line.find(' '), line.size());
    const auto ticks = ticks_of(line.substr(space));
    if (space == 0) {
      all_ = ticks.value_or(Ticks{});
      return;
    }
    const auto number = parse_number<std::size_t>(line.substr(0, space));
    if (!number || *number >= kMostCores) return;
    if (cores_.size() <= *number) cores_.resize(*number + 1);
    cores_[*number].now = ticks.value_or(Ticks{});
  }

  Ticks all_;
  std::vector<Core> cores_;
};

}  // namespace

SourcePointer make_cpu_load_source(const fs::path& root) {
  return make_file_source(root / "proc/stat", "CPU load", CpuLoad());
}

}  // namespace headroom::sources
