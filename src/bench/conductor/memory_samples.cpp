#include "bench/conductor/memory_samples.h"

#include <algorithm>

namespace headroom::bench {
namespace {

constexpr std::size_t kSeriesPoints = 600;

}  // namespace

bool is_watched(const limits::MemoryLimit* limit) {
  return limit != nullptr && limit->bytes() > Bytes{} && limit->mechanism() != LimitMechanism::cgroup_v1 &&
         limit->mechanism() != LimitMechanism::cgroup_v2;
}

void MemorySamples::begin_phase(std::optional<Bytes> data) {
  peak.reset();
  add_data(data);
}

void MemorySamples::add_data(std::optional<Bytes> data) {
  if (data) data_peak = std::max(data_peak.value_or(*data), *data);
}

void MemorySamples::add_peaks(Bytes resident, std::optional<Bytes> data, std::optional<Bytes> file_backed) {
  if (file_backed) file_backed_peak = std::max(file_backed_peak.value_or(*file_backed), *file_backed);
  add_data(data);
  peak = std::max(peak.value_or(resident), resident);
}

void MemorySamples::add_share(Bytes pss, bool is_of_run) {
  pss_peak = std::max(pss_peak.value_or(pss), pss);
  if (is_of_run) pss_run_peak = std::max(pss_run_peak.value_or(pss), pss);
}

void MemorySamples::add(Nanoseconds time, const ProcessMemory& sample, bool is_of_run,
                        const limits::MemoryLimit* limit) {
  const Bytes resident = sample.rss.value_or(Bytes{});
  if (is_of_run) {
    run_sum_ += static_cast<double>(resident.count);
    ++run_samples_;
    run_peak = std::max(run_peak.value_or(resident), resident);
  }
  if (is_watched(limit)) {
    const auto counted = limit->mechanism() == LimitMechanism::rlimit_data ? sample.data : sample.rss;
    if (counted && *counted > limit->bytes()) ++violations;
  }
  // The series has a bounded number of points. When it is full, every second point is removed and the
  // sampling rate is halved.
  if (++passed_over_ < stride_) return;
  passed_over_ = 0;
  series.push_back({time, resident});
  if (series.size() < kSeriesPoints) return;
  for (std::size_t i = 0; 2 * i < series.size(); ++i) series[i] = series[2 * i];
  series.resize((series.size() + 1) / 2);
  stride_ *= 2;
}

std::optional<Bytes> MemorySamples::run_mean() const {
  if (run_samples_ == 0) return std::nullopt;
  return Bytes{static_cast<std::int64_t>(run_sum_ / static_cast<double>(run_samples_))};
}

}  // namespace headroom::bench
