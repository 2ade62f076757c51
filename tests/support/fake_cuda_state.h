// A CUDA driver without a GPU: a libcuda.so.1 with the names, versions and rules of the real one, whose
// memory is numbers from a counter. It keeps account of what it gave out, by itself: fake_cuda_peak() is the
// truth that a limit is held to.
//
// Environment: FAKE_CUDA_TOTAL (bytes of each device, 64 GiB), FAKE_CUDA_DEVICES (2), FAKE_CUDA_INTEGRATED,
// FAKE_CUDA_GRANULE (bytes of which fake_cuda_used() counts whole ones, 0), FAKE_CUDA_CONTEXT (bytes of a
// device's primary context, 0: beside fake_cuda_peak()), CUDA_VISIBLE_DEVICES (numbers of one digit: which
// are shown, and in which order), FAKE_CUDA_PREEMPT (one call in so many is interrupted for some
// microseconds, before or after its work, so that threads meet in every order).
//
// Between fake_cuda_busy(1) and a call that waits, what is freed in the order of a stream and instances of
// graphs that are destroyed stay: the device has not come to them.
//
// Here is what its parts share: the devices' memory, and who has it. fake_cuda_devices.cpp has devices,
// contexts and streams, fake_cuda_memory.cpp memory by pointer, handle and array, fake_cuda_pools.cpp pools
// and graphs, fake_cuda_lookup.cpp the ways to find all that.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "tracer/driver_types.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace fake_cuda {

using namespace headroom::tracer::driver;

constexpr Result kNotInitialized = 3, kInvalidContext = 201, kNotFoundHere = 500, kNoCapture = 900,
                 kCaptureInvalidated = 901;
constexpr unsigned kMost = 8;

struct Block {
  unsigned device = 0;
  std::uint64_t bytes = 0;
  Opaque pool = nullptr;  // it is a part of
  Opaque graph = nullptr;
  Opaque context = nullptr;
  bool is_live = true;  // of a graph: a launch made it, and nobody has freed it since
  bool is_managed = false;
};
struct Physical {
  unsigned device = 0;
  bool of_device = true;
  std::uint64_t bytes = 0;
  int handles = 1, mappings = 0;
  bool is_shared = false;  // by a descriptor, which is never closed
};
// Takes memory of its device in steps, and keeps it until it is told to trim or its last allocation is freed
// after it was destroyed.
struct Pool {
  unsigned device = 0;
  std::uint64_t used = 0, reserved = 0;
  bool is_destroyed = false;
};
constexpr std::uint64_t kPoolStep = 32 << 20;  // as on an H200
// Its nodes have addresses from the beginning, and memory from the first launch on. It keeps that, and what
// is live when it is destroyed stays until it is freed.
struct Node {
  std::vector<Opaque> dependencies;
  Opaque graph = nullptr;
};
struct Graph {
  struct Allocation {
    unsigned device = 0;
    std::uint64_t bytes = 0;
    Opaque made_by = nullptr, freed_by = nullptr;
  };
  std::map<std::uint64_t, Allocation> allocations;  // by address, those that a node frees too
  int users = 1;
  bool has_run = false;
  std::vector<std::uint64_t> frees;  // what other graphs made
};
struct Context {
  unsigned device = 0;
  int users = 0;
};

inline std::mutex mutex;
inline bool is_initialized = false;
inline std::uint64_t next_number = 0x7f0000000000;
inline std::uint64_t in_use[kMost] = {}, peak[kMost] = {};
inline std::map<std::uint64_t, Block> blocks;
inline std::map<std::uint64_t, Physical> handles;
inline std::map<std::uint64_t, std::pair<std::uint64_t, Handle>> mappings;  // by address: bytes, handle
inline std::map<std::uint64_t, std::map<unsigned, Handle>> tiles;           // of arrays, by column
inline std::map<int, Handle> descriptors;
inline std::map<Opaque, Pool> pools;
inline std::map<Opaque, Graph> graphs;
inline std::map<Opaque, Node> nodes;
inline std::map<Opaque, Opaque> instances;
inline std::map<Opaque, Opaque> streams;  // and their contexts
inline Context primary[kMost];
inline std::set<Opaque> own_contexts;
inline std::map<Opaque, Context*> green_contexts;
inline Opaque default_pools[kMost] = {};
inline thread_local Opaque current = nullptr;
inline Opaque captured_stream = nullptr, captured_graph = nullptr;
inline Opaque last_captured_node = nullptr;
inline bool capture_is_invalid = false;
inline bool is_busy = false;
inline std::vector<std::function<void()>> pending;  // what the device has yet to come to
inline std::uint64_t kept_for_graphs[kMost] = {};   // that no graph uses, until the device is told to trim
inline std::uint64_t queries = 0;

