#include "types/sample.h"

#include <utility>

namespace headroom {

void clear(SystemSample& sample) {
  SystemSample fresh;
  const auto keep = [](auto& list, auto& into) {
    list.clear();
    into = std::move(list);
  };
  keep(sample.clock_text, fresh.clock_text);
  keep(sample.cores, fresh.cores);
  keep(sample.temperatures_celsius, fresh.temperatures_celsius);
  keep(sample.temperature_peaks_celsius, fresh.temperature_peaks_celsius);
  keep(sample.power_watts, fresh.power_watts);
  keep(sample.power_average_watts, fresh.power_average_watts);
  keep(sample.power_peak_watts, fresh.power_peak_watts);
  keep(sample.clocks_hz, fresh.clocks_hz);
  keep(sample.engines, fresh.engines);
  keep(sample.fans_rpm, fresh.fans_rpm);
  keep(sample.fans_percent, fresh.fans_percent);
  keep(sample.power_mode, fresh.power_mode);
  keep(sample.gpus, fresh.gpus);
  keep(sample.processes, fresh.processes);
  keep(sample.pools, fresh.pools);
  keep(sample.kernel_events, fresh.kernel_events);
  keep(sample.other, fresh.other);
  keep(sample.unknown_tokens, fresh.unknown_tokens);
  sample = std::move(fresh);
}

std::string_view name_of(KernelEventKind kind) {
  switch (kind) {
    case KernelEventKind::oom_kill:
      return "oom_kill";
    case KernelEventKind::nvmap_error:
      return "nvmap_error";
    case KernelEventKind::gpu_error:
      return "gpu_error";
  }
  return "oom_kill";
}

}  // namespace headroom
