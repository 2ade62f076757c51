// A memory snapshot in the format of torch.cuda.memory._dump_snapshot(), for pytorch.org/memory_viz and other
// readers. Each GPU is a device, and each allocation from the driver is a segment with one block. The heap of
// a --full recording is one more device after them. The heap's segments are the address ranges that ever
// contained blocks. They exist from beginning to end, because memory_viz needs a segment for each block at
// any time.
#include <algorithm>
#include <map>

#include "attribution/heap_fragmentation.h"
#include "attribution/layer_tree.h"
#include "attribution/live_map.h"
#include "exporters/encoders.h"
#include "exporters/exporter_list.h"
#include "exporters/named_stacks.h"
#include "snapshot/snapshot.h"

namespace headroom::exporters {
namespace {

using attribution::LayerIndex;

// Heap blocks that are further apart are in different segments.
constexpr std::uint64_t kSegmentGap = 64 << 10;

// Address ranges, sorted by start. Ranges closer than kSegmentGap are merged.
class Stretches {
 public:
  void add(std::uint64_t begin, std::uint64_t end) {
    auto next = ends_.upper_bound(begin);
    if (next != ends_.begin()) {
      const auto before = std::prev(next);
      if (end <= before->second) return;
      if (begin <= before->second + kSegmentGap) {
        begin = before->first;
        ends_.erase(before);
      }
    }
    while (next != ends_.end() && next->first <= end + kSegmentGap) {
      end = std::max(end, next->second);
      next = ends_.erase(next);
    }
    ends_.emplace(begin, end);
  }
  auto begin() const { return ends_.begin(); }
  auto end() const { return ends_.end(); }

 private:
  std::map<std::uint64_t, std::uint64_t> ends_;
};

struct SnapshotBlock {
  std::uint64_t size = 0;       // size in the segment
  std::uint64_t requested = 0;  // requested size
  std::uint32_t stack = 0;
  LayerIndex layer = 0;
};
using Blocks = std::map<std::uint64_t, SnapshotBlock>;  // by address

class SnapshotWriter {
 public:
  SnapshotWriter(const ExportInput& input, OutputSink& sink)
      : input_(input),
        pickle_(sink),
        layers_(input.recording),
        has_heap_(input.recording.info().full && input.recording.info().host_recorded) {
    for (const recording::Device& device : input.recording.info().devices)
      if (device.integrated) integrated_.push_back(device.ordinal);
  }

  // Collects what will be written. Returns false if there is nothing.
  bool survey() {
    input_.recording.for_each_event([&](const MemoryEvent& event) {
      if (is_of_device(event.kind))
        devices_ = std::max(devices_, event.device + 1U);
      else if (has_heap_ && attribution::is_allocation(event) && is_sound(event))
        heap_.add(event.address, event.address + attribution::chunk_bytes(event.size));
    });
    return has_heap_ || devices_ > 0;
  }

  void write() {
    pickle_.begin_dict();
    pickle_.begin_list("device_traces");
    std::vector<Blocks> at_end(devices_ + (has_heap_ ? 1 : 0));
    for (std::uint32_t device = 0; device < at_end.size(); ++device) {
      write_trace(device, at_end[device]);
      pickle_.end_item();
    }
    pickle_.begin_list("segments");
    for (std::uint32_t device = 0; device < devices_; ++device)
      for (const auto& [address, block] : at_end[device])
        write_segment(device, address, address + block.size, at_end[device]);
    if (has_heap_)
      for (const auto& [begin, end] : heap_) write_segment(devices_, begin, end, at_end[devices_]);
    pickle_.text("allocator_settings");
    pickle_.begin_dict();
    // `headroom report` then does not apply PyTorch's rounding rules.
    pickle_.boolean(snapshot::kExactSizesSetting, true);
    pickle_.end_dict();
    pickle_.begin_list("external_annotations");
    pickle_.end_dict();
    pickle_.finish();
  }

 private:
  bool is_sound(const MemoryEvent& event) const {
    attribution::LiveBlock block;
    return attribution::make_block(event, 0, 0, block);
  }
  bool is_counted(const MemoryEvent& event) const {
    return takes_device_memory(event.device_kind,
                               std::ranges::find(integrated_, event.device) != integrated_.end());
  }

  void write_trace(std::uint32_t device, Blocks& live) {
    pickle_.begin_list();
    time_us_ = 0;
    input_.recording.for_each_event([&](const MemoryEvent& event) {
      time_us_ = std::max(time_us_, event.time.count / 1000);
      if (device == devices_)
        visit_heap(event, live);
      else if (is_of_device(event.kind) && event.device == device && is_counted(event))
        visit_device(event, live);
    });
  }

  void visit_heap(const MemoryEvent& event, Blocks& live) {
    if (event.kind == MemoryEventKind::release) {
      release(event.address, live, false);
    } else if (attribution::is_allocation(event) && is_sound(event)) {
      release(event.address, live, false);  // its free was not recorded
      allocate(event, attribution::chunk_bytes(event.size), live, false);
    }
  }

  void visit_device(const MemoryEvent& event, Blocks& live) {
    if (event.kind == MemoryEventKind::device_release) {
      release(event.address, live, true);
    } else if (event.kind == MemoryEventKind::device_allocate && event.size > 0 &&
               event.size <= attribution::kLargestBlock) {
      release(event.address, live, true);
      allocate(event, event.size, live, true);
    } else if (event.kind == MemoryEventKind::device_refused) {
      // Instead of an address, PyTorch writes the free device memory. Here that is the limit minus the
      // charge.
      const std::uint64_t left = event.address > event.count ? event.address - event.count : 0;
      write_entry("oom", "device_free", left, event.size, event.stack.index, layers_.of(event.scope));
    }
  }

