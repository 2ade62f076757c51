#include "sources/nvidia_smi_reader.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "base/utf8.h"

namespace headroom::sources {

namespace {

constexpr const char* kFixDriver =
    "check that the driver is installed and loaded on that machine (sudo modprobe nvidia); after a driver "
    "update, "
    "restart the machine";
constexpr const char* kFixLostGpu = "check sudo dmesg for the reason (Xid), then restart that machine";
constexpr const char* kFixRights = "run nvidia-smi as a member of the groups video and render, or as root";
constexpr const char* kFixAny = "fix this on the machine that printed it, then print it again";

// Messages that nvidia-smi and its libraries print instead of figures, in lower case.
struct Message {
  std::string_view words;
  const char* fix;
};
constexpr std::array<Message, 9> kMessages{
    {{"no devices were found",
      "check that the machine has a GPU (lspci | grep -i nvidia); start a container with "
      "docker run --gpus all"},
     {"unable to determine the device handle", kFixLostGpu},
     {"fallen off the bus", kFixLostGpu},
     {"nvrmmeminitnvmap failed", kFixRights},
     {"insufficient permissions to", kFixRights},
     {"nvidia-smi: command not found",
      "on older Jetsons without nvidia-smi, use tegrastats: --from tegrastats:FILE"},
     {"nvidia-smi has failed", kFixDriver},
     {"failed to initialize nvml", kFixDriver},
     {"version mismatch", kFixDriver}}};

struct Unit {
  std::string_view name;
  smi::Quantity quantity;
  double factor;
};
constexpr std::array<Unit, 9> kUnits{{{"B", smi::Quantity::bytes, 1},
                                      {"KiB", smi::Quantity::bytes, 1024},
                                      {"MiB", smi::Quantity::bytes, 1048576},
                                      {"GiB", smi::Quantity::bytes, 1073741824},
                                      {"%", smi::Quantity::percent, 1},
                                      {"W", smi::Quantity::watts, 1},
                                      {"mW", smi::Quantity::watts, 1e-3},
                                      {"MHz", smi::Quantity::hertz, 1e6},
                                      {"C", smi::Quantity::celsius, 1}}};

const Unit* unit_of(std::string_view name) {
  const auto* const known = std::ranges::find_if(kUnits, [&](const Unit& unit) { return unit.name == name; });
  return known == kUnits.end() ? nullptr : known;
}

struct NumberAndUnit {
  double number;
  std::string_view unit;  // empty: none is given
};

// Nothing if the text does not begin with a finite number.
std::optional<NumberAndUnit> number_and_unit(std::string_view text) {
  text = trim(text);
  const std::size_t end = std::min(text.find_first_not_of("+-.,0123456789"), text.size());
  std::string digits(text.substr(0, end));
  std::ranges::replace(digits, ',', '.');  // a decimal comma
  const auto number = parse_number<double>(digits);
  if (!number || !std::isfinite(*number)) return std::nullopt;
  return NumberAndUnit{*number, trim(text.substr(end))};
}

}  // namespace

namespace smi {

bool is_lost(std::string_view text) {
  return equals_ignoring_case(text, "[GPU is lost]") || equals_ignoring_case(text, "[GPU requires reset]");
}

bool is_absent(std::string_view text) {
  constexpr std::array<std::string_view, 7> kWords{"N/A",  "Not Supported", "ERR!",         "Unknown Error",
                                                   "None", "Not Found",     "Not Available"};
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') return true;  // "[Not Supported]"
  return std::ranges::any_of(kWords, [&](std::string_view word) { return equals_ignoring_case(text, word); });
}

std::optional<double> figure(std::string_view text, Quantity quantity, std::string_view unit) {
  const auto parts = number_and_unit(text);
  if (!parts) return std::nullopt;
  const Unit* const known = unit_of(parts->unit.empty() ? unit : parts->unit);
  if (known == nullptr || known->quantity != quantity) return std::nullopt;
  const double value = parts->number * known->factor;
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<Bytes> bytes_figure(std::string_view text, std::string_view unit) {
  const auto count = figure(text, Quantity::bytes, unit);
  if (!count || *count < 0 || *count > 0x1p62) return std::nullopt;
  return Bytes{static_cast<std::int64_t>(*count)};
}

bool is_figure(std::string_view text) {
  const auto parts = number_and_unit(text);
  return parts && (parts->unit.empty() || unit_of(parts->unit) != nullptr);
}

std::string_view without_quotes(std::string_view line, std::string& buffer) {
  if (!line.starts_with('"')) return line;
  buffer = line;
  std::erase(buffer, '"');
  return buffer;
}

std::optional<ParseProblem> message_of(std::string_view line) {
  constexpr int kMessageColumns = 160;  // the driver's longest message has 143
  const std::string lower = to_lower(line);
  const auto* const known = std::ranges::find_if(
      kMessages, [&](const Message& message) { return lower.find(message.words) != std::string::npos; });
  const bool is_known = known != kMessages.end();
  if (!is_known && !lower.starts_with("warning:") && !lower.starts_with("error:")) return std::nullopt;
  return ParseProblem{"nvidia-smi printed '" + fit_to_width(line, kMessageColumns) + "'",
                      is_known ? known->fix : kFixAny};
}

}  // namespace smi

// The column names that nvidia-smi knows (--help-query-gpu, --help-query-compute-apps), including those of
// older drivers. An unknown name is a typing error. A known column that Headroom does not use is skipped.

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
  if (std::ranges::find(column_names(), name) != column_names().end()) return true;
  const auto families = split_words(kFamilies);
  return std::ranges::any_of(families, [&](std::string_view family) { return name.starts_with(family); });
}

std::string closest_nvidia_smi_column(std::string_view name) {
  // A header has "memory.used [MiB]".
  return closest_match(trim(name.substr(0, name.find('['))), column_names());
}

}  // namespace headroom::sources
