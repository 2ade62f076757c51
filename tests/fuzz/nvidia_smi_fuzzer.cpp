// read_nvidia_smi with any bytes: results respect the bounds in its header. The bytes before the first zero
// byte, if any, are the column names.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/text.h"
#include "fuzz.h"
#include "sources/nvidia_smi_reader.h"

namespace {

void check(const std::optional<headroom::Bytes>& bytes) { require(!bytes || bytes->count >= 0); }
void check(const std::optional<double>& number) { require(!number || std::isfinite(*number)); }

}  // namespace

void fuzz(std::string_view text) {
  std::vector<std::string> columns;
  if (const std::size_t zero = text.find('\0'); zero != text.npos) {
    for (const std::string_view name : headroom::split(text.substr(0, zero), ',')) columns.emplace_back(name);
    text.remove_prefix(zero + 1);
  }
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  const headroom::sources::SmiOutput output = headroom::sources::read_nvidia_smi(text, columns);
  require(output.gpus.size() <= lines && output.messages.size() <= lines);
  require(output.unparsed_lines >= 0 && output.unparsed_lines <= static_cast<std::int64_t>(lines));
  for (const headroom::GpuSample& gpu : output.gpus) {
    require(gpu.name.size() <= text.size());
    for (const auto& bytes : {gpu.memory_total, gpu.memory_used, gpu.memory_free, gpu.memory_reserved})
      check(bytes);
    for (const auto& number : {gpu.gpu_percent, gpu.memory_percent, gpu.power_watts, gpu.power_limit_watts,
                               gpu.temperature_celsius, gpu.sm_clock_hz})
      check(number);
    for (const headroom::MigInstance& instance : gpu.mig_instances) check(instance.memory_used);
  }
  if (!output.processes) return;
  require(output.processes->size() <= lines);
  for (const auto& row : *output.processes) {
    require(row.process.pid >= 0);
    check(row.process.used);
  }
}
