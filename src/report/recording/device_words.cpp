#include "report/recording/device_words.h"

#include <fmt/format.h>

#include "base/display_width.h"

namespace headroom::report {

std::string_view words_for(DeviceMemoryKind kind) {
  switch (kind) {
    case DeviceMemoryKind::device:
      return "device memory (cuMemAlloc)";
    case DeviceMemoryKind::array:
      return "arrays and mipmaps";
    case DeviceMemoryKind::managed:
      return "managed memory";
    case DeviceMemoryKind::physical:
      return "physical memory (cuMemCreate)";
    case DeviceMemoryKind::pool:
      return "allocated from pools";
    case DeviceMemoryKind::graph:
      return "memory nodes of graphs";
    case DeviceMemoryKind::pinned_host:
      return "pinned host memory";
    case DeviceMemoryKind::registered_host:
      return "registered host memory (cuMemHostRegister)";
    case DeviceMemoryKind::imported:
      return "imported from other processes and APIs";
    case DeviceMemoryKind::reservation:
      return "reserved addresses";
    case DeviceMemoryKind::mapping:
      return "mapped addresses";
    case DeviceMemoryKind::pool_reserved:
      return "reserved by pools";
    case DeviceMemoryKind::overhead:
      return "modules, by difference";
    case DeviceMemoryKind::graph_reserved:
      return "reserved for graphs";
    case DeviceMemoryKind::context:
      return "contexts, by difference";
    case DeviceMemoryKind::driver_growth:
      return "other driver memory, by difference";
  }
  return "";
}

const recording::Device* find_device(const RecordingReport& report, std::uint32_t ordinal) {
  for (const recording::Device& device : report.info.devices)
    if (device.ordinal == ordinal) return &device;
  return nullptr;
}

std::string name_of_device(const RecordingReport& report, std::uint32_t ordinal) {
  const recording::Device* const device = find_device(report, ordinal);
  const std::string number = fmt::format("GPU {}", ordinal);
  return device == nullptr || device->name.empty() ? number : number + ", " + device->name;
}

std::string command_of(const RecordingReport& report, const attribution::DeviceProcess& process) {
  for (const ProcessFigures& other : report.others)
    if (other.pid == process.pid && !process.is_elsewhere) return other.command;
  return process.name;
}

std::string words_for_process(const RecordingReport& report, const attribution::DeviceProcess& process) {
  if (process.is_elsewhere) return fmt::format("process {} in another container", process.pid);
  const std::string command = command_of(report, process);
  return command.empty() ? fmt::format("process {}", process.pid)
                         : fmt::format("process {} ({})", process.pid, without_control_characters(command));
}

std::string_view words_for_unknown(const attribution::DeviceRest& rest) {
  if (rest.names_none) return "held by other processes, pools, graphs or shared granules";
  return rest.has_more_processes ? "held by more processes" : "released by other processes in the meantime";
}

std::string flag_of_device_limits(const recording::RecordingInfo& info) {
  std::string limits;
  for (const recording::Device& device : info.devices)
    if (device.limit_bytes)
      limits += fmt::format("{}{}={}", limits.empty() ? "" : ",", device.ordinal,
                            exact_size({static_cast<std::int64_t>(*device.limit_bytes)}));
  return limits.empty() ? "" : fmt::format("--gpu-mem-limit {} ", limits);
}

std::string path_of_layer(const RecordingReport& report, std::uint32_t index) {
  return index < report.analysis.layers.size() ? report.analysis.layers[index].path : "";
}

std::string name_of_layer(const RecordingReport& report, std::uint32_t index) {
  const std::string path = path_of_layer(report, index);
  return path.empty() ? "(outside of any layer)" : path;
}

bool tells_layers(const std::vector<attribution::DeviceShare>& layers) {
  return !layers.empty() && (layers.size() > 1 || layers[0].index != 0);
}

}  // namespace headroom::report
