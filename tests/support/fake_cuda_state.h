// A CUDA driver without a GPU: a libcuda.so.1 with the names, versions and rules of the real one, whose
// memory is numbers from a counter. It keeps account of what it gave out, by itself: fake_cuda_peak() is the
// truth that a limit is held to.
//
// Environment: FAKE_CUDA_TOTAL (bytes of each device, 64 GiB), FAKE_CUDA_DEVICES (2), FAKE_CUDA_INTEGRATED,
// FAKE_CUDA_GRANULE (in which memory by pointer and arrays are given, smaller ones sharing them; 0: by the
// byte), FAKE_CUDA_CONTEXT (bytes of each context, 0: beside fake_cuda_peak()), FAKE_CUDA_MANAGED
// (the code that answers requests for it), CUDA_VISIBLE_DEVICES (numbers of one digit: which are shown, and
// in which order), FAKE_CUDA_PREEMPT (one call in so many is interrupted for some microseconds, before or
// after its work, so that threads meet in every order), FAKE_CUDA_GRAPH_STEP (in which each graph that runs
// has memory, 32 MiB), FAKE_CUDA_MOST (bytes of a device beyond which the program ends at once, exit code 77,
// and says with which stack), FAKE_CUDA_LEDGER_SLACK (the same where the ledger in front of it is charged so
// many bytes less than it has given).
//
// Between fake_cuda_busy(1) and a call that waits, what is freed in the order of a stream and instances of
// graphs that are destroyed stay: the device has not come to them.
//
// Here is what its parts share: the devices' memory, and who has it. fake_cuda_devices.cpp has devices,
// contexts and streams, fake_cuda_memory.cpp memory by pointer, handle and array, fake_cuda_pools.cpp pools
// and graphs, fake_cuda_lookup.cpp the ways to find all that.
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
  std::uint64_t taken = 0;    // of its device, where that is not its bytes
  std::uint64_t granule = 0;  // address of the one that it shares with others
  bool is_shared = false;     // another process has it, too, or will
};
struct Granule {
  Opaque context = nullptr;  // which shares it with no other
  unsigned device = 0;
  std::uint64_t used = 0, live = 0;
};
struct Physical {
  unsigned device = 0;
  bool of_device = true;
  std::uint64_t bytes = 0;
  int handles = 1, mappings = 0;
  bool is_shared = false;  // by a descriptor, which is never closed
  // Its value is given again when it has gone. Not one that threads may go on using: no ledger could tell
  // what such a value stands for.
  bool is_given_again = false;
};
// Takes memory of its device in steps, and keeps it until it is told to trim or its last allocation is freed
// after it was destroyed.
struct Pool {
  unsigned device = 0;
  std::uint64_t used = 0, reserved = 0;
  std::uint64_t shared = 0;  // freed here, and others have it
  bool is_destroyed = false;
};
constexpr std::uint64_t kPoolStep = 32 << 20;  // as on an H200
// Its nodes have addresses from the beginning, and memory from the first launch on. It keeps that, in whole
// steps of its own, and what is live when it is destroyed stays until it is freed. The handle of one that was
// destroyed is given to the next, also while an instance has its memory.
struct Node {
  std::vector<Opaque> dependencies;
  Opaque graph = nullptr;
};
struct Graph {
  struct Allocation {
    unsigned device = 0;
    std::uint64_t bytes = 0;
    Opaque made_by = nullptr, freed_by = nullptr;
    std::uint64_t number = 0;  // in the order in which they were added
  };
  std::map<std::uint64_t, Allocation> allocations;  // by address, those that a node frees too
  int users = 1;
  bool has_run = false;
  std::uint64_t need[kMost] = {};    // once it has run
  unsigned running = 0;              // instances that have memory, each its own
  std::vector<std::uint64_t> frees;  // what other graphs made
};
struct Instance {
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
inline std::uint64_t in_use[kMost] = {}, peak[kMost] = {};
inline std::map<std::uint64_t, Block> blocks;
inline std::map<std::uint64_t, Granule> granules;  // that are shared, by address
inline std::map<std::uint64_t, Physical> handles;
inline std::map<std::uint64_t, std::pair<std::uint64_t, Handle>> mappings;  // by address: bytes, handle
inline std::map<std::uint64_t, std::map<unsigned, Handle>> tiles;           // of arrays, by column
inline std::map<int, Handle> descriptors;
inline std::map<Opaque, Pool> pools;
inline std::map<Opaque, Graph> graphs;
inline std::map<Opaque, Node> nodes;
inline std::map<Opaque, Instance> instances;
inline std::vector<Opaque> free_graphs, free_arrays, free_physical;  // handles
inline std::deque<Context> made_contexts;                            // of programs, and green ones
inline std::vector<Context*> free_contexts;
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
// What the device has yet to come to, in the streams of a context; null: whichever is waited for.
struct Pending {
  Opaque context;
  std::function<void()> happen;
};
inline std::vector<Pending> pending;
inline std::uint64_t kept_for_graphs[kMost] = {};  // that no graph uses, until the device is told to trim
inline std::uint64_t queries = 0;

inline std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}
inline std::uint64_t in_graph_steps(std::uint64_t bytes) {
  static const std::uint64_t kStep = setting("FAKE_CUDA_GRAPH_STEP", kPoolStep);
  return (bytes + kStep - 1) / kStep * kStep;
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

// Who waits for a primary context waits for the green ones that are parts of it, too.
inline bool is_part_of(Opaque context, Opaque whole) {
  return std::any_of(green_contexts.begin(), green_contexts.end(), [&](const auto& green) {
    return green.second == context && whole == &primary[green.second->device];
  });
}
// Of all contexts, or of one.
inline void finish_pending(Opaque context = nullptr) {
  is_busy = false;
  auto all = std::move(pending);
  pending.clear();
  for (Pending& one : all) {
    if (context == nullptr || one.context == nullptr || one.context == context ||
        is_part_of(one.context, context))
      one.happen();
    else
      pending.push_back(std::move(one));
  }
}
// Now, or when the device comes to it.
inline void in_order_of(Opaque stream, std::function<void()> happen) {
  const auto known = streams.find(stream);
  if (is_busy)
    pending.push_back({known != streams.end() ? known->second : current, std::move(happen)});
  else
    happen();
}
inline void when_waited_for(std::function<void()> happen) {
  if (is_busy)
    pending.push_back({nullptr, std::move(happen)});
  else
    happen();
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

// What the blocks of a graph have of the device at least, in its steps: each allocation has a block of its
// own or that of one before it that is as large, if the graph's order keeps it apart from all that have it.
// By trying all ways, so of 8 at most; of more their sum.
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
    unsigned had_by = 0;  // a bit each
  };
  static bool are_apart(const Graph::Allocation& a, const Graph::Allocation& b) {
    return (a.freed_by != nullptr && comes_behind(b.made_by, a.freed_by)) ||
           (b.freed_by != nullptr && comes_behind(a.made_by, b.freed_by));
  }
  void try_all(std::size_t next, std::uint64_t bytes) {
    if (next == all_.size()) least_ = std::min(least_, bytes);
    if (next == all_.size() || bytes >= least_) return;
    const std::uint64_t wanted = all_[next].bytes;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const Block before = blocks_[i];
      if (before.bytes < wanted || (before.had_by & ~apart_[next]) != 0) continue;
      blocks_[i].had_by |= 1u << next;
      try_all(next + 1, bytes);
      blocks_[i] = before;
    }
    blocks_.push_back({wanted, 1u << next});
    try_all(next + 1, bytes + wanted);
    blocks_.pop_back();
  }
  std::vector<Graph::Allocation> all_;
  std::vector<unsigned> apart_;  // by allocation: those that it is kept apart from
  std::vector<Block> blocks_;
  std::uint64_t least_ = 0;
};
inline std::uint64_t need_of(const Graph& graph, unsigned device) { return Need(graph, device).bytes(); }

