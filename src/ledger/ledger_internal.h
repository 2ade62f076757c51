// Helpers for the ledger's own source files.
#pragma once

#include <cstdint>

#include "ledger/ledger.h"

namespace headroom::ledger {

// Memory of a node whose graph exists: its charge is part of the graph's.
inline bool is_node(const Entry& entry) {
  return entry.type == EntryType::pointer && entry.kind == DeviceMemoryKind::graph && entry.owner != 0;
}

// Whether a launch may have given the graph's nodes memory.
inline bool may_have_run(const Entry& graph) {
  return graph.of.graph.last_exec != 0 || graph.of.graph.former_key != 0;
}

// The `context` of these types is not where the memory was allocated. Its streams will free the memory.
inline bool has_stream_context(const Entry& entry) {
  return entry.type == EntryType::pool || entry.type == EntryType::pending_free;
}

inline bool is_destroyed(const Entry& entry) {
  return entry.type == EntryType::pool && entry.references == 0;
}

// Records in which context a stream-ordered free was issued. A wait for that context's streams
// completes it. No wait completes frees of several contexts, or of an unknown one (0): those get
// kSeveralContexts.
inline constexpr std::uint64_t kSeveralContexts = ~std::uint64_t{0};
inline void note_stream_context(Entry& entry, std::uint64_t context) {
  if (entry.context == 0 && context != 0)
    entry.context = context;
  else if (entry.context != context || context == 0)
    entry.context = kSeveralContexts;
}

// Keys of graphs and graph execs in the allocation table: one for each device on which they have memory.
// The key of a graph or exec on one device. On device 0 it equals the handle.
inline std::uint64_t key_on_device(std::uint64_t handle, unsigned device) {
  constexpr unsigned kAboveAddresses = 57;
  return handle ^ std::uint64_t{device} << kAboveAddresses;
}

// Bits that no handle has set on any device. kInternalNumber marks graphs without a handle and updates of
// execs; kInProgress marks execs and updates that the driver is creating now.
inline constexpr std::uint64_t kInternalNumber = std::uint64_t{1} << 63;
inline constexpr std::uint64_t kInProgress = std::uint64_t{1} << 62;

inline std::uint64_t smaller(std::uint64_t a, std::uint64_t b) { return a < b ? a : b; }

inline std::uint64_t round_up_to_step(std::uint64_t bytes, std::uint64_t step) {
  std::uint64_t all = bytes;
  if (step <= 1 || bytes % step == 0 || __builtin_add_overflow(bytes, step - bytes % step, &all))
    return bytes;
  return all;
}

}  // namespace headroom::ledger
