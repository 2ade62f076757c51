// Replays the caching allocator of one device from a snapshot's trace: the size of each block, the free space
// between blocks, and the reserved memory, after each entry.
//
// A trace has requested sizes and addresses, but not the sizes of the blocks. The snapshot has the blocks at
// the end, and the rules by which PyTorch cuts and merges blocks are known (TorchAllocatorRules). So the
// replay first goes back from the end to the state before the first entry, and then applies the entries in
// order. If that leads to the blocks of the snapshot, all figures on the way are the allocator's own, and
// doubt() is empty.
//
// The size of a block from before the trace that was freed during it is not known: the request is in the
// trace, and up to 1 MiB behind it may have been part of the block, or free. It counts as part of the block.
//
// A step takes three look-ups by address, of 20 to 100 ns each.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "snapshot/containers.h"
#include "snapshot/snapshot.h"

namespace headroom::snapshot {

// How PyTorch's caching allocator sizes its blocks (c10/cuda/CUDACachingAllocator.cpp, 1.13 to 2.11): what is
// asked for is rounded up, and a free block is cut if what would be left is worth it.
inline constexpr std::int64_t kTorchBlockUnit = 512;
inline constexpr std::int64_t kTorchSmallRequest = 1 << 20;  // from the pool of small ones, up to this
inline constexpr std::int64_t kTorchSmallSegment = 2 << 20;  // and a page of an expandable one
inline constexpr std::int64_t kTorchLargePage = 20 << 20;    // of an expandable segment of large blocks

class TorchAllocatorRules {
 public:
  explicit TorchAllocatorRules(const AllocatorSettings& settings) : settings_(settings) {}

  // The size of the block that a request gets, unless the free block that is found is not worth cutting.
  std::int64_t rounded(std::int64_t requested) const;
  // Whether a free block of `size` is cut for a request of `rounded`.
  bool is_cut(std::int64_t size, std::int64_t rounded, bool is_large, bool is_expandable) const;
  // What is asked of the driver where no free block serves a request of `rounded`.
  static std::int64_t segment_size(std::int64_t rounded);

 private:
  std::int64_t divisions_for(std::int64_t size) const;
  const AllocatorSettings& settings_;
};

inline constexpr std::uint32_t kBeforeTrace = ~std::uint32_t{0};

struct HeldBlock {
  std::uint64_t address = 0;
  std::int64_t size = 0, requested = 0;
  StackIndex stack;                   // that allocated it
  std::uint32_t born = kBeforeTrace;  // the entry that did
  BlockState state = BlockState::inactive;
  bool is_live() const { return state != BlockState::inactive; }
};

struct HeldSegment {
  std::uint64_t address = 0;
  std::int64_t size = 0, stream = 0;
  bool is_large = true, is_expandable = false, in_private_pool = false;
  std::size_t first_block = 0, block_count = 0;
  std::uint64_t end() const { return address + static_cast<std::uint64_t>(size); }
};

// What a device held at one moment.
struct DeviceState {
  std::vector<HeldSegment> segments;  // by address
  std::vector<HeldBlock> blocks;      // of the segments, by address and without gaps
  std::vector<HeldBlock> loose;       // live, but in no known segment, or behind a gap
  std::span<const HeldBlock> blocks_of(const HeldSegment& segment) const {
    return std::span(blocks).subspan(segment.first_block, segment.block_count);
  }
  // All blocks, those of segments first.
  template <class Visit>
  void for_each_block(Visit&& visit) const {
    for (const HeldBlock& block : blocks) visit(block);
    for (const HeldBlock& block : loose) visit(block);
  }
};

struct DeviceTotals {
  std::int64_t allocated = 0;  // blocks in use, as large as they are
  std::int64_t active = 0;     // with those that wait for another stream
  std::int64_t requested = 0;  // of the active ones, what was asked for
  std::int64_t reserved = 0;   // segments
  std::int64_t blocks = 0;     // active ones
};

class SnapshotReplay {
 public:
  // Stands before the first entry. The snapshot must outlive this.
  SnapshotReplay(const Snapshot& snapshot, std::int64_t device);

