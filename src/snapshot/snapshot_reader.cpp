#include "snapshot/snapshot_reader.h"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "base/text.h"
#include "snapshot/pickle_reader.h"
#include "snapshot/snapshot.h"
#include "types/enum_names.h"

namespace headroom::snapshot {

namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 46, kMostDevices = 1 << 16;
// Bounds the sum of all sizes in a trace, so that sums never overflow 64 bits.
constexpr std::int64_t kMostInATrace = std::int64_t{1} << 60;
constexpr std::string_view kTakeAgain = "take the snapshot again, or copy its file again";

// Stores each distinct frame and stack of a snapshot once. Nearly every trace entry has a list of frames, but
// millions of lists contain only some hundred different ones.
class StackInterner {
 public:
  StackInterner(PickleData& data, Snapshot& snapshot)
      : data_(data), snapshot_(snapshot), frame_keys_(data, {"name", "filename", "line"}) {}

  // Frames have numbers from kFrame on.
  static constexpr std::uint32_t kFrame = std::uint32_t{1} << 31;

  // The stack of a list of frames, converted or not. Stack 0 if the value is not a list or has no frames.
  StackIndex stack_of(PickleValue list) {
    if (!data_.is(list, PickleKind::list) && !data_.is(list, PickleKind::tuple)) return {};
    if (const auto kept = data_.kept(list)) return {*kept};
    // Search the list once, however long it is and however many entries refer to it.
    const std::uint32_t stack = keep_stack(list).value_or(0);
    data_.set_kept(list, stack);
    return {stack};
  }

  // For KeepObject: the number of a list of frames; nothing for other lists.
  std::optional<std::uint32_t> keep_stack(PickleValue list) {
    frames_.clear();
    bool all_are_frames = true;
    data_.for_each_item(list, [&](PickleValue item) {
      if (!all_are_frames || frames_.size() == kMostFrames) return;
      const auto kept = data_.is(item, PickleKind::dict) ? data_.kept(item) : std::nullopt;
      const auto frame = kept ? kept : keep_frame(item);
      all_are_frames = frame && *frame >= kFrame;
      if (all_are_frames) frames_.push_back(*frame - kFrame);
    });
    if (!all_are_frames) return {};
    return intern(frames_);
  }

  // The same of a dict that is a frame.
  std::optional<std::uint32_t> keep_frame(PickleValue dict) {
    const auto [name, file, line] = frame_keys_.read(dict);
    if (!data_.is(name, PickleKind::text) || !data_.is(file, PickleKind::text)) return {};
    const Frame frame{data_.text_id(name), data_.text_id(file), data_.integer(line).value_or(0)};
    const std::uint64_t hash = mixed(mixed(mixed(hash_seed(), frame.function.index), frame.file.index),
                                     static_cast<std::uint64_t>(frame.line));
    const auto [begin, end] = frames_by_hash_.equal_range(hash);
    std::size_t looked_at = 0;
    for (auto it = begin; it != end && looked_at < kMostOfAHash; ++it, ++looked_at)
      if (snapshot_.frames[it->second] == frame) return kFrame + it->second;
    if (snapshot_.frames.size() == kFrame) return {};
    const auto number = static_cast<std::uint32_t>(snapshot_.frames.size());
    snapshot_.frames.push_back(frame);
    frames_by_hash_.emplace(hash, number);
    return kFrame + number;
  }

 private:
  static constexpr std::size_t kMostFrames = 512;  // the innermost frames are kept

  std::uint32_t intern(const std::vector<std::uint32_t>& frames) {
    if (frames.empty()) return 0;
    std::uint64_t hash = hash_seed() ^ frames.size();
    for (const std::uint32_t frame : frames) hash = mixed(hash, frame);
    const auto [begin, end] = stacks_by_hash_.equal_range(hash);
    std::size_t looked_at = 0;
    for (auto it = begin; it != end && looked_at < kMostOfAHash; ++it, ++looked_at)
      if (std::ranges::equal(snapshot_.frames_of({it->second}), frames)) return it->second;
    const auto index = static_cast<std::uint32_t>(snapshot_.stack_count());
    snapshot_.stack_frames.insert(snapshot_.stack_frames.end(), frames.begin(), frames.end());
    snapshot_.stack_begin.push_back(snapshot_.stack_frames.size());
    stacks_by_hash_.emplace(hash, index);
    return index;
  }

