// The column names that nvidia-smi knows (--help-query-gpu, --help-query-compute-apps), including those of
// older drivers. An unknown name is a typing error. A known column that Headroom does not use is skipped.
#include <algorithm>
#include <array>

#include "base/text.h"
#include "sources/nvidia_smi_reader.h"

namespace headroom::sources {
namespace {

constexpr std::string_view kColumnNames =
    "timestamp driver_version kmd_version count hostname index name gpu_name serial gpu_serial uuid gpu_uuid "
    "persistence_mode addressing_mode compute_mode compute_cap vbios_version gpu_recovery_action "
    "edpp_multiplier fan.speed pstate "
    "pci.bus_id gpu_bus_id pci.domain pci.bus pci.device pci.baseClass pci.subClass pci.device_id "
    "pci.sub_device_id "
    "memory.total memory.used memory.free memory.reserved "
    "utilization.gpu utilization.memory utilization.encoder utilization.decoder utilization.jpeg "
    "utilization.ofa "
    "temperature.gpu temperature.gpu.tlimit temperature.memory "
    "power.management power.draw power.draw.average power.draw.instant power.limit enforced.power.limit "
    "power.default_limit power.min_limit power.max_limit "
    "clocks.current.graphics clocks.gr clocks.current.sm clocks.sm clocks.current.memory clocks.mem "
    "clocks.current.video clocks.video clocks.applications.graphics clocks.applications.gr "
    "clocks.applications.memory clocks.applications.mem clocks.default_applications.graphics "
    "clocks.default_applications.gr clocks.default_applications.memory clocks.default_applications.mem "
    "clocks.max.graphics clocks.max.gr clocks.max.sm clocks.max.memory clocks.max.mem "
    "mig.mode.current mig.mode.pending mig.mode "
    "pid process_name used_memory used_gpu_memory";

// Clock reasons; they had another name until R535.
constexpr std::array<std::string_view, 2> kReasonFamilies{"clocks_event_reasons.",
                                                          "clocks_throttle_reasons."};
constexpr std::string_view kReasonNames =
    "active supported gpu_idle applications_clocks_setting sw_power_cap hw_slowdown hw_thermal_slowdown "
    "hw_power_brake_slowdown sw_thermal_slowdown sync_boost";

// Families that Headroom does not use, and that grow with each driver.
constexpr std::string_view kFamilies =
    "accounting. bbx. c2c. clocks_event_reasons_counters. display_ dramEncryption. driver_model. ecc. "
    "encoder. fabric. gom. gpu.base. gpu.power. gpu_operation_mode. gsp. inforom. module. pcie. "
    "platform. power_smoothing. protected_memory. remapped_rows. retired_pages. vgpu_device_capability. "
    "vgpu_driver_capability.";

const std::vector<std::string>& column_names() {
  static const std::vector<std::string> kAll = [] {
    std::vector<std::string> all;
    for (const std::string_view name : split_words(kColumnNames)) all.emplace_back(name);
    for (const std::string_view reasons : kReasonFamilies)
      for (const std::string_view name : split_words(kReasonNames))
        all.push_back(std::string(reasons) + std::string(name));
    return all;
  }();
  return kAll;
}

}  // namespace

bool is_nvidia_smi_column(std::string_view name) {
  if (std::find(column_names().begin(), column_names().end(), name) != column_names().end()) return true;
  const auto families = split_words(kFamilies);
  return std::any_of(families.begin(), families.end(),
                     [&](std::string_view family) { return name.starts_with(family); });
}

std::string closest_nvidia_smi_column(std::string_view name) {
  // A header has "memory.used [MiB]".
  return closest_match(trim(name.substr(0, name.find('['))), column_names());
}

}  // namespace headroom::sources
