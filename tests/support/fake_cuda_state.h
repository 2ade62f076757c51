// A fake CUDA driver: a libcuda.so.1 with the names, versions and rules of the real one, but without a GPU.
// Its addresses are numbers from a counter. It counts its own allocations: tests compare a limit with
// fake_cuda_peak().
//
// Environment (default in parentheses):
// - FAKE_CUDA_INTEGRATED: the devices are integrated
// - FAKE_CUDA_GRANULE: bytes of a granule for memory by pointer and arrays; smaller allocations share one
//   (0: no granules)
// - FAKE_CUDA_CONTEXT: bytes of each context (0); fake_cuda_peak() does not include them
// - FAKE_CUDA_MANAGED: error code that answers requests for managed memory
// - CUDA_VISIBLE_DEVICES: which devices are visible, in which order; numbers of one digit
// - FAKE_CUDA_PREEMPT: one call in so many sleeps up to 63 µs before or after its work, so that calls of
//   threads overlap in every order
// - FAKE_CUDA_GRAPH_STEP: bytes of the unit in which a running graph gets memory (32 MiB)
// - FAKE_CUDA_MOST: if a device exceeds so many bytes, the program prints the stack and exits with code 77
// - FAKE_CUDA_LEDGER_SLACK: the same if the driver has allocated more than the ledger has charged, by more
//   than so many bytes
//
// Between fake_cuda_busy(1) and a synchronization, stream-ordered frees and destroyed graph execs stay
// pending, as on a busy device.
//
// This header has the state that the files share: the devices' memory, and its owners.
// - fake_cuda_devices.cpp: devices, contexts and streams
// - fake_cuda_memory.cpp: memory by pointer, handle and array
// - fake_cuda_pools.cpp: pools and graphs
// - fake_cuda_lookup.cpp: functions that look up other functions
#pragma once

#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "ledger/device_query.h"
#include "types/cuda_driver_types.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace fake_cuda {

using namespace headroom::cuda;
using Result = Code;

constexpr Result kNotInitialized = 3, kInvalidContext = 201, kNoCapture = 900, kCaptureInvalidated = 901;
constexpr unsigned kMaxDevices = 8;

struct Block {
  unsigned device = 0;
  std::uint64_t bytes = 0;
  Opaque pool = nullptr;   // the pool that it is from, if any
  Opaque graph = nullptr;  // the graph that it is from, if any
  Opaque context = nullptr;
  bool is_live = true;  // for a graph: allocated by a launch and not freed since
  bool is_managed = false;
  std::uint64_t device_bytes = 0;  // bytes used on the device; 0: `bytes`
  std::uint64_t granule = 0;       // address of its granule; 0: none
  bool is_shared = false;          // exported to another process
};
struct Granule {
  Opaque context = nullptr;  // the only context that allocates in it
  unsigned device = 0;
  std::uint64_t used = 0, live = 0;
};
struct Physical {
  unsigned device = 0;
  bool of_device = true;
  std::uint64_t bytes = 0;
  int handles = 1, mappings = 0;
  bool is_shared = false;  // exported as a descriptor, which is never closed
  // The value can be reused after its release. False for handles that threads may keep using: a ledger could
  // not know which memory such a value means.
  bool reuses_value = false;
};
// A pool allocates from its device in steps. It keeps the memory until a trim, or until it is destroyed and
// has no allocations left.
struct Pool {
  unsigned device = 0;
  std::uint64_t used = 0, reserved = 0;
  std::uint64_t shared = 0;  // freed here, but exported
  bool is_destroyed = false;
};
constexpr std::uint64_t kPoolStep = 32 << 20;  // as on an H200
struct Node {
  std::vector<Opaque> dependencies;
  Opaque graph = nullptr;
};
// A graph's nodes have addresses from the start, and memory from the first launch on. The graph keeps that
// memory, in whole steps. Memory that is live when the graph is destroyed stays until it is freed. A new
// graph reuses the handle of a destroyed one, even while an exec still has its memory.
struct Graph {
  struct Allocation {
    unsigned device = 0;
    std::uint64_t bytes = 0;
    Opaque made_by = nullptr, freed_by = nullptr;
    std::uint64_t number = 0;  // order in which the nodes were added
  };
  std::map<std::uint64_t, Allocation> allocations;  // by address, including those that a node frees
  int users = 1;
  bool has_run = false;
  std::uint64_t need[kMaxDevices] = {};  // set by the first launch
  unsigned running = 0;                  // number of execs with memory; each has its own
  std::vector<std::uint64_t> frees;      // allocations of other graphs that this graph frees
};
struct GraphExec {
  Opaque graph = nullptr;
  bool has_run = false;
};
struct Context {
  unsigned device = 0;
  int users = 0;
};

