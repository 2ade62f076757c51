// A model of PyTorch's caching allocator. It has pools of small and large blocks, best fit, splitting,
// merging, released segments, and blocks that wait for another stream. It knows the size of each block at
// each moment, and writes the same trace and snapshot as PyTorch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "snapshot/snapshot.h"

namespace headroom::test {

class CachingAllocatorModel {
 public:
  struct Options {
    std::int64_t device_bytes = std::int64_t{1} << 40;
    bool expandable = false;
  };
  explicit CachingAllocatorModel(Options options) : options_(options) {}
  CachingAllocatorModel() : CachingAllocatorModel(Options()) {}

  // Returns the address, or nullopt if memory is exhausted.
  std::optional<std::uint64_t> allocate(std::int64_t bytes, std::uint32_t stack = 0,
                                        std::int64_t stream = 0) {
    const std::int64_t size = (std::max<std::int64_t>(bytes, 1) + 511) / 512 * 512;
    auto found = best_fit(size, stream);
    if (found == blocks_.end() && !add_memory(size, stream)) {
      empty_cache();
      if (!add_memory(size, stream)) {
        record(snapshot::Action::oom, static_cast<std::uint64_t>(options_.device_bytes - reserved), size,
               stack, stream);
        return {};
      }
    }
    if (found == blocks_.end()) found = best_fit(size, stream);
    Block& block = found->second;
    const std::int64_t rest = block.size - size;
    const bool cut = block.is_small || options_.expandable ? rest >= 512 : rest > 1 << 20;
    if (cut) {
      Block remainder = block;
      remainder.size = rest;
      remainder.begins_segment = false;
      block.size = size;
      blocks_[found->first + static_cast<std::uint64_t>(size)] = remainder;
    }
    block.live = block.allocated = true;
    block.requested = bytes;
    block.stack = stack;
    record(snapshot::Action::alloc, found->first, bytes, stack, stream);
    allocated += block.size;
    peak_allocated = std::max(peak_allocated, allocated);
    return found->first;
  }

  void release(std::uint64_t address, bool another_stream_uses_it = false) {
    Block& block = blocks_.at(address);
    block.allocated = false;
    allocated -= block.size;
    record(snapshot::Action::free_requested, address, block.requested, block.stack, block.stream);
    if (another_stream_uses_it)
      waiting_.push_back(address);
    else
      complete(address);
  }

  // Simulates that the other streams have finished.
  void synchronize() {
    for (const std::uint64_t address : waiting_) complete(address);
    waiting_.clear();
  }

  void empty_cache() {
    for (auto it = blocks_.begin(); it != blocks_.end();) {
      const auto next = std::next(it);
      if (!it->second.live && options_.expandable) {
        unmap(it->first);
      } else if (!it->second.live && it->second.begins_segment &&
                 (next == blocks_.end() || next->second.begins_segment)) {
        record(snapshot::Action::segment_free, it->first, it->second.size, 0, it->second.stream);
        reserved -= it->second.size;
        blocks_.erase(it);
      }
      it = next;
    }
  }

  // A snapshot of the current state, with the last `entries` of the trace.
  snapshot::Snapshot take(std::size_t entries = ~std::size_t{0}) const {
    snapshot::Snapshot taken;
    taken.streams = {0, 1, 2, 3};
    for (const auto& [address, block] : blocks_) {
      if (block.begins_segment) {
        snapshot::Segment segment;
        segment.address = address;
        segment.stream = block.stream;
        segment.is_large = !block.is_small;
        segment.is_expandable = options_.expandable;
        segment.first_block = taken.blocks.size();
        taken.segments.push_back(segment);
      }
      taken.segments.back().size += block.size;
      ++taken.segments.back().block_count;
      taken.blocks.push_back({address,
                              block.size,
                              block.live ? block.requested : 0,
                              {block.live ? block.stack : 0},
                              block.allocated ? snapshot::BlockState::active_allocated
                              : block.live    ? snapshot::BlockState::pending_free
                                              : snapshot::BlockState::inactive});
    }
    const std::size_t count = std::min(entries, trace_.size());
    for (std::size_t i = trace_.size() - count; i < trace_.size(); ++i) taken.entries.push_back(trace_[i]);
    if (count > 0) taken.traces.push_back({0, 0, count});
    const std::uint32_t stacks = 64;  // one frame each
    for (std::uint32_t i = 0; i + 1 < stacks; ++i) {
      taken.frames.push_back(
          {taken.strings.intern("f" + std::to_string(i)), taken.strings.intern("f.py"), i});
      taken.stack_frames.push_back(i);
      taken.stack_begin.push_back(taken.stack_frames.size());
    }
    return taken;
  }

  std::int64_t allocated = 0, reserved = 0, peak_allocated = 0, peak_reserved = 0;
  std::size_t entries() const { return trace_.size(); }
  // Restarts the measurement of peaks.
  void reset_peaks() {
    peak_allocated = allocated;
    peak_reserved = reserved;
  }

 private:
  struct Block {
    std::int64_t size = 0, requested = 0, stream = 0;
    std::uint32_t stack = 0;
    bool live = false, allocated = false, is_small = false, begins_segment = false;
  };
  using Blocks = std::map<std::uint64_t, Block>;