  void allocate(const MemoryEvent& event, std::uint64_t size, Blocks& live, bool with_segment) {
    const SnapshotBlock block{size, event.size, event.stack.index, layers_.of(event.scope)};
    if (with_segment) write_entry("segment_alloc", "addr", event.address, size, block.stack, block.layer);
    write_entry("alloc", "addr", event.address, event.size, block.stack, block.layer);
    live[event.address] = block;
  }

  // Blocks from before the recording are unknown, so their frees are ignored.
  void release(std::uint64_t address, Blocks& live, bool with_segment) {
    const auto found = live.find(address);
    if (found == live.end()) return;
    const SnapshotBlock& block = found->second;
    for (const char* action : {"free_requested", "free_completed"})
      write_entry(action, "addr", address, block.requested, block.stack, block.layer);
    if (with_segment) write_entry("segment_free", "addr", address, block.size, block.stack, block.layer);
    live.erase(found);
  }

  void write_entry(std::string_view action, std::string_view place, std::uint64_t address, std::uint64_t size,
                   std::uint32_t stack, LayerIndex layer) {
    pickle_.begin_dict();
    pickle_.text("action", action);
    write_integer(place, address);
    write_integer("size", size);
    write_integer("stream", 0);
    pickle_.integer("time_us", input_.recording.info().started_realtime_ns / 1000 + time_us_);
    write_frames(stack, layer);
    end_dict_item();
  }

  void write_segment(std::uint32_t device, std::uint64_t begin, std::uint64_t end, const Blocks& live) {
    std::uint64_t taken = 0, requested = 0;
    pickle_.begin_dict();
    pickle_.begin_list("blocks");
    std::uint64_t at = begin;
    auto next = live.lower_bound(begin);
    while (at < end) {
      const std::uint64_t until = next != live.end() ? std::min(next->first, end) : end;
      if (at < until) write_block("inactive", at, until - at, {});
      at = until;
      if (next == live.end() || at >= end) break;
      const auto [address, block] = *next++;
      // An allocator other than glibc's may place the next block closer than glibc's rounding implies.
      const std::uint64_t limit = next != live.end() ? std::min(next->first, end) : end;
      const std::uint64_t size = std::min(block.size, limit - address);
      write_block("active_allocated", address, size, block);
      taken += size;
      requested += std::min(block.requested, size);
      at = address + size;
    }
    write_integer("device", device);
    write_integer("address", begin);
    write_integer("total_size", end - begin);
    write_integer("allocated_size", taken);
    write_integer("active_size", taken);
    write_integer("requested_size", requested);
    write_integer("stream", 0);
    pickle_.text("segment_type", "large");
    pickle_.boolean("is_expandable", false);
    end_dict_item();
  }

  void write_block(std::string_view state, std::uint64_t address, std::uint64_t size,
                   const SnapshotBlock& block) {
    pickle_.begin_dict();
    write_integer("address", address);
    write_integer("size", size);
    write_integer("requested_size", std::min(block.requested, size));
    pickle_.text("state", state);
    write_frames(block.stack, block.layer);
    end_dict_item();
  }

  void write_integer(std::string_view key, std::uint64_t value) {
    pickle_.integer(key, static_cast<std::int64_t>(value));
  }

  void end_dict_item() {
    pickle_.end_dict();
    pickle_.end_item();
  }

  // Innermost first, layers last: memory_viz then shows the layers below their callers.
  void write_frames(std::uint32_t stack, LayerIndex layer) {
    pickle_.text("frames");
    const auto [found, is_new] = stacks_.try_emplace(std::pair(stack, layer));
    if (!is_new) return pickle_.kept(found->second);
    pickle_.begin_list();
    found->second = pickle_.keep();
    for (const std::uint64_t address : input_.recording.stacks().frames(StackId{stack}))
      for (const symbols::SourceFrame& frame : input_.symbolizer.frames_of(address, true))
        write_frame(frame.function, frame.file.empty() ? frame.module : frame.file, frame.line);
    for (; layer != 0; layer = layers_[layer].parent) write_frame(layers_[layer].name, "layer", 0);
  }

  void write_frame(std::string_view function, std::string_view file, int line) {
    pickle_.begin_dict();
    pickle_.text("name", function);
    pickle_.text("filename", file);
    pickle_.integer("line", line);
    end_dict_item();
  }

  const ExportInput& input_;
  PickleWriter pickle_;
  attribution::LayerTree layers_;
  bool has_heap_;
  std::vector<std::uint32_t> integrated_;
  std::uint32_t devices_ = 0;  // the number of the heap's device, if there is one
  Stretches heap_;
  std::map<std::pair<std::uint32_t, LayerIndex>, std::uint32_t> stacks_;  // lists that are already written
  std::int64_t time_us_ = 0;
};

}  // namespace

Status write_pytorch_snapshot(const ExportInput& input, OutputSink& sink) {
  SnapshotWriter writer(input, sink);
  if (!writer.survey())
    return input_error(fmt::format("{} has no data for a snapshot", input.file),
                       "small allocations were only sampled, and there is no GPU memory",
                       "record with headroom trace --full");
  prepare_symbols(input);
  writer.write();
  return {};
}

}  // namespace headroom::exporters
