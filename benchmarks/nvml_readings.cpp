// Reads the GPUs with NVML and measures the cost, as JSON: nvml_readings READINGS. benchmarks/gpu_metrics.py
// compares the result with nvidia-smi.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "base/json.h"
#include "sources/nvml_device.h"
#include "sources/nvml_source.h"
#include "sources/process_table.h"

namespace {
using namespace headroom;
namespace nvml = headroom::sources::nvml;

Json spread_of(std::vector<std::int64_t> times) {
  std::sort(times.begin(), times.end());
  const auto rank = [&](double share) {
    return times[std::min(times.size() - 1,
                          static_cast<std::size_t>(share * static_cast<double>(times.size())))];
  };
  return {{"n", times.size()},      {"min_ns", times.front()}, {"p5_ns", rank(0.05)},
          {"median_ns", rank(0.5)}, {"p95_ns", rank(0.95)},    {"p99_ns", rank(0.99)},
          {"max_ns", times.back()}};
}

Json spread_of(int times, const std::function<void()>& work) {
  std::vector<std::int64_t> taken;
  for (int i = 0; i < times; ++i) {
    const Nanoseconds start = monotonic_now();
    work();
    taken.push_back((monotonic_now() - start).count);
  }
  return spread_of(std::move(taken));
}

Json figures_of(const GpuSample& gpu) {
  Json figures{{"name", gpu.name}, {"uuid", gpu.uuid}, {"pci_bus_id", gpu.pci_bus_id}, {"lost", gpu.lost}};
  set_if(figures, "index", gpu.index);
  set_if(figures, "memory_total_bytes", gpu.memory_total);
  set_if(figures, "memory_used_bytes", gpu.memory_used);
  set_if(figures, "memory_free_bytes", gpu.memory_free);
  set_if(figures, "memory_reserved_bytes", gpu.memory_reserved);
  set_if(figures, "gpu_percent", gpu.gpu_percent);
  set_if(figures, "memory_percent", gpu.memory_percent);
  set_if(figures, "encoder_percent", gpu.encoder_percent);
  set_if(figures, "decoder_percent", gpu.decoder_percent);
  set_if(figures, "graphics_clock_hz", gpu.graphics_clock_hz);
  set_if(figures, "sm_clock_hz", gpu.sm_clock_hz);
  set_if(figures, "memory_clock_hz", gpu.memory_clock_hz);
  set_if(figures, "power_watts", gpu.power_watts);
  set_if(figures, "power_limit_watts", gpu.power_limit_watts);
  set_if(figures, "temperature_celsius", gpu.temperature_celsius);
  set_if(figures, "throttled", gpu.throttled);
  figures["throttle_reasons"] = gpu.throttle_reasons;
  figures["clock_limits"] = gpu.clock_limits;
  set_if(figures, "mig_enabled", gpu.mig_enabled);
  if (!gpu.processes) return figures;
  figures["processes"] = Json::array();
  for (const GpuProcess& process : *gpu.processes) {
    Json entry{{"pid", process.pid}};
    set_if(entry, "used_bytes", process.used);
    figures["processes"].push_back(std::move(entry));
  }
  return figures;
}

ProcessMemory own_memory() {
  return sources::read_process_memory(::getpid(), sources::ProcessDetail::status);
}

// Each call of a reading alone, on the first GPU.
Json cost_of_calls(const nvml::Library& library, int times) {
  const nvml::Functions& calls = library.functions();
  nvml::Device device = nullptr;
  if (calls.device_by_index(0, &device) != nvml::kSuccess) return Json::object();
  unsigned number = 0, other = 0;
  unsigned long long reasons = 0;
  nvml::MemoryV2 memory{nvml::kMemoryV2Version, 0, 0, 0, 0};
  nvml::Utilization load{};
  nvml::ProcessReader processes(library);
  Json costs = Json::object();
  const auto add = [&](const char* name, const std::function<void()>& call) {
    costs[name] = spread_of(times, call);
  };
  if (calls.memory_v2 != nullptr) add("memory", [&] { calls.memory_v2(device, &memory); });
  add("utilization", [&] { calls.utilization(device, &load); });
  if (calls.encoder_utilization != nullptr)
    add("encoder", [&] { calls.encoder_utilization(device, &number, &other); });
  if (calls.decoder_utilization != nullptr)
    add("decoder", [&] { calls.decoder_utilization(device, &number, &other); });
  add("clock, one of three", [&] { calls.clock(device, nvml::kSmClock, &number); });
  add("power", [&] { calls.power(device, &number); });
  if (calls.power_limit != nullptr) add("power limit", [&] { calls.power_limit(device, &number); });
  add("temperature", [&] { calls.temperature(device, nvml::kGpuTemperature, &number); });
  if (calls.clock_reasons != nullptr) add("clock reasons", [&] { calls.clock_reasons(device, &reasons); });
  if (calls.mig_mode != nullptr) add("MIG mode", [&] { calls.mig_mode(device, &number, &other); });
  add("processes, all three lists", [&] { processes.read(device); });
  return costs;
}

}  // namespace

int main(int count, char** arguments) {
  const int times = count > 1 ? std::atoi(arguments[1]) : 1000;
  const ProcessMemory before = own_memory();
  const Nanoseconds start = monotonic_now();
  auto source = sources::open_nvml_source(nvml::Library::kFileName);
  const Nanoseconds opened = monotonic_now() - start;
  if (source == nullptr || times < 1) {
    std::fprintf(stderr, "nvml_readings: NVML reports no GPU, or the number of readings is not positive\n");
    return 1;
  }
  SystemSample sample;
  source->read(sample);
  const Nanoseconds first = monotonic_now() - start - opened;
  Json document{{"pid", ::getpid()}, {"open_ns", opened.count}, {"first_reading_ns", first.count}};
  document["resident_growth_bytes"] =
      (own_memory().rss.value_or(Bytes{}) - before.rss.value_or(Bytes{})).count;
  document["threads_started"] = own_memory().threads.value_or(0) - before.threads.value_or(0);
  document["gpus"] = Json::array();
  for (const GpuSample& gpu : sample.gpus) document["gpus"].push_back(figures_of(gpu));
  document["reading"] = spread_of(times, [&] {
    SystemSample again;
    source->read(again);
  });
  if (const auto library = nvml::Library::open()) {
    document["driver"] = (*library)->driver_version();
    document["calls"] = cost_of_calls(**library, times);
  }
  std::fputs(to_text(document).c_str(), stdout);
  return 0;
}
