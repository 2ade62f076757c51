// A recording is read while its process may still write to it. Without a ring that only adds to it. In a ring
// the oldest slot, which a reader wants first, is the next that gets other records: so a slot is copied, and
// the copy is good if the slot's header says afterwards that it is still the same segment. (The writer
// empties a slot and numbers it anew before it writes records there: RecordWriter::open.)
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>

#include "recording/recording.h"

namespace headroom::recording {

// Were there fewer bytes than the header had promised before, it was cut off.
bool Recording::may_have_grown() const { return !info_.closed && size_ >= promised_bytes_; }

const char* Recording::torn_words() const {
  return info_.ring && !info_.closed ? ", or the file was copied while its program wrote to it" : "";
}

bool Recording::take_copy(SegmentSpan& span, std::vector<std::uint8_t>& copy) const {
  const std::uint8_t* const begin = span.begin - sizeof(SegmentHeader);
  const auto& segment = *reinterpret_cast<const SegmentHeader*>(begin);
  // Before the rest: what has a checksum is not changed any more.
  const std::uint32_t checksum = segment.checksum.load(std::memory_order_acquire);
  copy.assign(begin, span.end);
  let_go_of(begin, span.end);
  // A slot's end is written long after its number, so what a processor may swap here does not matter.
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
                  "as the program still writes: what they held is missing; "
                  "read the recording again when the program has ended",
                  segments, segments_.size(), segments == 1 ? "was" : "were"));
}

}  // namespace headroom::recording