  PickleData& data_;
  Snapshot& snapshot_;
  PickleColumns<3> frame_keys_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> frames_by_hash_, stacks_by_hash_;
  std::vector<std::uint32_t> frames_;  // of the current list
};

class SnapshotReader {
 public:
  SnapshotReader()
      : top_keys_(data_, {"segments", "device_traces", "allocator_settings"}),
        segment_keys_(data_, {"device", "address", "total_size", "stream", "segment_type", "segment_pool_id",
                              "is_expandable", "frames", "blocks"}),
        block_keys_(data_, {"address", "size", "requested_size", "state", "frames", "history"}),
        history_keys_(data_, {"real_size", "frames"}),
        entry_keys_(data_, {"action", "addr", "device_free", "size", "stream", "time_us", "frames"}),
        stacks_(data_, snapshot_) {
    for (std::size_t i = 0; i < kActions; ++i) {
      const StringId id = data_.strings().intern(name_of(static_cast<Action>(i)));
      actions_.resize(std::max<std::size_t>(actions_.size(), id.index + 1), Action::other);
      actions_[id.index] = static_cast<Action>(i);
    }
  }

  Result<Snapshot> read(PickleInput& input) {
    const auto keep_object = [this](PickleValue object) { return keep(object); };
    if (auto status = read_pickle(input, data_, keep_object); !status) return forward_error(status);
    visited_.resize(data_.object_count());
    auto [segments, traces, settings] = top_keys_.read(data_.root());
    if (data_.is(data_.root(), PickleKind::list)) segments = data_.root();  // torch 1.13
    if (!data_.is(segments, PickleKind::list))
      return input_error("", "it is a pickle, but not a memory snapshot of PyTorch",
                         "make one with torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")");
    data_.for_each_item(segments, [&](PickleValue segment) {
      if (damage_.empty()) read_segment(segment);
    });
    read_traces(traces);
    read_settings(settings);
    order_segments();
    if (!damage_.empty()) return input_error("", std::move(damage_), std::string(kTakeAgain));
    report_problems();
    snapshot_.strings = std::move(data_.strings());
    return std::move(snapshot_);
  }

 private:
  // Trace entries, frames and stacks exist in millions, so they are converted right after they are read.
  std::optional<std::uint32_t> keep(PickleValue object) {
    if (data_.is(object, PickleKind::list)) return stacks_.keep_stack(object);
    TraceEntry entry;
    if (!read_entry(object, entry)) return stacks_.keep_frame(object);
    if (snapshot_.entries.size() >= StackInterner::kFrame) return {};
    snapshot_.entries.push_back(entry);
    return static_cast<std::uint32_t>(snapshot_.entries.size() - 1);
  }

  // --- values ---

  // Records a damage; the first one is reported.
  void damaged(std::string why) {
    if (damage_.empty()) damage_ = std::move(why);
  }
  // Each object makes at most one segment, block or entry. Repeated references cost a hostile file nothing,
  // but would be counted.
  bool is_first_visit(PickleValue object) {
    if (visited_[object.index()]) return false;
    visited_[object.index()] = true;
    return true;
  }
  std::optional<std::int64_t> size_in(PickleValue value) const {
    const auto size = data_.integer(value);
    return size && *size >= 0 && *size < kMostBytes ? size : std::nullopt;
  }
  std::optional<std::uint64_t> address_in(PickleValue value) const {
    const auto address = data_.integer(value);
    return address ? std::optional(static_cast<std::uint64_t>(*address)) : std::nullopt;
  }
  static bool fits(std::uint64_t address, std::int64_t size) {
    return address <= ~std::uint64_t{0} - static_cast<std::uint64_t>(size);
  }

  // --- segments and blocks ---

