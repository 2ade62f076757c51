// Decodes the records of one segment. Segments are independent: times count from the base time in the header,
// addresses from 0, and each segment defines the stacks that it uses.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <vector>

#include "recording/encoding.h"
#include "recording/format.h"
#include "recording/module_places.h"
#include "recording/sample_weights.h"
#include "types/memory_event.h"

namespace headroom::recording {

// Converts time units since the start of the recording to nanoseconds, by a 32.32 fixed-point factor.
struct TimeScale {
  std::uint64_t nanoseconds_per_unit_32 = std::uint64_t{1} << 32;
  Nanoseconds of(std::uint64_t units) const {
    __extension__ using Wide = unsigned __int128;
    return {static_cast<std::int64_t>(Wide{units} * nanoseconds_per_unit_32 >> 32)};
  }
};

// The committed records of a segment, at their position in the file, with its header.
struct SegmentSpan : SegmentSeal {
  const std::uint8_t* begin = nullptr;
  const std::uint8_t* end = nullptr;
  std::uint64_t slot = 0;   // its place in the file
  bool is_checked = false;  // the checksum was verified, or there is none
  bool grew = false;        // extends past the file's length at opening: the last record may be incomplete
  bool has_counted() const { return (counted_allocations | counted_bytes | counted_releases) != 0; }
};

class SegmentDecoder {
 public:
  // `coin_key`: mixed() of the recording's start time (sample_weights.h). `weights` and `stacks` belong to
  // the recording and outlive the decoder. Without `stacks` (null) all events have stack 0. `bytes`: the copy
  // that contains the segment, if it was copied from the file.
  SegmentDecoder(const SegmentSpan& segment, const TimeScale& scale, SampleWeights& weights,
                 std::uint64_t coin_key, StackTable* stacks, std::vector<std::uint8_t> bytes = {})
      : span_(segment),
        at_(segment.begin),
        scale_(scale),
        table_(stacks),
        weights_(&weights),
        coin_key_(coin_key),
        time_(segment.base_time),
        counts_are_unread_(segment.has_counted()),
        bytes_(std::move(bytes)) {
    event_.thread = ThreadIndex{segment.thread};
    event_.scope = ScopeId{segment.scope};
    local_stacks_.push_back(StackId{});
  }

  // Decodes the next event. Returns false at the end, or at invalid bytes (then damage() has the reason).
  bool advance();
  // The process has written more records of the segment.
  void extend(const std::uint8_t* end) { span_.end = end; }
  const MemoryEvent& event() const { return event_; }
  std::uint64_t next_time() const { return time_; }
  bool comes_before(const SegmentDecoder& other) const {
    if (time_ != other.time_) return time_ < other.time_;
    const bool releases = is_release(event_.kind), other_releases = is_release(other.event_.kind);
    return releases != other_releases ? releases : span_.number < other.span_.number;
  }

  const char* damage() const { return damage_; }  // null if there is none
  std::uint64_t number() const { return span_.number; }
  std::size_t offset() const { return static_cast<std::size_t>(at_ - span_.begin); }
  const std::uint8_t* begin() const { return span_.begin; }
  const std::uint8_t* end() const { return span_.end; }
  std::size_t bytes_left() const { return static_cast<std::size_t>(span_.end - at_); }
  // The segment ends within a record whose end was written after the file was opened.
  bool is_cut_short() const { return span_.grew && bytes_left() < kMaxStackBytes; }

 private:
  bool fail(const char* what) {
    damage_ = what;
    return false;
  }
  void read_address(const std::uint8_t*& p) {
    address_ += static_cast<std::uint64_t>(unzigzag(get_varint(p, span_.end)));
    event_.address = address_ << kAddressShift;
  }
  bool read_stack_reference(const std::uint8_t*& p) {
    const std::uint64_t local = get_varint(p, span_.end);
    if (local >= local_stacks_.size()) return false;
    event_.stack = local_stacks_[local];
    return true;
  }
  static bool is_release(MemoryEventKind kind) {
    return kind == MemoryEventKind::release || kind == MemoryEventKind::device_release;
  }
  bool define_stack(const std::uint8_t*& p);
  // Returns null, or the kind of damage. A record of a later version is skipped (is_event = false).
  const char* read_extension(const std::uint8_t*& p, bool& is_event);
  bool read_header_counts();
  void weigh_sample();

