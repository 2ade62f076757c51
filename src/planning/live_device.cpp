#include "planning/live_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "sources/system_sampler.h"

namespace headroom::planning {
namespace {

// The memory that is left of a limit: the minimum of all samples.
struct MemoryLeft {
  Bytes total;
  std::optional<Bytes> left;
  void add(Bytes now_left) { left = std::min(left.value_or(now_left), std::max(now_left, Bytes{})); }
  Bytes taken() const { return total - left.value_or(total); }
};

}  // namespace

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
    return DeviceProfile{"live",
                         "This control group",
                         group.total,
                         group.taken(),
                         {},
                         false,
                         "the control group of headroom, now",
                         true};
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
  return DeviceProfile{"live", "This machine", machine.total,       machine.taken(),
                       {},     false,          "/proc/meminfo, now"};
}

}  // namespace headroom::planning