  void read_segment(PickleValue value) {
    if (!data_.is(value, PickleKind::dict) || !is_first_visit(value)) return damaged("a segment is damaged");
    const auto [device, address, size, stream, type, pool, expandable, frames, blocks] =
        segment_keys_.read(value);
    const auto at = address_in(address);
    const auto bytes = size_in(size);
    const std::int64_t ordinal = data_.integer(device).value_or(0);
    if (!at || !bytes || !fits(*at, *bytes) || ordinal < 0 || ordinal >= kMostDevices)
      return damaged("a segment has no address, no size or no device");
    Segment segment;
    segment.device = ordinal;
    segment.address = *at;
    segment.size = *bytes;
    segment.stream = data_.integer(stream).value_or(0);
    segment.is_large = data_.text(type).value_or("large") != "small";
    segment.is_expandable = data_.boolean(expandable).value_or(false);
    constexpr std::size_t kPoolParts = 2;
    const auto parts = data_.first_items(pool);
    for (const PickleValue part : parts.first(std::min(parts.size(), kPoolParts)))
      segment.in_private_pool |= data_.integer(part).value_or(0) != 0;
    segment.stack = stacks_.stack_of(frames);
    segment.first_block = snapshot_.blocks.size();
    std::uint64_t next = *at;
    if (data_.is(blocks, PickleKind::list) && !is_first_visit(blocks))
      return damaged("two segments have the same blocks");
    data_.for_each_item(blocks, [&](PickleValue block) {
      if (damage_.empty()) read_block(block, next);
    });
    segment.block_count = snapshot_.blocks.size() - segment.first_block;
    if (next != *at + static_cast<std::uint64_t>(*bytes))
      return damaged(fmt::format("the blocks of the segment at {:#x} do not fill it", *at));
    snapshot_.segments.push_back(segment);
  }

  void read_block(PickleValue value, std::uint64_t& next) {
    if (!data_.is(value, PickleKind::dict) || !is_first_visit(value)) return damaged("a block is damaged");
    const auto [address, size, requested, state, frames, history] = block_keys_.read(value);
    const auto bytes = size_in(size);
    // Before torch 2.3 blocks have no address: each starts at the end of the previous one.
    if (!bytes || !fits(next, *bytes) || address_in(address).value_or(next) != next)
      return damaged(fmt::format("the block at {:#x} is damaged", next));
    Block block;
    block.address = next;
    block.size = *bytes;
    next += static_cast<std::uint64_t>(*bytes);
    const std::string_view word = data_.text(state).value_or("");
    if (word == "active_allocated") {
      block.state = BlockState::active_allocated;
    } else if (word == "active_pending_free" || word == "active_awaiting_free") {
      block.state = BlockState::pending_free;
    } else if (word != "inactive") {
      ++unknown_states_;
    }
    if (block.is_live()) {
      block.requested = std::min(*bytes, size_in(requested).value_or(*bytes));
      block.stack = stacks_.stack_of(frames);
      if (data_.is(history, PickleKind::list)) read_history(history, block);
    }
    snapshot_.blocks.push_back(block);
  }

  // Before torch 2.1: the previous users of the block, last first.
  void read_history(PickleValue history, Block& block) {
    const auto items = data_.first_items(history);
    if (items.empty()) return;
    const auto [real_size, frames] = history_keys_.read(items.front());
    block.requested = std::min(block.size, size_in(real_size).value_or(block.requested));
    block.stack = stacks_.stack_of(frames);
  }

  void order_segments() {
    std::ranges::sort(snapshot_.segments, [](const Segment& a, const Segment& b) {
      return a.device != b.device ? a.device < b.device : a.address < b.address;
    });
    std::int64_t total = 0;  // of the device
    for (std::size_t i = 0; i < snapshot_.segments.size(); ++i) {
      const Segment& segment = snapshot_.segments[i];
      const Segment* before = i > 0 ? &snapshot_.segments[i - 1] : nullptr;
      const bool same_device = before != nullptr && before->device == segment.device;
      if (same_device && before->address + static_cast<std::uint64_t>(before->size) > segment.address)
        return damaged(fmt::format("two segments overlap at {:#x}", segment.address));
      total = segment.size + (same_device ? total : 0);
      if (total > kMostBytes) return damaged("a device has more than 64 TiB");
    }
  }

