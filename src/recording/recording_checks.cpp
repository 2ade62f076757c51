// Verifies the checksums of a recording and the consistency of its sizes. Nothing is dropped because of a
// wrong checksum: most of a damaged part is still right, and problems() names the part.

#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>

#include "recording/encoding.h"
#include "recording/format.h"
#include "recording/recording.h"

namespace headroom::recording {

namespace {

constexpr std::size_t kMostProblems = 100;

const FileHeader& header_at(const std::uint8_t* bytes) { return *reinterpret_cast<const FileHeader*>(bytes); }

bool is_same_segment(const SegmentSeal& seal, const SegmentHeader& segment) {
  return seal.thread == segment.thread && seal.number == segment.number &&
         seal.base_time == segment.base_time && seal.scope == segment.scope;
}

}  // namespace

void Recording::add_problem(std::string problem) {
  if (open_problems_.size() < kMostProblems) open_problems_.push_back(std::move(problem));
}

void Recording::check_header() {
  const FileHeader& header = header_at(bytes_);
  // Earlier versions wrote no checksums.
  if (header.checksum != 0 && header.checksum != checksum_of(header))
    add_problem(
        "the file's header does not match its checksum: it was changed or cut off, "
        "and times, sizes, estimates and which segments there are may be wrong");
}

// Runs first: the end record has the header's final figures.
void Recording::find_end() {
  const FileHeader& header = header_at(bytes_);
  end_.last_ticks = header.last_ticks.load();
  end_.last_monotonic_ns = header.last_monotonic_ns.load();
  end_.threads_seen = header.threads_seen.load();
  end_.events_dropped = header.events_dropped.load();
  end_.segments_claimed = header.segments_claimed.load();

  bool is_found = false;
  RecordingEnd end{};
  walk_metadata([&](const MetadataHeader& record, const std::uint8_t* payload, std::size_t at) {
    if (record.kind == MetadataKind::segment_seal && record.bytes >= sizeof(SegmentSeal))
      std::memcpy(&seals_[record.id], payload, sizeof(SegmentSeal));
    if (record.kind != MetadataKind::end || record.bytes < sizeof end) return true;
    std::memcpy(&end, payload, sizeof end);
    is_found = end.metadata_bytes <= at;
    return is_found;
  });
  const std::uint32_t flags = header.flags.load(std::memory_order_acquire);
  if (is_found && end.checksum != checksum_of(end, bytes_ + kHeaderBytes)) is_found = false;
  info_.events_dropped = end_.events_dropped;
  if (!is_found) {
    if ((flags & kFlagSealed) != 0 || end.checksum != 0)
      add_problem(
          "the area of names and modules does not match its checksum: it was changed or cut off, "
          "and names of layers, threads and modules may be wrong or missing");
    return;
  }
  if ((flags & kFlagClosed) == 0) return;  // an exec failed, and the process continued
  if (end_.segments_claimed < end.segments_claimed)
    add_problem(
        fmt::format("the file's header counts {} segments, but the recording ended with {}: "
                    "it was changed or cut off",
                    end_.segments_claimed, end.segments_claimed));
  // Only the header has counts from after the end.
  end.segments_claimed = std::max(end.segments_claimed, end_.segments_claimed);
  end.events_dropped = std::max(end.events_dropped, end_.events_dropped);
  end.threads_seen = std::max(end.threads_seen, end_.threads_seen);
  end_ = end;
  info_.events_dropped = end_.events_dropped;
}

// For a segment that was open at the end, use the sealed copy of its header: the thread may have continued.
void Recording::use_seal_of(SegmentSpan& span, const SegmentHeader& segment) {
  const auto known = seals_.find(span.slot);
  if (segment.checksum.load(std::memory_order_acquire) != 0) return;
  if (known == seals_.end()) {
    if (!info_.ring && segment.number != span.slot)
      add_problem(fmt::format("segment {} is in the place of segment {}: its header or the file's is damaged",
                              segment.number, span.slot));
    return;
  }
  const SegmentSeal& seal = known->second;
  const bool was_reused = info_.ring && segment.number > seal.number && segment.base_time > seal.base_time;
  const auto committed = static_cast<std::uint32_t>(span.end - span.begin);
  if (was_reused) {
    span.is_checked = true;
  } else if (!is_same_segment(seal, segment) || committed < seal.committed) {
    span.is_checked = true;
    add_problem(
        fmt::format("the header of segment {} differs from its sealed copy: "
                    "it was changed or cut off, and its events may be wrong or missing",
                    span.slot));
  } else if (info_.closed && committed == seal.committed) {
    static_cast<SegmentSeal&>(span) = seal;
  }
}

void Recording::check_segment(const SegmentSpan& span) {
  const auto& segment = *reinterpret_cast<const SegmentHeader*>(span.begin - sizeof(SegmentHeader));
  SegmentSeal seal{};
  const std::uint32_t own = segment.checksum.load(std::memory_order_acquire);
  if (own != 0) {
    if (!read_seal(segment, seal)) return;
    seal.checksum = own;
  } else if (const auto known = seals_.find(span.slot); known != seals_.end()) {
    seal = known->second;
  } else {
    return;  // it was open when the process was killed, or an earlier version wrote it
  }
  // Truncation is already reported, and data written after opening is not read.
  if (seal.number != span.number || seal.committed > static_cast<std::uint64_t>(span.end - span.begin))
    return;
  if (checksum_of(seal, span.begin) == seal.checksum) return;
  SampleWeights weights(info_.sample_period_bytes);
  SegmentDecoder decoder(span, scale_, weights, 0, nullptr);
  std::uint64_t events = 0;
  while (decoder.advance()) ++events;
  const std::string name =
      span.thread < info_.threads.size() ? info_.threads[span.thread].name : std::string();
  add_problem(
      fmt::format("segment {} of thread {}{} does not match its checksum: "
                  "it was changed or cut off{}, and its {} events may be wrong",
                  span.number, span.thread, name.empty() ? "" : " (" + name + ")", copy_hint(), events));
  if (problems_.size() < kMostProblems) problems_.push_back(open_problems_.back());
}

void Recording::report_damage(const SegmentDecoder& decoder) {
  if (decoder.damage() == nullptr || decoder.is_cut_short()) return;
  if (problems_.size() < kMostProblems)
    problems_.push_back(fmt::format("segment {} is damaged at byte {}: {}{}; {} bytes were not read",
                                    decoder.number(), decoder.offset(), decoder.damage(), copy_hint(),
                                    decoder.bytes_left()));
}

// Reading a recording while its process still writes to it. Without a ring, the process only appends. In a
// ring, the reader starts with the oldest slot, and the writer overwrites that slot next. So the reader
// copies a slot, and the copy is valid if the slot's header still names the same segment afterwards. (The
// writer clears a slot and renumbers it before it writes records there: RecordWriter::open.)
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

bool is_recording(const std::filesystem::path& file) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(file, code)) return false;
  char magic[sizeof kMagic] = {};
  std::ifstream stream(file, std::ios::binary);
  return stream.read(magic, sizeof magic) && std::memcmp(magic, kMagic, sizeof magic) == 0;
}

}  // namespace headroom::recording
