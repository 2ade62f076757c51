// What a process has of its devices' memory: every live allocation, by address or handle.
//
// Open addressing at a load of at most one half, deletion by shifting back; in memory of its own from the
// kernel, because it lives in programs whose allocator is hooked. The caller has the lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/device_memory.h"

namespace headroom::ledger {

// What an address is one of: a handle may have the value of an address.
enum class Space : std::uint8_t {
  pointer =
      1,     // device, managed, pool, graph, imported and pinned memory: unified addressing makes one space
  array,     // CUarray
  mipmap,    // CUmipmappedArray
  handle,    // CUmemGenericAllocationHandle
  physical,  // what a handle stands for: a number of the ledger's own, as drivers use handles again
  reservation,   // virtual addresses
  mapping,       // physical memory at them
  part,          // of an array, to which physical memory is mapped: `context` is the array
  external,      // CUexternalMemory
  graph,         // CUgraph, on one device
  graph_exec,    // CUgraphExec, likewise
  graph_free,    // CUgraphNode that frees: `bytes` of the block that another node may take
  capture,       // CUstream in which a capture was begun
  pool,          // CUmemoryPool
  leaving_pool,  // what a pool has and a call frees: a number
  apart,         // the number of a context that is being destroyed: `link` is the context, if it lives on
  leaving,       // memory by pointer that is freed in the order of a stream: a number
  pool_wait,     // of a pool that is waited for: `pending` is what was freed since, `link` the wait
  granule,       // of a device, that small allocations share: a number, by their addresses
};

// A bit of `references`: others hold the memory, too, and nobody tells how long.
inline constexpr std::uint32_t kHeldByOthers = std::uint32_t{1} << 31;

struct Entry {
  std::uint64_t address = 0;  // or handle; never 0
  std::uint64_t bytes = 0;
  std::uint64_t context = 0;  // in which it was made; 0: in none, it outlives them
  std::uint64_t link = 0;     // the address, in its own space, of what this one is a part of or refers to; of
                              // physical memory: how many ask for a handle of it by its address; of a
                              // granule: the context, which shares it with no other
  std::uint64_t charged = 0;  // bytes of the account: what a pool keeps may be more than what is in use
  std::uint64_t pending = 0;  // of a pool: freed in the order of a stream, perhaps not yet; of graphs:
                              // graphs.cpp; of what a call frees: its number in Space::leaving_pool; of
                              // mappings: which one; of physical memory: the wait that it goes with
  std::uint32_t references = 1;
  std::uint16_t device = 0;
  Space space = Space::pointer;
  DeviceMemoryKind kind = DeviceMemoryKind::device;
};

class AllocationTable {
 public:
  constexpr AllocationTable() = default;
  AllocationTable(const AllocationTable&) = delete;
  AllocationTable& operator=(const AllocationTable&) = delete;
  ~AllocationTable() { clear(); }

  // Null if there is none. Valid until the next insert() or take().
  Entry* find(Space space, std::uint64_t address);
  // An entry of that space and address is replaced. False when there is no memory.
  bool insert(const Entry& entry);
  bool take(Space space, std::uint64_t address, Entry& entry);
  // The next entry at or behind the place `at` of which test(entry) is true, and its place; null if there is
  // none. So all of one kind are found in one pass. Taking one out moves none before it that was not seen.
  template <class Test>
  Entry* find_from(std::size_t& at, const Test& test) {
    for (; at < capacity_; ++at)
      if (slots_[at].address != 0 && test(slots_[at])) return &slots_[at];
    return nullptr;
  }
  void take_at(std::size_t at, Entry& taken) {
    taken = slots_[at];
    close_gap(at);
    --size_;
  }
  template <class Visit>
  void for_each(const Visit& visit) {
    for (std::size_t i = 0; i < capacity_; ++i)
      if (slots_[i].address != 0) visit(slots_[i]);
  }
  std::size_t size() const { return size_; }
  void clear();

 private:
  static std::size_t hash_of(Space space, std::uint64_t address) {
    return static_cast<std::size_t>(
        ((address ^ static_cast<std::uint64_t>(space) << 57) * 0x9e3779b97f4a7c15U) >> 20);
  }
  std::size_t home_of(const Entry& entry) const {
    return hash_of(entry.space, entry.address) & (capacity_ - 1);
  }
  std::size_t next(std::size_t at) const { return (at + 1) & (capacity_ - 1); }
  void close_gap(std::size_t hole);
  bool grow();

  Entry* slots_ = nullptr;
  std::size_t capacity_ = 0, size_ = 0;
};

}  // namespace headroom::ledger
