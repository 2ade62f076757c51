// A memory snapshot of PyTorch, as its caching allocator saw itself: what it has of each device (segments),
// how it has cut that up (blocks), and what it did last (a trace a device).
//
// Versions of torch differ in what they write down; what is absent here is absent there:
//   1.13        a list of segments and no traces; blocks have a history
//   2.0         traces without times; still a history
//   2.1         blocks have a requested size and their stack themselves
//   2.2 to 2.11 times of trace entries, expandable segments, annotations, the user's and the compiler's words
// What holds of blocks and entries is checked when they are read (snapshot_reader.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "snapshot/paged_array.h"
#include "snapshot/string_table.h"

namespace headroom::snapshot {

// A list of frames, innermost first; 0 is the empty one: no stack was recorded.
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
  inactive,          // free, kept for the next request
  active_allocated,  // a tensor's
  pending_free,      // released, but another stream may still use it
};

struct Block {
  std::uint64_t address = 0;
  std::int64_t size = 0;       // what it takes up
  std::int64_t requested = 0;  // what was asked for; 0 of one that is free
  StackIndex stack;            // that allocated it
  BlockState state = BlockState::inactive;
  bool is_live() const { return state != BlockState::inactive; }
};

struct Segment {
  std::int64_t device = 0;
  std::uint64_t address = 0;
  std::int64_t size = 0;
  std::int64_t stream = 0;
  bool is_large = true;  // the pool of requests above 1 MiB
  bool is_expandable = false;
  bool in_private_pool = false;  // of a CUDA graph, or torch.cuda.MemPool
  StackIndex stack;
  std::size_t first_block = 0, block_count = 0;  // in Snapshot::blocks, by address and without gaps
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
  other,  // one that this Headroom does not know
};
inline constexpr std::size_t kActions = 10;
// As PyTorch writes them: "free_requested".
std::string_view name_of(Action action);

struct TraceEntry {
  std::uint64_t address = 0;  // of oom: how many bytes the device had free
  std::int64_t size = 0;      // as it was asked for; of oom: rounded up
  std::int64_t time_us = 0;   // since 1970; 0 where it was not recorded
  StackIndex stack;
  std::uint32_t stream = 0;  // in Snapshot::streams
  std::uint32_t note = 0;    // in Snapshot::notes; 0: none
  Action action = Action::other;
};

// What the program and its compiler said of an allocation.
struct Note {
  StringId user_metadata, compile_context, category;
  friend auto operator<=>(const Note&, const Note&) = default;
};

struct Annotation {  // such as a step of the profiler
  std::int64_t device = 0, time_us = 0;
  std::string text;
};

// What PyTorch was told; absent where the snapshot does not say.
inline constexpr std::string_view kExactSizesSetting = "headroom_exact_sizes";
struct AllocatorSettings {
  std::string text;  // of PYTORCH_CUDA_ALLOC_CONF
  std::optional<bool> expandable_segments;
  std::optional<std::int64_t> max_split_bytes;
  // Not PyTorch's caching allocator's: nothing is rounded, and any rest is a block of its own. Of what
  // `headroom export --to pytorch-snapshot` writes.
  bool has_exact_sizes = false;
  // Powers of two are divided in so many steps, from a size in MiB on.
  std::vector<std::pair<std::int64_t, std::int64_t>> roundup_power2_divisions;
};

struct DeviceTrace {
  std::int64_t device = 0;
  std::size_t first_entry = 0, entry_count = 0;  // in Snapshot::entries, in the order of time
};

struct Snapshot {
  std::vector<Segment> segments;  // by device and address; those of a device do not overlap
  std::vector<Block> blocks;
  PagedArray<TraceEntry> entries;
  std::vector<DeviceTrace> traces;  // those that have entries
  AllocatorSettings settings;
  std::vector<Annotation> annotations;
  std::vector<std::int64_t> streams;
  std::vector<Note> notes;
  StringTable strings;
  std::vector<std::string> problems;  // what was passed over, a sentence each

  std::vector<Frame> frames;                   // distinct
  std::vector<std::uint32_t> stack_frames;     // indices of `frames`
  std::vector<std::size_t> stack_begin{0, 0};  // [i] is where those of stack i begin

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
  // Those that have segments or a trace, ascending.
  std::vector<std::int64_t> devices() const;
};

}  // namespace headroom::snapshot
