// The reader of nvidia-smi's output with any bytes: figures are finite and not negative, and samples have no
// more entries than lines. The bytes before the first zero byte, if any, are the column names.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/text.h"
#include "fuzz.h"
#include "sources/text_samples.h"

namespace {

void check(const std::optional<headroom::Bytes>& bytes) { require(!bytes || bytes->count >= 0); }
void check(const std::optional<double>& number) { require(!number || std::isfinite(*number)); }

void check(const headroom::GpuSample& gpu, std::string_view text) {
  require(gpu.name.size() <= text.size());
  for (const auto& bytes : {gpu.memory_total, gpu.memory_used, gpu.memory_free, gpu.memory_reserved})
    check(bytes);
  for (const auto& number : {gpu.gpu_percent, gpu.memory_percent, gpu.power_watts, gpu.power_limit_watts,
                             gpu.temperature_celsius, gpu.sm_clock_hz})
    check(number);
  for (const headroom::MigInstance& instance : gpu.mig_instances) check(instance.memory_used);
  if (!gpu.processes) return;
  for (const headroom::GpuProcess& process : *gpu.processes) {
    require(process.pid >= 0);
    check(process.used);
  }
}

}  // namespace

void fuzz(std::string_view text) {
  std::vector<std::string> columns;
  if (const std::size_t zero = text.find('\0'); zero != text.npos) {
    for (const std::string_view name : headroom::split(text.substr(0, zero), ',')) columns.emplace_back(name);
    text.remove_prefix(zero + 1);
  }
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  const auto on_sample = [&](headroom::SystemSample& sample) {
    require(sample.gpus.size() <= lines && sample.unknown_tokens.size() <= lines);
    for (const headroom::GpuSample& gpu : sample.gpus) check(gpu, text);
  };
  const auto reader = headroom::sources::make_text_reader("nvidia-smi", columns);
  for (const std::string_view line : headroom::split(text, '\n')) reader->read_line(line, on_sample);
  reader->finish(on_sample);
}
