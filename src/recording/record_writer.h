// Writes records into one segment. The preload library uses this for every allocation, so: no allocation, no
// lock, no system call, no library function. The owner of the segment provides memory and time; this class
// only knows the byte format.
//
// A record becomes visible by one release-store to SegmentHeader::committed, after its bytes.
#pragma once

#include <cstring>
#include <initializer_list>

#include "recording/encoding.h"
#include "recording/format.h"

namespace headroom::recording {

class RecordWriter {
 public:
  // Starts a segment. Only the first `usable_bytes` may be written; the disk may not back the rest until
  // extend() is called.
  void open(void* segment, std::size_t usable_bytes, std::uint64_t number, std::uint32_t thread,
            std::uint32_t scope, std::uint64_t time) {
    header_ = static_cast<SegmentHeader*>(segment);
    at_ = begin();
    end_ = static_cast<std::uint8_t*>(segment) + usable_bytes;
    // In a ring, first remove the checksum of the slot's previous segment.
    header_->checksum.exchange(0, std::memory_order_acq_rel);
    header_->committed.store(0, std::memory_order_relaxed);
    header_->counted_allocations.store(0, std::memory_order_relaxed);
    header_->counted_bytes.store(0, std::memory_order_relaxed);
    header_->counted_releases.store(0, std::memory_order_relaxed);
    header_->counted_scope.store(scope, std::memory_order_relaxed);
    // A reader that sees any of the new header also sees that the old segment is gone, and sees the number
    // together with its records.
    fence(std::memory_order_release);
    header_->thread = thread;
    header_->base_time = time;
    header_->scope = scope;
    header_->magic = kSegmentMagic;
    std::atomic_ref<std::uint64_t>(header_->number).store(number, std::memory_order_release);
    last_time_ = time;
    last_address_ = 0;
    last_frame_count_ = 0;
    stacks_ = 0;
  }
  // Ends the segment, because it is full or for another reason. Nothing is written to it afterwards.
  void seal_and_close() {
    SegmentSeal seal;
    if (is_open() && read_seal(*header_, seal))
      header_->checksum.store(checksum_of(seal, begin()), std::memory_order_release);
    close();
  }
  void close() { at_ = end_ = nullptr; }
  void extend(std::size_t usable_bytes) { end_ = reinterpret_cast<std::uint8_t*>(header_) + usable_bytes; }

  bool is_open() const { return at_ != nullptr; }
  // Whether there is space for a stack and the record that uses it.
  bool has_space() const {
    return static_cast<std::size_t>(end_ - at_) >= kMaxStackBytes + kMaxRecordBytes + kVarintSlack;
  }
  const std::uint8_t* position() const { return at_; }
  std::size_t used_bytes() const { return static_cast<std::size_t>(at_ - begin()) + sizeof(SegmentHeader); }

