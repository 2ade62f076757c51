// A memory snapshot of PyTorch's caching allocator. Segments are the memory that the allocator has reserved
// on each device. Blocks are the parts of a segment. A trace has the recent events of a device.
//
// Versions of torch record different data. A field that is absent here was not recorded:
//   1.13        a list of segments and no traces; blocks have a history
//   2.0         traces without times; still a history
//   2.1         blocks have a requested size and their own stack
//   2.2 to 2.11 times of trace entries, expandable segments
// The reader checks the consistency of blocks and entries (snapshot_reader.h).
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "snapshot/containers.h"

namespace headroom::snapshot {

// A list of frames, innermost first. 0 is the empty list: no stack was recorded.
struct StackIndex {
  std::uint32_t index = 0;
  friend auto operator<=>(const StackIndex&, const StackIndex&) = default;
};

struct Frame {
  StringId function, file;
  std::int64_t line = 0;
  friend bool operator==(const Frame&, const Frame&) = default;
};

enum class BlockState : std::uint8_t {
  inactive,          // free, cached for the next request
  active_allocated,  // used by a tensor
  pending_free,      // freed, but another stream may still use it
};

struct Block {
  std::uint64_t address = 0;
  std::int64_t size = 0;       // size in the segment
  std::int64_t requested = 0;  // requested size; 0 if the block is free
  StackIndex stack;            // stack of the allocation
  BlockState state = BlockState::inactive;
  bool is_live() const { return state != BlockState::inactive; }
};

struct Segment {
  std::int64_t device = 0;
  std::uint64_t address = 0;
  std::int64_t size = 0;
  std::int64_t stream = 0;
  bool is_large = true;  // from the pool for requests above 1 MiB
  bool is_expandable = false;
  bool in_private_pool = false;  // belongs to a CUDA graph or a torch.cuda.MemPool
  StackIndex stack;
  std::size_t first_block = 0, block_count = 0;  // in Snapshot::blocks, sorted by address, without gaps
};

enum class Action : std::uint8_t {
  alloc,
  free_requested,
  free_completed,
  segment_alloc,
  segment_free,
  segment_map,
  segment_unmap,
  snapshot,
  oom,
  other,  // unknown to this version of Headroom
};
inline constexpr std::size_t kActions = 10;
// The names that PyTorch writes: "free_requested".
std::string_view name_of(Action action);

struct TraceEntry {
  std::uint64_t address = 0;  // for oom: the bytes that were free on the device
  std::int64_t size = 0;      // requested size; for oom: rounded up
  std::int64_t time_us = 0;   // since 1970; 0 if not recorded
  StackIndex stack;
  std::uint32_t stream = 0;  // index in Snapshot::streams
  Action action = Action::other;
};

// The setting with which Headroom marks its own snapshots (AllocatorSettings::has_exact_sizes).
inline constexpr std::string_view kExactSizesSetting = "headroom_exact_sizes";

// PyTorch's settings. A setting that the snapshot does not have is absent.
struct AllocatorSettings {
  std::string text;  // value of PYTORCH_CUDA_ALLOC_CONF
  std::optional<bool> expandable_segments;
  std::optional<std::int64_t> max_split_bytes;
  // The snapshot is not from PyTorch's caching allocator: sizes are not rounded, and every remainder is a
  // separate block. `headroom export --to pytorch-snapshot` writes such snapshots.
  bool has_exact_sizes = false;
  // For each size in MiB, the number of steps into which a power of two is divided from that size on.
  std::vector<std::pair<std::int64_t, std::int64_t>> roundup_power2_divisions;
};

struct DeviceTrace {
  std::int64_t device = 0;
  std::size_t first_entry = 0, entry_count = 0;  // in Snapshot::entries, ordered by time
};

struct Snapshot {
  std::vector<Segment> segments;  // ordered by device and address; segments of a device do not overlap
  std::vector<Block> blocks;
  PagedArray<TraceEntry> entries;
  std::vector<DeviceTrace> traces;  // devices with trace entries
  AllocatorSettings settings;
  std::vector<std::int64_t> streams;
  StringTable strings;
  std::vector<std::string> problems;  // skipped data, one sentence each

  std::vector<Frame> frames;                   // distinct frames
  std::vector<std::uint32_t> stack_frames;     // indices into `frames`
  std::vector<std::size_t> stack_begin{0, 0};  // [i] is the first frame of stack i

  std::span<const std::uint32_t> frames_of(StackIndex stack) const {
    return std::span(stack_frames)
        .subspan(stack_begin[stack.index], stack_begin[stack.index + 1] - stack_begin[stack.index]);
  }
  std::size_t stack_count() const { return stack_begin.size() - 1; }
  std::span<const Block> blocks_of(const Segment& segment) const {
    return std::span(blocks).subspan(segment.first_block, segment.block_count);
  }
  std::span<const Segment> segments_of(std::int64_t device) const;
  const DeviceTrace* trace_of(std::int64_t device) const;
  const TraceEntry& entry(const DeviceTrace& trace, std::size_t index) const {
    return entries[trace.first_entry + index];
  }
  // Devices that have segments or a trace, ascending.
  std::vector<std::int64_t> devices() const;
};

// Who allocated a block of a snapshot: its stack, or where none was recorded, how much it asked for. (A loop
// asks for the same sizes again and again, so a size is the next best name of a place.)
struct PlaceIndex {
  std::uint32_t index = 0;
  friend auto operator<=>(const PlaceIndex&, const PlaceIndex&) = default;
};

struct AllocationPlace {
  StackIndex stack;                             // 0: none was recorded
  std::optional<std::int64_t> requested_bytes;  // of a place without a stack
};

class AllocationPlaces {
 public:
  PlaceIndex of(StackIndex stack, std::int64_t requested) {
    const std::uint64_t key =
        stack.index != 0 ? std::uint64_t{stack.index} << 1 : static_cast<std::uint64_t>(requested) << 1 | 1;
    const auto [it, is_new] = known_.emplace(key, static_cast<std::uint32_t>(places_.size()));
    if (is_new) places_.push_back({stack, stack.index != 0 ? std::nullopt : std::optional(requested)});
    return {it->second};
  }
  const AllocationPlace& operator[](PlaceIndex place) const { return places_[place.index]; }
  std::size_t size() const { return places_.size(); }

 private:
  std::vector<AllocationPlace> places_;
  std::unordered_map<std::uint64_t, std::uint32_t> known_;
};

}  // namespace headroom::snapshot