inline std::mutex mutex;
inline bool is_initialized = false;
inline std::uint64_t next_number = 0x7f0000000000;
inline std::uint64_t in_use[kMaxDevices] = {}, peak[kMaxDevices] = {};
inline std::map<std::uint64_t, Block> blocks;
inline std::map<std::uint64_t, Granule> granules;  // by address
inline std::map<std::uint64_t, Physical> handles;
inline std::map<std::uint64_t, std::pair<std::uint64_t, Handle>> mappings;  // by address: bytes, handle
inline std::map<int, Handle> descriptors;
inline std::map<Opaque, Pool> pools;
inline std::map<Opaque, Graph> graphs;
inline std::map<Opaque, Node> nodes;
inline std::map<Opaque, GraphExec> execs;
inline std::vector<Opaque> free_graphs, free_arrays, free_physical;  // handles to reuse
inline std::deque<Context> made_contexts;                            // made by programs
inline std::vector<Context*> free_contexts;
inline std::map<Opaque, Opaque> streams;  // the context of each stream
inline Context primary[kMaxDevices];
inline std::set<Opaque> own_contexts;
inline Opaque default_pools[kMaxDevices] = {};
inline thread_local Opaque current = nullptr;
inline Opaque captured_stream = nullptr, captured_graph = nullptr;
inline Opaque last_captured_node = nullptr;
inline bool capture_is_invalid = false;
inline bool is_busy = false;
// Pending work in the streams of a context; null: any wait completes it.
struct Pending {
  Opaque context;
  std::function<void()> run;
};
inline std::vector<Pending> pending;
inline std::uint64_t kept_for_graphs[kMaxDevices] = {};  // unused memory, kept until a trim

inline std::uint64_t setting(const char* name, std::uint64_t default_value) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : default_value;
}
inline std::uint64_t in_graph_steps(std::uint64_t bytes) {
  static const std::uint64_t kStep = setting("FAKE_CUDA_GRAPH_STEP", kPoolStep);
  return (bytes + kStep - 1) / kStep * kStep;
}
inline std::uint64_t total() { return std::uint64_t{64} << 30; }
inline const char* visible_devices() { return std::getenv("CUDA_VISIBLE_DEVICES"); }
inline unsigned device_count() {
  if (visible_devices() != nullptr) return static_cast<unsigned>((std::strlen(visible_devices()) + 1) / 2);
  return 2;
}
// The machine's number of a visible device.
inline int machine_ordinal(int device) {
  return visible_devices() != nullptr && device >= 0 && static_cast<unsigned>(device) < device_count()
             ? visible_devices()[2 * device] - '0'
             : device;
}

// May sleep at the start and at the end of a call (FAKE_CUDA_PREEMPT).
struct Preemption {
  static void run() {
    static const std::uint64_t kOneIn = setting("FAKE_CUDA_PREEMPT", 0);
    static std::atomic<std::uint64_t> state{88172645463325252u};
    if (kOneIn == 0) return;
    std::uint64_t x = state.load(std::memory_order_relaxed);
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    state.store(x, std::memory_order_relaxed);
    if (x % kOneIn == 0) ::usleep(static_cast<useconds_t>(x / kOneIn % 64));
  }
  Preemption() { run(); }
  ~Preemption() { run(); }
};

// Most functions of the driver begin with one: a call that may sleep, and holds the lock in between.
struct Call {
  Preemption preemption;
  std::lock_guard<std::mutex> lock{mutex};
};

