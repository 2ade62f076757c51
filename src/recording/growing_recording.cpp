// Reading a recording while its process still writes to it. Without a ring, the process only appends. In a
// ring, the reader starts with the oldest slot, and the writer overwrites that slot next. So the reader
// copies a slot, and the copy is valid if the slot's header still names the same segment afterwards. (The
// writer clears a slot and renumbers it before it writes records there: RecordWriter::open.)
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>

#include "recording/recording.h"

namespace headroom::recording {

// A file shorter than the length in its header was truncated, and does not grow.
bool Recording::may_have_grown() const { return !info_.closed && size_ >= header_file_bytes_; }

const char* Recording::copy_hint() const {
  return info_.ring && !info_.closed ? ", or the file was copied while its program wrote to it" : "";
}

bool Recording::copy_segment(SegmentSpan& span, std::vector<std::uint8_t>& copy) const {
  const std::uint8_t* const begin = span.begin - sizeof(SegmentHeader);
  const auto& segment = *reinterpret_cast<const SegmentHeader*>(begin);
  // Read the checksum first: a segment with a checksum no longer changes.
  const std::uint32_t checksum = segment.checksum.load(std::memory_order_acquire);
  copy.assign(begin, span.end);
  drop_pages(begin, span.end);
  // A compiler fence is enough: the writer changes a slot's end long after its number.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const auto records = static_cast<std::size_t>(span.end - span.begin);
  if (segment.number != span.number || segment.committed.load() < records) return false;
  reinterpret_cast<SegmentHeader*>(copy.data())->checksum.store(checksum, std::memory_order_relaxed);
  span.begin = copy.data() + sizeof(SegmentHeader);
  span.end = span.begin + records;
  return true;
}

void Recording::report_overwritten(std::uint64_t segments) {
  if (segments == 0) return;
  problems_.push_back(
      fmt::format("{} of the ring's {} segments {} overwritten while the ring was read, "
                  "because the program still writes: their events are missing; "
                  "read the recording again after the program has ended",
                  segments, segments_.size(), segments == 1 ? "was" : "were"));
}

}  // namespace headroom::recording
