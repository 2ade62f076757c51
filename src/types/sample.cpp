#include "types/sample.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

#include "base/text.h"

namespace headroom {
namespace {

constexpr std::string_view kHead = "headroom-pool 1 ";
constexpr std::size_t kLongestPoolName = 48;
constexpr std::int64_t kLargestFigure = std::int64_t{1} << 56;  // 64 PiB, two years

bool belongs_in_a_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

// Calls `field` for every figure with its name, in the order of the text.
template <class Pool, class Field>
void for_each_figure(Pool& pool, const Field& field) {
  field("pid", pool.pid);
  field("budget_bytes", pool.budget.count);
  field("used_bytes", pool.used.count);
  field("resident_bytes", pool.resident.count);
  field("loading_bytes", pool.loading.count);
  field("unaccounted_bytes", pool.unaccounted.count);
  field("stuck_bytes", pool.stuck.count);
  field("measured_bytes", pool.measured.count);
  field("requests", pool.requests);
  field("hits", pool.hits);
  field("waits", pool.waits);
  field("refusals", pool.refusals);
  field("loads", pool.loads);
  field("load_failures", pool.load_failures);
  field("evictions", pool.evictions);
  field("load_ns", pool.load_time.count);
  field("wait_ns", pool.wait_time.count);
}

}  // namespace

void clear(SystemSample& sample) {
  SystemSample fresh;
  const auto keep = [&](auto... lists) {
    ((sample.*lists).clear(), ...);
    ((fresh.*lists = std::move(sample.*lists)), ...);
  };
  using S = SystemSample;
  keep(&S::clock_text, &S::cores, &S::temperatures_celsius, &S::temperature_peaks_celsius, &S::power_watts,
       &S::power_average_watts, &S::power_peak_watts, &S::clocks_hz, &S::engines, &S::fans_rpm,
       &S::fans_percent, &S::power_mode, &S::gpus, &S::processes, &S::pools, &S::kernel_events, &S::other,
       &S::unknown_tokens);
  sample = std::move(fresh);
}

bool is_pool_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestPoolName && std::ranges::all_of(name, belongs_in_a_name);
}

std::string pool_status_text(const PoolSample& pool, std::int64_t start_ticks, std::int64_t sequence) {
  std::string text = fmt::format("{}{}\nname {}\ndevice {}\nstart_ticks {}\n", kHead, sequence, pool.name,
                                 pool.device, start_ticks);
  for_each_figure(
      pool, [&](std::string_view key, std::int64_t value) { text += fmt::format("{} {}\n", key, value); });
  text += fmt::format("end {}\n", sequence);
  text.resize(kPoolStatusSize, '\n');
  return text;
}

std::optional<PoolStatus> parse_pool_status(std::string_view text) {
  if (!text.starts_with(kHead)) return std::nullopt;
  PoolStatus status;
  PoolSample& pool = status.pool;
  std::string_view sequence, end;
  bool is_sound = true;
  std::size_t figures = 0;
  for (const std::string_view line : split(text, '\n')) {
    const auto words = split_words(line);
    if (words.empty()) continue;
    if (words[0] == "headroom-pool" && words.size() == 3) sequence = words[2];
    if (words.size() != 2) continue;
    if (words[0] == "end") end = words[1];
    if (words[0] == "name") pool.name = words[1];
    if (words[0] == "device") pool.device = words[1];
    const auto value = parse_number<std::int64_t>(words[1]);
    if (words[0] == "start_ticks") status.start_ticks = value.value_or(0);
    for_each_figure(pool, [&](std::string_view key, std::int64_t& into) {
      if (words[0] != key) return;
      is_sound = is_sound && value && *value >= 0 && *value < kLargestFigure;
      into = value.value_or(0);
      ++figures;
    });
  }
  std::size_t known = 0;
  for_each_figure(pool, [&](std::string_view, std::int64_t&) { ++known; });
  const bool has_device = !pool.device.empty() && pool.device.size() <= kLongestPoolName;
  if (!is_sound || figures != known || sequence.empty() || sequence != end || !is_pool_name(pool.name) ||
      !has_device || pool.pid == 0)
    return std::nullopt;
  return status;
}

}  // namespace headroom