inline std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}
inline std::uint64_t total() { return setting("FAKE_CUDA_TOTAL", std::uint64_t{64} << 30); }
inline const char* shown() { return std::getenv("CUDA_VISIBLE_DEVICES"); }
inline unsigned device_count() {
  if (shown() != nullptr) return static_cast<unsigned>((std::strlen(shown()) + 1) / 2);
  return static_cast<unsigned>(setting("FAKE_CUDA_DEVICES", 2));
}
// The machine's number of a device.
inline int number_on_machine(int device) {
  return shown() != nullptr && device >= 0 && static_cast<unsigned>(device) < device_count()
             ? shown()[2 * device] - '0'
             : device;
}

// Where another thread may come in between: at the begin and the end of a call.
struct Preemption {
  static void happen() {
    static const std::uint64_t kOneIn = setting("FAKE_CUDA_PREEMPT", 0);
    static std::atomic<std::uint64_t> state{88172645463325252u};
    if (kOneIn == 0) return;
    std::uint64_t x = state.load(std::memory_order_relaxed);
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    state.store(x, std::memory_order_relaxed);
    if (x % kOneIn == 0) ::usleep(static_cast<useconds_t>(x / kOneIn % 64));
  }
  Preemption() { happen(); }
  ~Preemption() { happen(); }
};

inline void finish_pending() {
  is_busy = false;
  auto all = std::move(pending);
  pending.clear();
  for (const auto& one : all) one();
}

// Whether the graph orders `later` behind `earlier`.
inline bool comes_behind(Opaque later, Opaque earlier) {
  std::vector<Opaque> open{later};
  std::set<Opaque> seen;
  while (!open.empty()) {
    const Opaque node = open.back();
    open.pop_back();
    if (node == earlier) return true;
    for (Opaque const before : nodes[node].dependencies)
      if (seen.insert(before).second) open.push_back(before);
  }
  return false;
}

// The most that can be live at once on the device: the heaviest set of allocations of which no two are kept
// apart by the graph's order. By trying all sets, so of 16 at most; of more their sum.
inline std::uint64_t need_of(const Graph& graph, unsigned device) {
  std::vector<const Graph::Allocation*> all;
  std::uint64_t sum = 0;
  for (const auto& [address, one] : graph.allocations)
    if (one.device == device) all.push_back(&one), sum += one.bytes;
  if (all.size() > 16) return sum;
  std::vector<unsigned> apart(all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < all.size(); ++j)
      if (all[i]->freed_by != nullptr && comes_behind(all[j]->made_by, all[i]->freed_by))
        apart[i] |= 1u << j, apart[j] |= 1u << i;
  std::uint64_t most = 0;
  for (unsigned set = 0; set < 1u << all.size(); ++set) {
    std::uint64_t bytes = 0;
    bool is_possible = true;
    for (std::size_t i = 0; i < all.size() && is_possible; ++i) {
      if ((set >> i & 1) == 0) continue;
      bytes += all[i]->bytes;
      is_possible = (apart[i] & set) == 0;
    }
    if (is_possible && bytes > most) most = bytes;
  }
  return most;
}

inline std::uint64_t number(std::uint64_t bytes) {
  const std::uint64_t result = next_number;
  next_number += (bytes + 511) / 512 * 512 + 512;
  return result;
}
inline Opaque handle() { return reinterpret_cast<Opaque>(number(8)); }

inline bool grow(unsigned device, std::uint64_t bytes) {
  if (bytes > total() - in_use[device]) return false;
  in_use[device] += bytes;
  if (in_use[device] > peak[device]) peak[device] = in_use[device];
  return true;
}
inline unsigned current_device() { return static_cast<Context*>(current)->device; }

inline void give_back(const Block& block) {
  if (block.graph != nullptr)
    kept_for_graphs[block.device] += block.bytes;
  else if (block.pool == nullptr)
    in_use[block.device] -= block.bytes;
  if (block.pool == nullptr) return;
  Pool& pool = pools[block.pool];
  pool.used -= block.bytes;
  if (!pool.is_destroyed || pool.used > 0) return;
  in_use[pool.device] -= pool.reserved;
  pools.erase(block.pool);
}

}  // namespace fake_cuda