  SegmentSpan span_;
  const std::uint8_t* at_;
  TimeScale scale_;
  StackTable* table_;
  SampleWeights* weights_;
  std::uint64_t coin_key_, time_, address_ = 0;
  MemoryEvent event_;
  // A counters record becomes two events: first the allocations, then the frees.
  std::uint64_t pending_releases_ = 0;
  bool counts_are_unread_;  // the header's counts are read as a last record
  std::vector<std::uint8_t> bytes_;
  ScopeId scope_before_counters_;
  std::vector<StackId> local_stacks_;
  // The last defined stack, outermost frame first, and the hashes of its parts up to each frame.
  std::array<std::uint64_t, kMaxFrames> frames_, hashes_;
  std::size_t frame_count_ = 0;
  const char* damage_ = nullptr;
};

inline bool SegmentDecoder::define_stack(const std::uint8_t*& p) {
  const std::uint64_t count = get_varint(p, span_.end);
  const std::uint64_t shared = get_varint(p, span_.end);
  if (p == nullptr || count > kMaxFrames || shared > count || shared > frame_count_) return false;
  for (std::uint64_t i = shared; i < count; ++i) {
    const std::uint64_t caller = i > 0 ? frames_[i - 1] : 0, hash = i > 0 ? hashes_[i - 1] : 0;
    frames_[i] = caller + static_cast<std::uint64_t>(unzigzag(get_varint(p, span_.end)));
    hashes_[i] = hash_with_callee(hash, frames_[i]);
  }
  if (p == nullptr) return false;
  frame_count_ = count;
  local_stacks_.push_back(table_ == nullptr
                              ? StackId{}
                              : table_->intern({frames_.data(), count}, count > 0 ? hashes_[count - 1] : 0));
  return true;
}

// The fields of an extension record; `eighths` is an address divided by 8.
enum class ExtensionField : std::uint8_t { none, device, memory, address, eighths, size, count, stack };
struct ExtensionLayout {
  MemoryEventKind event;
  const char* cut_off = nullptr;  // the kind of damage if the record is too short
  ExtensionField fields[6] = {};
};

inline const char* SegmentDecoder::read_extension(const std::uint8_t*& p, bool& is_event) {
  using enum MemoryEventKind;
  using enum ExtensionField;
  constexpr const char *kOfDevice = "a record of a device is cut off",
                       *kOfMapping = "a record of a mapping is cut off";
  // Indexed by ExtensionKind. Later versions may add fields after these.
  static constexpr ExtensionLayout kLayouts[] = {
      {.event = allocate},  // no record has the kind 0
      {device_allocate, kOfDevice, {device, memory, address, size, stack}},
      {device_release, kOfDevice, {device, memory, address}},
      {device_refused, kOfDevice, {device, memory, size, count, address, stack}},
      {device_figure, kOfDevice, {device, memory, size}},
      {reserve, kOfMapping, {eighths, size, stack}},
      {make_accessible, kOfMapping, {eighths, size, stack}},
      {weight, "a record of a weight is cut off", {eighths, count}},
      {device_holder, "a record of a holder of device memory is cut off", {device, count, size, address}},
  };
  const std::uint64_t kind = get_varint(p, span_.end);
  const std::uint64_t bytes = get_varint(p, span_.end);
  if (p == nullptr || bytes > static_cast<std::uint64_t>(span_.end - p))
    return "a record of a later version is cut off";
  const std::uint8_t* at = p;
  p += bytes;
  is_event = kind >= 1 && kind < std::size(kLayouts);
  if (!is_event) return nullptr;
  std::uint64_t values[8] = {};  // by ExtensionField
  for (const ExtensionField field : kLayouts[kind].fields)
    if (field != none) values[static_cast<std::size_t>(field)] = get_varint(at, p);
  if (at == nullptr) return kLayouts[kind].cut_off;
  const auto value = [&](ExtensionField field) { return values[static_cast<std::size_t>(field)]; };
  // Ordinals and kinds of memory from later versions are skipped.
  const bool has_memory = kLayouts[kind].fields[1] == memory;
  is_event =
      value(device) <= 0xff && (!has_memory || (value(memory) != 0 && value(memory) < kDeviceMemoryKinds));
  if (!is_event) return nullptr;
  if (value(stack) >= local_stacks_.size()) return "a stack is named before it is defined";
  event_.kind = kLayouts[kind].event;
  event_.device = static_cast<std::uint8_t>(value(device));
  if (has_memory) event_.device_kind = static_cast<DeviceMemoryKind>(value(memory));
  event_.address = value(address) | value(eighths) << kAddressShift;
  event_.size = value(size);
  event_.count = value(count);
  event_.stack = local_stacks_[value(stack)];
  return nullptr;
}

inline bool SegmentDecoder::read_header_counts() {
  if (!std::exchange(counts_are_unread_, false)) return false;
  scope_before_counters_ = event_.scope;
  event_.kind = MemoryEventKind::counters;
  event_.scope = ScopeId{span_.counted_scope};
  event_.count = span_.counted_allocations;
  event_.size = span_.counted_bytes;
  event_.weight = 1;
  event_.half = SampleHalf::both;
  event_.stack = StackId{};
  event_.address = 0;
  event_.time = scale_.of(time_);
  pending_releases_ = span_.counted_releases;
  return true;
}

inline void SegmentDecoder::weigh_sample() {
  const SampleWeights::Weight& known = weights_->of(event_.size);
  event_.weight = known.weight;
  event_.half = half_of_sample(known.alone, coin_of_record(coin_key_, span_.number, offset()));
}

inline bool SegmentDecoder::advance() {
  if (pending_releases_ > 0) {
    event_.kind = MemoryEventKind::release_counters;
    event_.count = std::exchange(pending_releases_, 0);
    event_.size = 0;
    return true;
  }
  if (event_.kind == MemoryEventKind::counters || event_.kind == MemoryEventKind::release_counters)
    event_.scope = scope_before_counters_;
  for (;;) {
    if (at_ == span_.end) return read_header_counts();
    const std::uint8_t* p = at_;
    const std::uint8_t tag = *p++;
    std::uint64_t delta = tag >> 4;
    if (delta == kInlineTimeLimit) delta += get_varint(p, span_.end);
    const std::uint64_t time = time_ + delta;
    bool is_event = true;
    event_.weight = 1;
    event_.half = SampleHalf::both;
    event_.stack = StackId{};
    event_.size = event_.count = event_.address = 0;
    switch (tag & 15) {
      case kTagAllocate:
      case kTagMap:
      case kTagSample:
        event_.kind = (tag & 15) == kTagAllocate ? MemoryEventKind::allocate
                      : (tag & 15) == kTagMap    ? MemoryEventKind::map
                                                 : MemoryEventKind::sampled_allocate;
        read_address(p);
        event_.size = get_varint(p, span_.end);
        if (!read_stack_reference(p)) return fail("a stack is named before it is defined");
        if ((tag & 15) == kTagSample && event_.size > 0 && weights_->are_needed()) weigh_sample();
        break;
      case kTagRelease:
        event_.kind = MemoryEventKind::release;
        read_address(p);
        break;
      case kTagUnmap:
        event_.kind = MemoryEventKind::unmap;
        read_address(p);
        event_.size = get_varint(p, span_.end);
        break;
      case kTagScope:
        event_.kind = MemoryEventKind::enter_scope;
        event_.scope = ScopeId{static_cast<std::uint32_t>(get_varint(p, span_.end))};
        break;
      case kTagCounters:
        event_.kind = MemoryEventKind::counters;
        scope_before_counters_ = event_.scope;
        event_.scope = ScopeId{static_cast<std::uint32_t>(get_varint(p, span_.end))};
        event_.count = get_varint(p, span_.end);
        event_.size = get_varint(p, span_.end);
        pending_releases_ = get_varint(p, span_.end);
        break;
      case kTagGap:
        event_.kind = MemoryEventKind::gap;
        event_.count = get_varint(p, span_.end);
        break;
      case kTagStack:
        is_event = false;
        if (!define_stack(p)) return fail("a stack cannot be read");
        break;
      case kTagThread:
        is_event = false;
        event_.thread = ThreadIndex{static_cast<std::uint32_t>(get_varint(p, span_.end))};
        event_.scope = ScopeId{};
        break;
      case kTagExtension:
        if (const char* wrong = read_extension(p, is_event)) return fail(wrong);
        break;
      default:
        return fail("a record of an unknown kind");
    }
    if (p == nullptr) return fail("a record is cut off");
    at_ = p;
    time_ = time;
    if (!is_event) continue;
    event_.time = scale_.of(time_);
    return true;
  }
}

}  // namespace headroom::recording
