// A model pool at one moment (docs/model-pool.md), and the text in which it tells of itself to whoever
// watches the machine: a file headroom-pool.PID.NAME of /dev/shm. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"

namespace headroom {

struct PoolSample {
  std::string name;
  std::int64_t pid = 0;
  std::string device;  // whose memory the budget is of: "cpu", "cuda:0"
  // By the pool's books; `measured` is the last reading of what the process has.
  Bytes budget, used, resident, loading, unaccounted, stuck, measured;
  // Since the pool was made.
  std::int64_t requests = 0, hits = 0, waits = 0, refusals = 0, loads = 0, load_failures = 0, evictions = 0;
  Nanoseconds load_time, wait_time;
  friend bool operator==(const PoolSample&, const PoolSample&) = default;
};

inline constexpr std::string_view kPoolStatusPrefix = "headroom-pool.";
// Every status has this size: it is written over the one before.
inline constexpr std::size_t kPoolStatusSize = 1024;

// Letters, digits, '_' and '-', at most 48.
bool is_pool_name(std::string_view name);

// `start_ticks` (field 22 of /proc/PID/stat) tells the process from a later one of its number; `sequence`
// differs from text to text and stands at both ends: where they differ it was read while it was written.
std::string pool_status_text(const PoolSample& pool, std::int64_t start_ticks, std::int64_t sequence);

struct PoolStatus {
  PoolSample pool;
  std::int64_t start_ticks = 0;
};
// Nothing where it is no whole status, or tells what no pool has.
std::optional<PoolStatus> parse_pool_status(std::string_view text);

}  // namespace headroom