// Completes the pending work of all contexts, or of one.
inline void finish_pending(Opaque context = nullptr) {
  is_busy = false;
  auto all = std::move(pending);
  pending.clear();
  for (Pending& one : all) {
    if (context == nullptr || one.context == nullptr || one.context == context)
      one.run();
    else
      pending.push_back(std::move(one));
  }
}
// Runs the function now, or when the busy device is synchronized.
inline void run_in_stream(Opaque stream, std::function<void()> run) {
  const auto known = streams.find(stream);
  if (is_busy)
    pending.push_back({known != streams.end() ? known->second : current, std::move(run)});
  else
    run();
}
// Runs the function now, or at the next synchronization of any context if the device is busy.
inline void run_at_wait(std::function<void()> run) {
  if (is_busy)
    pending.push_back({nullptr, std::move(run)});
  else
    run();
}

// Returns whether the graph orders `later` after `earlier`.
inline bool is_ordered_after(Opaque later, Opaque earlier) {
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

// The least memory that a graph's allocations need, in whole steps. An allocation can reuse the block of an
// earlier one if the block is large enough, and if the graph's order separates it from all users of the
// block. Tries all combinations for up to 8 allocations; for more it uses their sum.
class Need {
 public:
  Need(const Graph& graph, unsigned device) {
    for (const auto& [address, one] : graph.allocations)
      if (one.device == device) all_.push_back(one);
    std::sort(all_.begin(), all_.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
  }
  std::uint64_t bytes() {
    for (const Graph::Allocation& one : all_) least_ += one.bytes;
    if (all_.size() > 8) return in_graph_steps(least_);
    for (const Graph::Allocation& one : all_) {
      unsigned apart = 0;
      for (std::size_t i = 0; i < all_.size(); ++i) apart |= are_apart(all_[i], one) ? 1u << i : 0;
      apart_.push_back(apart);
    }
    try_all(0, 0);
    return in_graph_steps(least_);
  }

 private:
  struct Block {
    std::uint64_t bytes = 0;
    unsigned used_by = 0;  // a bit for each allocation
  };
  static bool are_apart(const Graph::Allocation& a, const Graph::Allocation& b) {
    return (a.freed_by != nullptr && is_ordered_after(b.made_by, a.freed_by)) ||
           (b.freed_by != nullptr && is_ordered_after(a.made_by, b.freed_by));
  }
  void try_all(std::size_t next, std::uint64_t bytes) {
    if (next == all_.size()) least_ = std::min(least_, bytes);
    if (next == all_.size() || bytes >= least_) return;
    const std::uint64_t wanted = all_[next].bytes;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const Block before = blocks_[i];
      if (before.bytes < wanted || (before.used_by & ~apart_[next]) != 0) continue;
      blocks_[i].used_by |= 1u << next;
      try_all(next + 1, bytes);
      blocks_[i] = before;
    }
    blocks_.push_back({wanted, 1u << next});
    try_all(next + 1, bytes + wanted);
    blocks_.pop_back();
  }
  std::vector<Graph::Allocation> all_;
  std::vector<unsigned> apart_;  // for each allocation: those that the order separates from it
  std::vector<Block> blocks_;
  std::uint64_t least_ = 0;
};
inline std::uint64_t need_of(const Graph& graph, unsigned device) { return Need(graph, device).bytes(); }

// Live memory of a destroyed graph on the device, excluding `but`, which is being freed.
inline std::uint64_t orphan_bytes(Opaque graph, unsigned device, const Block* but = nullptr) {
  std::uint64_t bytes = 0;
  for (const auto& [pointer, block] : blocks)
    if (block.graph == graph && block.device == device && block.is_live && &block != but)
      bytes += block.bytes;
  return in_graph_steps(bytes);
}

inline std::uint64_t number(std::uint64_t bytes) {
  const std::uint64_t result = next_number;
  next_number += (bytes + 511) / 512 * 512 + 512;
  return result;
}
// Returns the handle that was released last, or a new one.
inline Opaque reuse_or_make(std::vector<Opaque>& unused) {
  if (unused.empty()) return reinterpret_cast<Opaque>(number(8));
  Opaque const reused = unused.back();
  unused.pop_back();
  return reused;
}
inline Opaque handle() { return reinterpret_cast<Opaque>(number(8)); }

// Prints the stack of the call that exceeded the limit, and all allocations: a peak that is read later does
// not show these.
[[noreturn]] inline void stop_beyond(unsigned device, std::uint64_t most) {
  void* frames[32];
  const int count = backtrace(frames, 32);
  dprintf(STDERR_FILENO, "device %u: %llu bytes in use, %llu more than FAKE_CUDA_MOST\n", device,
          static_cast<unsigned long long>(in_use[device]),
          static_cast<unsigned long long>(in_use[device] - most));
  backtrace_symbols_fd(frames, count, STDERR_FILENO);
  const auto print = [](const char* what, std::uint64_t number, std::uint64_t bytes) {
    dprintf(STDERR_FILENO, "  %s %llx: %llu\n", what, static_cast<unsigned long long>(number),
            static_cast<unsigned long long>(bytes));
  };
  for (const auto& [address, block] : blocks)
    if (block.device == device && block.pool == nullptr && block.graph == nullptr)
      print(block.context == nullptr ? "block" : "block of a context", address, block.bytes);
  for (const auto& [value, one] : handles)
    if (one.device == device) print(one.handles > 0 ? "handle" : "mapped", value, one.bytes);
  for (const auto& [pool, one] : pools)
    if (one.device == device) print("pool", reinterpret_cast<std::uint64_t>(pool), one.reserved);
  _exit(77);
}

// Stops the program if the ledger has charged too little: it must be right at any moment, not only at the
// limit.
inline void check_against_ledger(unsigned device) {
  static const std::uint64_t slack = setting("FAKE_CUDA_LEDGER_SLACK", ~0ull);
  if (slack == ~0ull) return;
  static const auto figures_of = reinterpret_cast<headroom::ledger::DeviceFiguresFunction>(
      ::dlsym(RTLD_DEFAULT, headroom::ledger::kDeviceFiguresSymbol));
  headroom::ledger::DeviceFigures figures;
  // Without a limit memory is charged only after its allocation.
  if (figures_of == nullptr || !figures_of(device, &figures, sizeof figures) || figures.limit == ~0ull)
    return;
  if (in_use[device] > figures.charged_all + slack) stop_beyond(device, figures.charged_all);
}

inline bool grow(unsigned device, std::uint64_t bytes) {
  if (bytes > total() - in_use[device]) return false;
  in_use[device] += bytes;
  if (in_use[device] > peak[device]) peak[device] = in_use[device];
  check_against_ledger(device);
  static const std::uint64_t most = setting("FAKE_CUDA_MOST", ~0ull);
  if (in_use[device] > most) stop_beyond(device, most);
  return true;
}
inline unsigned current_device() { return static_cast<Context*>(current)->device; }

// Returns the pool's bytes to the device, except for exported memory.
inline void release_from_pool(Pool& pool, std::uint64_t bytes) {
  const std::uint64_t kept = std::min(bytes, pool.shared);
  pool.shared -= kept;
  pool.reserved -= bytes;
  in_use[pool.device] -= bytes - kept;
}

inline void release_block(const Block& block) {
  if (block.graph != nullptr)
    kept_for_graphs[block.device] +=
        orphan_bytes(block.graph, block.device) - orphan_bytes(block.graph, block.device, &block);
  else if (block.is_shared && block.pool == nullptr)
    return;  // nothing reports when the other process releases it
  else if (block.granule != 0 && --granules[block.granule].live > 0) {
    granules[block.granule].used -= (block.bytes + 511) / 512 * 512;
    return;
  } else if (block.pool == nullptr)
    in_use[block.device] -= block.device_bytes != 0 ? block.device_bytes : block.bytes;
  granules.erase(block.granule);
  if (block.pool == nullptr) return;
  Pool& pool = pools[block.pool];
  pool.used -= block.bytes;
  if (block.is_shared) pool.shared += block.bytes;
  if (!pool.is_destroyed || pool.used > 0) return;
  release_from_pool(pool, pool.reserved);
  pools.erase(block.pool);
}

}  // namespace fake_cuda