  // What the last step did.
  struct Change {
    const TraceEntry* entry = nullptr;
    std::int64_t block_bytes = 0;  // that became allocated, or no longer are; 0 for all other entries
    std::int64_t requested = 0;    // the same as it was asked for
    StackIndex stack;              // that allocated the block
  };
  bool at_end() const { return position_ == entries_; }
  std::size_t position() const { return position_; }  // how many entries were applied
  std::size_t entries() const { return entries_; }
  Change step();

  const DeviceTotals& totals() const { return totals_; }
  DeviceState state() const;
  // At the end: why figures may be wrong. Empty if the blocks equal the snapshot's and no size was guessed.
  std::string doubt() const;

 private:
  struct Block {
    std::int64_t size = 0, requested = 0;
    StackIndex stack = {};
    std::uint32_t born = kBeforeTrace;
    BlockState state = BlockState::inactive;
    bool starts_segment = false;  // what lies before it is another's
    bool is_large = true, is_expandable = false;
    bool is_loose = false;  // in no known segment, or its place in it is not known
    bool is_live() const { return state != BlockState::inactive; }
  };
  using Ranges = std::map<std::uint64_t, HeldSegment>;  // by address, without blocks

  // Going back. `alive`: before the trace; a block of size 0 has an unknown size.
  void go_back_over(const TraceEntry& entry, AddressMap<Block>& alive);
  void lay_out(const AddressMap<Block>& alive);
  void lay_out_range(const HeldSegment& range, std::span<const std::pair<std::uint64_t, Block>> blocks);
  std::int64_t size_between(const Block& alive, std::int64_t room, const HeldSegment& range);

  // Going forward.
  void allocate(const TraceEntry& entry, Change& change);
  void request_free(std::uint64_t address, Change& change);
  void complete_free(std::uint64_t address, Change& change);
  void add_segment(const TraceEntry& entry);
  void free_segment(const TraceEntry& entry);
  void map_pages(const TraceEntry& entry);
  void unmap_pages(const TraceEntry& entry);

  // Ranges.
  void add_range(std::uint64_t address, std::int64_t size, std::int64_t stream, bool is_expandable);
  void cut_out(std::uint64_t address, std::int64_t size);
  void put_range(HeldSegment range);
  Ranges::iterator range_around(std::uint64_t address);

  // Blocks.
  void put_live(std::uint64_t address, const Block& block);
  void put_free(std::uint64_t address, Block block);
  void put_rest(std::uint64_t address, const Block& whole, std::uint64_t begin, std::uint64_t end);
  void take_free(std::uint64_t address, const Block& block);
  void drop(std::uint64_t address);
  void remove(std::uint64_t address, const Block& block);
  void make_room_at(std::uint64_t address);
  std::optional<std::uint64_t> free_block_before(std::uint64_t end);
  void clear_from(std::uint64_t address, std::uint64_t end);
  std::optional<std::uint64_t> free_block_around(std::uint64_t address);
  std::int64_t stream_of(const TraceEntry& entry) const { return snapshot_.streams[entry.stream]; }
  void doubt_because(std::string_view why);

  const Snapshot& snapshot_;
  std::int64_t device_;
  TorchAllocatorRules rules_;
  const DeviceTrace* trace_;
  std::size_t entries_ = 0, position_ = 0;
  Ranges ranges_;
  AddressMap<Block> blocks_;             // live and free, by where they begin
  AddressMap<std::uint64_t> free_ends_;  // where free blocks end → where they begin
  DeviceTotals totals_;
  std::int64_t guessed_blocks_ = 0;
  std::string doubt_;
  std::int64_t walk_budget_;  // free_block_around() walks; a damaged trace must not make it walk for ever
};

}  // namespace headroom::snapshot