  // --- traces ---

  void read_traces(PickleValue traces) {
    std::int64_t device = 0;
    data_.for_each_item(traces, [&](PickleValue list) {
      if (data_.is(list, PickleKind::list) && is_first_visit(list) && device < kMostDevices)
        read_trace(list, device);
      ++device;
    });
  }

  void read_trace(PickleValue list, std::int64_t device) {
    DeviceTrace trace;
    trace.device = device;
    std::int64_t sum = 0;
    data_.for_each_item(list, [&](PickleValue value) {
      const auto number = entry_number(value);
      if (!number) {
        ++unreadable_entries_;
        return;
      }
      const TraceEntry& entry = snapshot_.entries[*number];
      sum = std::min(sum + entry.size, kMostInATrace);
      unknown_actions_ += entry.action == Action::other;
      append(trace, *number);
    });
    if (sum == kMostInATrace) damaged("the sizes in a trace add up to more than any device can allocate");
    if (trace.entry_count > 0) snapshot_.traces.push_back(trace);
  }

  // The number of the entry that this dict became. Nothing if it is not an entry, or already belongs to a
  // trace.
  std::optional<std::uint32_t> entry_number(PickleValue value) {
    if (!data_.is(value, PickleKind::dict) || !is_first_visit(value)) return {};
    if (const auto kept = data_.kept(value)) return *kept < StackInterner::kFrame ? kept : std::nullopt;
    const auto number = keep(value);
    return number && *number < StackInterner::kFrame ? number : std::nullopt;
  }

  // Stores the entries of a trace contiguously, as they are if each was converted when it was read.
  void append(DeviceTrace& trace, std::uint32_t number) {
    auto& entries = snapshot_.entries;
    if (trace.entry_count == 0) trace.first_entry = number;
    if (number != trace.first_entry + trace.entry_count) {
      if (trace.first_entry + trace.entry_count != entries.size()) {
        const std::size_t first = entries.size();
        for (std::size_t i = 0; i < trace.entry_count; ++i)
          entries.push_back(TraceEntry(entries[trace.first_entry + i]));
        trace.first_entry = first;
      }
      entries.push_back(TraceEntry(entries[number]));
    }
    ++trace.entry_count;
  }

  bool read_entry(PickleValue value, TraceEntry& entry) {
    const auto [action, addr, device_free, size, stream, time, frames] = entry_keys_.read(value);
    if (!data_.is(action, PickleKind::text)) return false;
    const std::size_t word = data_.text_id(action).index;
    entry.action = word < actions_.size() ? actions_[word] : Action::other;
    const auto address = address_in(entry.action == Action::oom ? device_free : addr);
    const auto bytes = size_in(size);
    if (!address || !bytes || !fits(*address, *bytes)) return false;
    if (entry.action == Action::oom && *address >= static_cast<std::uint64_t>(kMostBytes)) return false;
    entry.address = *address;
    entry.size = *bytes;
    entry.time_us = std::max<std::int64_t>(0, data_.integer(time).value_or(0));
    entry.stack = stacks_.stack_of(frames);
    entry.stream = stream_number(data_.integer(stream).value_or(0));
    return true;
  }

  std::uint32_t stream_number(std::int64_t stream) {
    const auto [it, is_new] = streams_.emplace(stream, static_cast<std::uint32_t>(streams_.size()));
    if (is_new) snapshot_.streams.push_back(stream);
    return it->second;
  }

  // --- settings ---

