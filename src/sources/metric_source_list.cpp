#include "sources/metric_source.h"

namespace headroom::sources {

const std::vector<MakeMetricSource*>& metric_source_list() {
  static const std::vector<MakeMetricSource*> kSources{
      make_meminfo_source,      make_vmstat_source,          make_pressure_source, make_buddyinfo_source,
      make_zram_source,         make_cgroup_source,          make_cpu_load_source, make_cpu_clock_source,
      make_thermal_source,      make_cpu_temperature_source, make_power_source,    make_gpu_source,
      make_memory_clock_source, make_engine_source,          make_fan_source,      make_power_mode_source,
      make_nvmap_source,        make_kernel_log_source,      make_throttle_source, make_pool_source,
  };
  return kSources;
}

}  // namespace headroom::sources
