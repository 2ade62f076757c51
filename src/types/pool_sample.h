// The state of a model pool at one time (docs/model-pool.md), and the text that publishes it for monitors:
// the file /dev/shm/headroom-pool.PID.NAME. Plain data.
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
  std::string device;  // the device whose memory the budget limits: "cpu", "cuda:0"
  // The account of the pool (pool/memory_account.h): `resident` and `loading` are the charges of loaded
  // models and of the load in progress; `measured` is the last measured memory of the process.
  Bytes budget, used, resident, loading, unaccounted, stuck, measured;
  // Totals since the pool was created.
  std::int64_t requests = 0, hits = 0, waits = 0, refusals = 0, loads = 0, load_failures = 0, evictions = 0;
  Nanoseconds load_time, wait_time;
  friend bool operator==(const PoolSample&, const PoolSample&) = default;
};

inline constexpr std::string_view kPoolStatusPrefix = "headroom-pool.";
// Every status text has this size, because it overwrites the previous one.
inline constexpr std::size_t kPoolStatusSize = 1024;

// Letters, digits, '_' and '-', at most 48.
bool is_pool_name(std::string_view name);

// `start_ticks` (field 22 of /proc/PID/stat) distinguishes the process from a later one with the same PID.
// `sequence` changes with every text and stands at both ends: if they differ, the text was read during a
// write.
std::string pool_status_text(const PoolSample& pool, std::int64_t start_ticks, std::int64_t sequence);

struct PoolStatus {
  PoolSample pool;
  std::int64_t start_ticks = 0;
};
// Returns nothing if the text is incomplete or contains impossible values.
std::optional<PoolStatus> parse_pool_status(std::string_view text);

}  // namespace headroom