  // Each call needs has_space() before it. `time` never decreases within a thread. If a clock runs backwards,
  // the record gets the previous record's time.
  void allocate(std::uint64_t time, std::uint64_t address, std::uint64_t size, std::uint32_t stack) {
    commit(put(sized(kTagAllocate, time, address, size), stack));
  }
  void sample(std::uint64_t time, std::uint64_t address, std::uint64_t size, std::uint32_t stack) {
    commit(put(sized(kTagSample, time, address, size), stack));
  }
  void release(std::uint64_t time, std::uint64_t address) {
    commit(put_address(tag(kTagRelease, time), address));
  }
  void map(std::uint64_t time, std::uint64_t address, std::uint64_t size, std::uint32_t stack) {
    commit(put(sized(kTagMap, time, address, size), stack));
  }
  void unmap(std::uint64_t time, std::uint64_t address, std::uint64_t size) {
    commit(sized(kTagUnmap, time, address, size));
  }
  void reserve(std::uint64_t time, std::uint64_t address, std::uint64_t size, std::uint32_t stack) {
    extension(ExtensionKind::reserve, time, {address >> kAddressShift, size, stack});
  }
  void make_accessible(std::uint64_t time, std::uint64_t address, std::uint64_t size, std::uint32_t stack) {
    extension(ExtensionKind::make_accessible, time, {address >> kAddressShift, size, stack});
  }
  void weight(std::uint64_t time, std::uint64_t address, std::uint32_t scope_id) {
    extension(ExtensionKind::weight, time, {address >> kAddressShift, scope_id});
  }
  void scope(std::uint64_t time, std::uint32_t scope_id) { commit(put(tag(kTagScope, time), scope_id)); }
  void counters(std::uint64_t time, std::uint32_t scope_id, std::uint64_t allocations, std::uint64_t bytes,
                std::uint64_t releases) {
    commit(put(put(put(put(tag(kTagCounters, time), scope_id), allocations), bytes), releases));
  }
  // Counted events are added up in the segment's header: a kill loses none of them, and a full segment needs
  // no extra record. Only the owner counts, so a load and a store are enough. Both functions return the
  // number since the counters were last written.
  std::uint64_t count_allocation(std::uint64_t bytes) {
    add(header_->counted_bytes, bytes);
    return add(header_->counted_allocations, 1);
  }
  std::uint64_t count_release() { return add(header_->counted_releases, 1); }
  static std::uint64_t add(std::atomic<std::uint64_t>& counter, std::uint64_t value) {
    const std::uint64_t sum = counter.load(std::memory_order_relaxed) + value;
    counter.store(sum, std::memory_order_relaxed);
    return sum;
  }
  // The header, for code that counts with add() but without this writer.
  SegmentHeader* header() const { return header_; }
  bool has_counted() const {
    return at_ != nullptr && (header_->counted_allocations.load(std::memory_order_relaxed) |
                              header_->counted_releases.load(std::memory_order_relaxed)) != 0;
  }
  // Call flush_counters() before changing the scope.
  void set_counted_scope(std::uint32_t scope_id) {
    header_->counted_scope.store(scope_id, std::memory_order_relaxed);
  }
  // Turns the counts into a record. A kill in between loses the counts; they never appear twice.
  void flush_counters(std::uint64_t time) {
    const std::uint64_t allocations = take(header_->counted_allocations);
    const std::uint64_t bytes = take(header_->counted_bytes);
    const std::uint64_t releases = take(header_->counted_releases);
    counters(time, header_->counted_scope.load(std::memory_order_relaxed), allocations, bytes, releases);
  }
  void gap(std::uint64_t time, std::uint64_t events) { commit(put(tag(kTagGap, time), events)); }
  void thread(std::uint64_t time, std::uint32_t thread_index) {
    commit(put(tag(kTagThread, time), thread_index));
  }
  void device_allocate(std::uint64_t time, std::uint32_t device, std::uint8_t kind, std::uint64_t handle,
                       std::uint64_t size, std::uint32_t stack) {
    extension(ExtensionKind::device_allocate, time, {device, kind, handle, size, stack});
  }
  void device_release(std::uint64_t time, std::uint32_t device, std::uint8_t kind, std::uint64_t handle) {
    extension(ExtensionKind::device_release, time, {device, kind, handle});
  }
  void device_refused(std::uint64_t time, std::uint32_t device, std::uint8_t kind, std::uint64_t size,
                      std::uint64_t charged, std::uint64_t limit, std::uint32_t stack) {
    extension(ExtensionKind::device_refused, time, {device, kind, size, charged, limit, stack});
  }
  void device_holder(std::uint64_t time, std::uint32_t device, std::uint32_t process, std::uint64_t bytes,
                     bool is_elsewhere) {
    extension(ExtensionKind::device_holder, time, {device, process, bytes, is_elsewhere ? 1u : 0u});
  }
  void device_figure(std::uint64_t time, std::uint32_t device, std::uint8_t kind, std::uint64_t bytes) {
    extension(ExtensionKind::device_figure, time, {device, kind, bytes});
  }
  // Defines the segment's next stack, innermost frame first, and returns its number. Outer frames that it
  // shares with the previously defined stack are not repeated.
  std::uint32_t define_stack(std::uint64_t time, const std::uint64_t* frames, std::uint32_t count) {
    std::uint32_t shared = 0;
    while (shared < count && shared < last_frame_count_ &&
           frames[count - 1 - shared] == last_frames_[last_frame_count_ - 1 - shared])
      ++shared;
    std::uint8_t* at = put(put(tag(kTagStack, time), count), shared);
    // The frames that differ, outermost first, each relative to its caller.
    std::uint64_t caller = shared > 0 ? frames[count - shared] : 0;
    for (std::uint32_t i = count - shared; i-- > 0;) {
      at = put(at, zigzag(static_cast<std::int64_t>(frames[i] - caller)));
      caller = frames[i];
    }
    commit(at);
    std::memcpy(last_frames_, frames, count * sizeof(std::uint64_t));
    last_frame_count_ = count;
    return ++stacks_;
  }