// What a graph that is gone has left on the device and is live; without `but`, which is to be freed.
inline std::uint64_t left_by(Opaque graph, unsigned device, const Block* but = nullptr) {
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
// What was given back last, if there is one.
inline Opaque again_of(std::vector<Opaque>& given_back) {
  if (given_back.empty()) return reinterpret_cast<Opaque>(number(8));
  Opaque const again = given_back.back();
  given_back.pop_back();
  return again;
}
inline Opaque handle() { return reinterpret_cast<Opaque>(number(8)); }

// With the stack of who got past it and what was given, which a peak that is read at the end does not tell.
[[noreturn]] inline void stop_beyond(unsigned device, std::uint64_t most) {
  void* frames[32];
  const int count = backtrace(frames, 32);
  dprintf(STDERR_FILENO, "device %u: %llu bytes in use, %llu more than FAKE_CUDA_MOST\n", device,
          static_cast<unsigned long long>(in_use[device]),
          static_cast<unsigned long long>(in_use[device] - most));
  backtrace_symbols_fd(frames, count, STDERR_FILENO);
  const auto tell = [](const char* what, std::uint64_t number, std::uint64_t bytes) {
    dprintf(STDERR_FILENO, "  %s %llx: %llu\n", what, static_cast<unsigned long long>(number),
            static_cast<unsigned long long>(bytes));
  };
  for (const auto& [address, block] : blocks)
    if (block.device == device && block.pool == nullptr && block.graph == nullptr)
      tell(block.context == nullptr ? "block" : "block of a context", address, block.bytes);
  for (const auto& [value, one] : handles)
    if (one.device == device) tell(one.handles > 0 ? "handle" : "mapped", value, one.bytes);
  for (const auto& [pool, one] : pools)
    if (one.device == device) tell("pool", reinterpret_cast<std::uint64_t>(pool), one.reserved);
  _exit(77);
}

// All that is given must be charged: with that the ledger is right at every moment, not at its limit alone.
inline void check_against_ledger(unsigned device) {
  static const std::uint64_t slack = setting("FAKE_CUDA_LEDGER_SLACK", ~0ull);
  if (slack == ~0ull) return;
  static const auto figures_of = reinterpret_cast<headroom::ledger::DeviceFiguresFunction>(
      ::dlsym(RTLD_DEFAULT, headroom::ledger::kDeviceFiguresSymbol));
  headroom::ledger::DeviceFigures figures;
  // Without a limit what is taken is charged when it is there.
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

// But for what others have of it.
inline void give_back_of(Pool& pool, std::uint64_t bytes) {
  const std::uint64_t kept = std::min(bytes, pool.shared);
  pool.shared -= kept;
  pool.reserved -= bytes;
  in_use[pool.device] -= bytes - kept;
}

inline void give_back(const Block& block) {
  if (block.graph != nullptr)
    kept_for_graphs[block.device] +=
        left_by(block.graph, block.device) - left_by(block.graph, block.device, &block);
  else if (block.is_shared && block.pool == nullptr)
    return;  // who has it does not say when he has it no more
  else if (block.granule != 0 && --granules[block.granule].live > 0) {
    granules[block.granule].used -= (block.bytes + 511) / 512 * 512;
    return;
  } else if (block.pool == nullptr)
    in_use[block.device] -= block.taken != 0 ? block.taken : block.bytes;
  granules.erase(block.granule);
  if (block.pool == nullptr) return;
  Pool& pool = pools[block.pool];
  pool.used -= block.bytes;
  if (block.is_shared) pool.shared += block.bytes;
  if (!pool.is_destroyed || pool.used > 0) return;
  give_back_of(pool, pool.reserved);
  pools.erase(block.pool);
}

}  // namespace fake_cuda