  Blocks::iterator best_fit(std::int64_t size, std::int64_t stream) {
    auto best = blocks_.end();
    for (auto it = blocks_.begin(); it != blocks_.end(); ++it) {
      const Block& block = it->second;
      if (block.live || block.stream != stream || block.is_small != (size <= 1 << 20) || block.size < size)
        continue;
      if (best == blocks_.end() || block.size < best->second.size) best = it;
    }
    return best;
  }

  bool add_memory(std::int64_t size, std::int64_t stream) {
    const bool is_small = size <= 1 << 20;
    if (options_.expandable) return expand(size, stream, is_small);
    const std::int64_t two = 2 << 20;
    const std::int64_t bytes = is_small ? two : size < 10 << 20 ? 20 << 20 : (size + two - 1) / two * two;
    if (reserved + bytes > options_.device_bytes) return false;
    // Some segments are adjacent, but remain two segments.
    const std::uint64_t address = next_address_;
    next_address_ += static_cast<std::uint64_t>(bytes) + (trace_.size() % 3 == 0 ? 0 : 4096);
    Block block;
    block.size = bytes;
    block.stream = stream;
    block.is_small = is_small;
    block.begins_segment = true;
    blocks_[address] = block;
    grow(snapshot::Action::segment_alloc, address, bytes, stream);
    return true;
  }

  void grow(snapshot::Action action, std::uint64_t address, std::int64_t bytes, std::int64_t stream) {
    reserved += bytes;
    peak_reserved = std::max(peak_reserved, reserved);
    record(action, address, bytes, 0, stream);
  }

  // Each stream and pool has one address range. Pages are mapped at its end.
  bool expand(std::int64_t size, std::int64_t stream, bool is_small) {
    const std::int64_t page = is_small ? 2 << 20 : 20 << 20;
    const auto key = std::pair(stream, is_small);
    if (!ends_.contains(key)) ends_[key] = (std::uint64_t{1} << 40) * (4 + ends_.size());
    const std::uint64_t end = ends_[key];
    Blocks::iterator last = blocks_.lower_bound(end);
    std::int64_t tail = 0;
    if (last != blocks_.begin()) {
      --last;
      const Block& block = last->second;
      if (last->first + static_cast<std::uint64_t>(block.size) == end && !block.live &&
          block.stream == stream)
        tail = block.size;
      else
        ++last;
    }
    const std::int64_t bytes = (size - tail + page - 1) / page * page;
    if (reserved + bytes > options_.device_bytes) return false;
    grow(snapshot::Action::segment_map, end, bytes, stream);
    ends_[key] = end + static_cast<std::uint64_t>(bytes);
    if (tail > 0) {
      last->second.size += bytes;
      return true;
    }
    Block block;
    block.size = bytes;
    block.stream = stream;
    block.is_small = is_small;
    const auto before = blocks_.lower_bound(end);
    block.begins_segment =
        before == blocks_.begin() ||
        std::prev(before)->first + static_cast<std::uint64_t>(std::prev(before)->second.size) != end;
    blocks_[end] = block;
    return true;
  }

  // Unmaps the pages that lie entirely in a free block.
  void unmap(std::uint64_t address) {
    const Block block = blocks_.at(address);
    const std::uint64_t page = block.is_small ? 2 << 20 : 20 << 20;
    const std::uint64_t base = std::uint64_t{1} << 40, end = address + static_cast<std::uint64_t>(block.size);
    const std::uint64_t first = (address - base + page - 1) / page * page + base,
                        last = (end - base) / page * page + base;
    if (first >= last) return;
    record(snapshot::Action::segment_unmap, first, static_cast<std::int64_t>(last - first), 0, block.stream);
    reserved -= static_cast<std::int64_t>(last - first);
    blocks_.erase(address);
    if (first > address) {
      blocks_[address] = block;
      blocks_[address].size = static_cast<std::int64_t>(first - address);
    }
    if (end > last) {
      blocks_[last] = block;
      blocks_[last].size = static_cast<std::int64_t>(end - last);
    }
    if (const auto after = blocks_.find(last); after != blocks_.end()) after->second.begins_segment = true;
  }

  void complete(std::uint64_t address) {
    auto it = blocks_.find(address);
    record(snapshot::Action::free_completed, address, it->second.requested, it->second.stack,
           it->second.stream);
    it->second.live = false;
    const auto next = std::next(it);
    if (next != blocks_.end() && !next->second.live && !next->second.begins_segment) {
      it->second.size += next->second.size;
      blocks_.erase(next);
    }
    if (!it->second.begins_segment && !std::prev(it)->second.live) {
      std::prev(it)->second.size += it->second.size;
      blocks_.erase(it);
    }
  }

  void record(snapshot::Action action, std::uint64_t address, std::int64_t size, std::uint32_t stack,
              std::int64_t stream) {
    snapshot::TraceEntry entry;
    entry.action = action;
    entry.address = address;
    entry.size = size;
    entry.time_us = 1'000'000 + static_cast<std::int64_t>(trace_.size());
    entry.stack = {stack};
    entry.stream = static_cast<std::uint32_t>(stream);
    trace_.push_back(entry);
  }

  Options options_;
  Blocks blocks_;
  std::vector<snapshot::TraceEntry> trace_;
  std::vector<std::uint64_t> waiting_;
  std::map<std::pair<std::int64_t, bool>, std::uint64_t> ends_;
  std::uint64_t next_address_ = std::uint64_t{1} << 40;
};

}  // namespace headroom::test
