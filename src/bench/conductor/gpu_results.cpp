#include "bench/conductor/gpu_results.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "trace/tracer_environment.h"
#include "types/device_name.h"

namespace headroom::bench {
namespace {

// The larger of load and run peak; absent without the ledger.
std::optional<Bytes> peak_of(const GpuMemory& gpu) { return std::max(gpu.load_peak, gpu.run_peak); }
std::optional<Bytes> peak_on(const ModelResult& model, const std::string& device) {
  for (const GpuMemory& gpu : model.gpu_memory)
    if (gpu.device == device) return peak_of(gpu);
  return std::nullopt;
}

}  // namespace

void add_gpu_warnings(ModelResult& result) {
  for (const GpuMemory& gpu : result.gpu_memory)
    if (const auto peak = peak_of(gpu); gpu.limit && peak > gpu.limit)
      result.warnings.push_back(fmt::format("peak of {} on {}, more than the limit of {}",
                                            format_bytes(*peak), gpu.device, format_bytes(*gpu.limit)));
  for (const GpuMemory& gpu : result.gpu_memory)
    if (result.status == ModelStatus::ok && gpu.refused > 0)
      result.warnings.push_back(fmt::format(
          "{} requests for {} were refused at the limit of {}; the model continued, but it may be slower "
          "than without a limit",
          gpu.refused, gpu.refused_bytes ? format_bytes(*gpu.refused_bytes) : "memory", gpu.device));
  for (const GpuMemory& gpu : result.gpu_memory)
    if (result.status == ModelStatus::ok && !gpu.run_peak)
      result.warnings.push_back(fmt::format("memory on {} is unknown: the preload library {} was not loaded",
                                            gpu.device, trace::gpu_tracer_library().string()));
  if (result.placement && result.placement->on_cpu > 0 && !result.gpu_memory.empty())
    result.warnings.push_back(fmt::format("{} of {} nodes run on the CPU, not on {}: {}",
                                          result.placement->on_cpu,
                                          result.placement->on_cpu + result.placement->on_device,
                                          result.gpu_memory.front().device, result.placement->on_cpu_kinds));
}

std::vector<JointGpuMemory> joint_gpu_memory(const trace::DeviceAccount& account,
                                             const std::vector<unsigned>& ordinals,
                                             const std::vector<ModelResult>& together,
                                             const std::vector<ModelResult>& alone) {
  std::vector<JointGpuMemory> devices;
  for (const unsigned ordinal : ordinals) {
    JointGpuMemory joint;
    joint.device = DeviceName{true, ordinal}.text();
    const std::uint64_t limit = account.limits().bytes[ordinal];
    if (limit != ledger::kNoLimit) joint.limit = Bytes{static_cast<std::int64_t>(limit)};
    // A sum that lacks a model could not be compared with the joint peak.
    std::optional<Bytes> sum = Bytes{};
    bool is_counted = false;  // true if a ledger was loaded
    for (const ModelResult& model : together)
      is_counted = is_counted || peak_on(model, joint.device).has_value();
    if (is_counted) joint.joint_peak = Bytes{static_cast<std::int64_t>(account.peak(ordinal))};
    if (joint.is_over_limit())
      log::error("all at once: peak of {} on {}, more than the limit of {}", format_bytes(*joint.joint_peak),
                 joint.device, format_bytes(*joint.limit));
    for (const ModelResult& model : together) {
      const auto same = [&](const ModelResult& other) { return other.name == model.name; };
      const auto model_alone = std::find_if(alone.begin(), alone.end(), same);
      if (model_alone == alone.end() || model_alone->status != ModelStatus::ok) {
        sum.reset();
        break;
      }
      if (model_alone->settings.device == joint.device) {
        const auto peak = peak_on(*model_alone, joint.device);
        sum = peak ? std::optional(*sum + *peak) : std::nullopt;
      }
      if (!sum) break;
    }
    joint.sum_of_peaks = sum;
    devices.push_back(std::move(joint));
  }
  return devices;
}

}  // namespace headroom::bench