 private:
  // These return the end of what they wrote. commit() makes it visible, once a record: bytes may alias `at_`,
  // so the compiler would store and load it for each field.
  static std::uint8_t* put(std::uint8_t* at, std::uint64_t value) {
    if (value >= 0x80) return put_varint_with_slack(at, value);
    *at = static_cast<std::uint8_t>(value);  // most sizes and stacks
    return at + 1;
  }
  std::uint8_t* tag(RecordTag kind, std::uint64_t time) {
    const std::uint64_t delta = time > last_time_ ? time - last_time_ : 0;
    last_time_ += delta;
    std::uint8_t* const at = at_;
    const bool is_inline = delta < kInlineTimeLimit;
    const std::uint64_t high = is_inline ? delta : kInlineTimeLimit;
    *at = static_cast<std::uint8_t>(kind | high << 4);
    // One byte more is written in any case, and counts only if it is needed.
    const std::uint64_t rest = delta - kInlineTimeLimit;
    if (__builtin_expect(delta >= kInlineTimeLimit + 0x80, 0)) return put_varint(at + 1, rest);
    at[1] = static_cast<std::uint8_t>(rest);
    return at + (is_inline ? 1 : 2);
  }
  std::uint8_t* put_address(std::uint8_t* at, std::uint64_t address) {
    const std::uint64_t eighths = address >> kAddressShift;
    const auto difference = static_cast<std::int64_t>(eighths - last_address_);
    last_address_ = eighths;
    return put_varint_with_slack(at, zigzag(difference));
  }
  std::uint8_t* sized(RecordTag kind, std::uint64_t time, std::uint64_t address, std::uint64_t size) {
    return put(put_address(tag(kind, time), address), size);
  }
  // The fields take fewer than 128 bytes, so their length takes one byte.
  void extension(ExtensionKind kind, std::uint64_t time, std::initializer_list<std::uint64_t> fields) {
    std::uint8_t* at = tag(kTagExtension, time);
    *at++ = static_cast<std::uint8_t>(kind);
    std::uint8_t* const length = at++;
    for (const std::uint64_t field : fields) at = put(at, field);
    *length = static_cast<std::uint8_t>(at - length - 1);
    commit(at);
  }
  // An atomic exchange would cost 20 ns more.
  static std::uint64_t take(std::atomic<std::uint64_t>& counter) {
    const std::uint64_t value = counter.load(std::memory_order_relaxed);
    counter.store(0, std::memory_order_relaxed);
    return value;
  }
  void commit(std::uint8_t* at) {
    at_ = at;
    header_->committed.store(static_cast<std::uint32_t>(at - begin()), std::memory_order_release);
  }
  std::uint8_t* begin() const { return reinterpret_cast<std::uint8_t*>(header_) + sizeof(SegmentHeader); }

  // What every record uses is in front.
  std::uint8_t* at_ = nullptr;
  std::uint8_t* end_ = nullptr;
  SegmentHeader* header_ = nullptr;
  std::uint64_t last_time_ = 0, last_address_ = 0;
  std::uint32_t stacks_ = 0, last_frame_count_ = 0;
  std::uint64_t last_frames_[kMaxFrames] = {};
};

}  // namespace headroom::recording