  void read_settings(PickleValue settings) {
    const auto value_of = [&](std::string_view key) {
      return data_.find(settings, data_.strings().intern(key));
    };
    AllocatorSettings& result = snapshot_.settings;
    result.text = data_.text(value_of("PYTORCH_CUDA_ALLOC_CONF")).value_or("");
    result.expandable_segments = data_.boolean(value_of("expandable_segments"));
    result.has_exact_sizes = data_.boolean(value_of(kExactSizesSetting)).value_or(false);
    // PyTorch writes -1 for "no limit".
    const auto max_split = data_.integer(value_of("max_split_size"));
    if (max_split && *max_split > 0) result.max_split_bytes = max_split;
    data_.for_each_pair(value_of("roundup_power2_divisions"), [&](PickleValue key, PickleValue value) {
      const auto mebibytes = parse_number<std::int64_t>(data_.text(key).value_or(""));
      const auto divisions = data_.integer(value);
      if (mebibytes && divisions && *divisions > 0)
        result.roundup_power2_divisions.emplace_back(*mebibytes, *divisions);
    });
    std::ranges::sort(result.roundup_power2_divisions);
  }

  void report_problems() {
    const auto report = [&](std::int64_t count, std::string_view what) {
      if (count > 0) snapshot_.problems.push_back(fmt::format("{} {}", count, what));
    };
    report(unreadable_entries_, "entries of the trace could not be read and are left out");
    report(unknown_actions_,
           "entries of the trace have an action that this version of Headroom does not know");
    report(unknown_states_,
           "blocks are in a state that this version of Headroom does not know and count as free");
  }

  PickleData data_;
  Snapshot snapshot_;
  PickleColumns<3> top_keys_;
  PickleColumns<9> segment_keys_;
  PickleColumns<6> block_keys_;
  PickleColumns<2> history_keys_;
  PickleColumns<7> entry_keys_;
  StackInterner stacks_;
  std::vector<bool> visited_;    // by object
  std::vector<Action> actions_;  // by the id of the name
  std::map<std::int64_t, std::uint32_t> streams_;
  std::string damage_;
  std::int64_t unreadable_entries_ = 0, unknown_actions_ = 0, unknown_states_ = 0;
};

Error of_file(Error error, const std::filesystem::path& file) {
  if (error.what.empty()) error.what = fmt::format("cannot read {}", file.string());
  return error;
}

}  // namespace

bool is_snapshot_file(const std::filesystem::path& file) {
  std::filesystem::path name = file.filename();
  if (to_lower(name.extension().string()) == ".gz") name = name.stem();
  const std::string extension = to_lower(name.extension().string());
  if (extension == ".pickle" || extension == ".pkl") return true;
  constexpr std::size_t kFirst = 16;
  auto input = PickleInput::open(file);
  if (!input) return false;
  input->need(kFirst);
  return looks_like_pickle({reinterpret_cast<const char*>(input->at()), std::min(kFirst, input->ready())});
}

Result<Snapshot> open_snapshot(const std::filesystem::path& file) {
  auto input = PickleInput::open(file);
  if (!input) return forward_error(input);
  auto snapshot = read_snapshot(*input);
  if (!snapshot) return tl::unexpected<Error>(of_file(std::move(snapshot.error()), file));
  return snapshot;
}

Result<Snapshot> read_snapshot(PickleInput& input) { return SnapshotReader().read(input); }

std::string_view name_of(Action action) {
  return name_in({"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map",
                  "segment_unmap", "snapshot", "oom", "other"},
                 action);
}

std::span<const Segment> Snapshot::segments_of(std::int64_t device) const {
  const auto begin = std::ranges::lower_bound(segments, device, {}, &Segment::device);
  const auto end = std::ranges::upper_bound(segments, device, {}, &Segment::device);
  return {begin, end};
}

const DeviceTrace* Snapshot::trace_of(std::int64_t device) const {
  const auto found = std::ranges::find(traces, device, &DeviceTrace::device);
  return found == traces.end() ? nullptr : &*found;
}

std::vector<std::int64_t> Snapshot::devices() const {
  std::set<std::int64_t> devices;
  for (const Segment& segment : segments) devices.insert(segment.device);
  for (const DeviceTrace& trace : traces) devices.insert(trace.device);
  return {devices.begin(), devices.end()};
}

}  // namespace headroom::snapshot
