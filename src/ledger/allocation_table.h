// A process's table of device memory: live allocations, and what the ledger must remember about pools,
// graphs, streams and contexts.
//
// A hash table, keyed by type and address: open addressing, at most half full, deletion by shifting entries
// back. It maps its memory straight from the kernel, because it runs in programs whose allocator is hooked.
// Callers hold the ledger's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "types/memory_event.h"

namespace headroom::ledger {

// The type of an entry. It is part of the key, because a handle can have the value of an address.
enum class EntryType : std::uint8_t {
  pointer = 1,      // memory by address, of every kind: CUDA has one address space for all devices
  array,            // CUarray
  mipmap,           // CUmipmappedArray
  handle,           // CUmemGenericAllocationHandle
  physical,         // the memory behind a handle, under the ledger's own number: drivers reuse handle values
  reservation,      // a range of virtual addresses
  mapping,          // physical memory, mapped at an address
  external_memory,  // CUexternalMemory
  graph,            // CUgraph, on one device
  graph_exec,       // CUgraphExec, on one device; or an update of one to another graph
  graph_free_node,  // CUgraphNode that frees a block, until another node reuses that block
  capture,          // CUstream whose calls are captured into a graph
  pool,             // CUmemoryPool
  pool_free_in_progress,  // memory of a pool, while the driver's call frees it; under a number
  destroyed_context,      // a context that is being destroyed; under a number
  pending_free,           // memory by pointer whose stream-ordered free may not have run yet; under a number
  granule,  // device memory that small allocations share; under a number made of their addresses
};

// A bit of Entry::references: the memory was exported to another process or API. Nothing reports when that
// releases it, so the memory stays charged.
inline constexpr std::uint32_t kExported = std::uint32_t{1} << 31;

// What only entries of one type have. A new entry has zeros.
struct PointerDetails {
  std::uint64_t unused_bytes;      // of a graph's node: in its block
  std::uint64_t free_in_progress;  // of pool memory that is being freed: the number of that entry
};
struct GraphDetails {
  std::uint64_t block_bytes;  // of all its blocks; `bytes` has those in use
  std::uint64_t last_exec;    // made from it
  std::uint64_t former_key;   // of a graph without a handle
};
struct GraphExecDetails {
  std::uint64_t updated_exec;  // of an update: the exec that was updated
  std::uint64_t added_bytes;   // to the graph's charge, until the driver succeeded
};
struct PoolDetails {
  std::uint64_t reported_bytes;  // the driver's last figure
  std::uint64_t pending_bytes;   // whose stream-ordered free may be pending
  // The wait that completes its pending frees, except those of a live pool since the wait began.
  std::uint64_t wait, freed_since_wait;
};
struct DestroyedContextDetails {
  std::uint64_t context;  // if the driver failed to destroy it
};
struct PendingFreeDetails {
  std::uint64_t wait;  // that completes the free
};
struct GranuleDetails {
  std::uint64_t context;        // whose allocations share it
  std::uint64_t used_bytes;     // by its allocations
  std::uint64_t pending_frees;  // how many of its allocations are that
};

struct Entry {
  std::uint64_t address = 0;  // or handle, or number; never 0
  std::uint64_t bytes = 0;
  // In which it was allocated; 0: in none, so it outlives all. Of pool and pending_free: the context of
  // the streams that free the memory.
  std::uint64_t context = 0;
  // What it belongs to: a pointer or pending free to its pool, graph or granule; a handle or mapping to
  // its physical memory; an exec, free node or capture to its graph; a free in progress to its pool.
  std::uint64_t owner = 0;
  std::uint64_t charged = 0;  // bytes in the account; of a pool or graph, all that it keeps, used or not
  union Details {
    PoolDetails pool{};  // first, because it is the largest
    PointerDetails pointer;
    GraphDetails graph;
    GraphExecDetails graph_exec;
    DestroyedContextDetails destroyed_context;
    PendingFreeDetails pending_free;
    GranuleDetails granule;
  } of = {};  // the member named like `type`
  std::uint32_t references = 1;
  std::uint16_t device = 0;
  EntryType type = EntryType::pointer;
  DeviceMemoryKind kind = DeviceMemoryKind::device;
};

class AllocationTable {
 public:
  constexpr AllocationTable() = default;
  AllocationTable(const AllocationTable&) = delete;
  AllocationTable& operator=(const AllocationTable&) = delete;
  ~AllocationTable() { clear(); }

  // Returns null if there is none. The pointer is valid until the next insert() or remove().
  Entry* find(EntryType type, std::uint64_t address);
  // Replaces an entry of the same type and address. Returns false if no memory is available.
  bool insert(const Entry& entry);
  bool remove(EntryType type, std::uint64_t address, Entry& entry);
  void remove(EntryType type, std::uint64_t address) {
    Entry removed;
    remove(type, address, removed);
  }
  // Finds the first entry at or after position `at` for which test(entry) is true, and sets `at` to its
  // position. Returns null if there is none. A loop over find_from() and remove_at() visits each entry once:
  // a removal moves no unvisited entry to a position before `at`.
  template <class Test>
  Entry* find_from(std::size_t& at, const Test& test) {
    for (; at < capacity_; ++at)
      if (slots_[at].address != 0 && test(slots_[at])) return &slots_[at];
    return nullptr;
  }
  void remove_at(std::size_t at, Entry& removed) {
    removed = slots_[at];
    close_gap(at);
    --size_;
  }
  // Returns how many entries it removed.
  template <class Test>
  std::size_t remove_if(const Test& test) {
    const std::size_t before = size_;
    Entry removed;
    for (std::size_t at = 0; find_from(at, test) != nullptr;) remove_at(at, removed);
    return before - size_;
  }
  template <class Visit>
  void for_each(const Visit& visit) {
    for (std::size_t i = 0; i < capacity_; ++i)
      if (slots_[i].address != 0) visit(slots_[i]);
  }
  std::size_t size() const { return size_; }
  void clear();

 private:
  static std::size_t hash_of(EntryType type, std::uint64_t address) {
    return static_cast<std::size_t>(
        ((address ^ static_cast<std::uint64_t>(type) << 57) * 0x9e3779b97f4a7c15U) >> 20);
  }
  std::size_t home_of(const Entry& entry) const {
    return hash_of(entry.type, entry.address) & (capacity_ - 1);
  }
  std::size_t next(std::size_t at) const { return (at + 1) & (capacity_ - 1); }
  void close_gap(std::size_t hole);
  bool grow();

  Entry* slots_ = nullptr;
  std::size_t capacity_ = 0, size_ = 0;
};

}  // namespace headroom::ledger
