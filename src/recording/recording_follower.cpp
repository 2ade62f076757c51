#include "recording/recording_follower.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace headroom::recording {

void RecordingFollower::Unmap::operator()(const std::uint8_t* bytes) const {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes) / page * page;
  ::munmap(reinterpret_cast<void*>(begin), size + (reinterpret_cast<std::uintptr_t>(bytes) - begin));
}

std::optional<RecordingFollower> RecordingFollower::open(const std::filesystem::path& path) {
  RecordingFollower follower;
  follower.fd_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!follower.fd_ || ::fstat(follower.fd_.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
      info.st_size < static_cast<off_t>(kHeaderBytes))
    return std::nullopt;
  follower.header_ = follower.map(0, kHeaderBytes);
  if (!follower.header_) return std::nullopt;
  const FileHeader& header = follower.header();
  constexpr std::uint32_t kSmallestSegment = 4096, kLargestSegment = 1 << 30;
  const std::uint32_t flags = header.flags.load(std::memory_order_acquire);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.version != kVersion ||
      header.header_bytes != kHeaderBytes || header.segment_bytes < kSmallestSegment ||
      header.segment_bytes > kLargestSegment || header.time_shift > 32 ||
      (flags & (kFlagFull | kFlagRing | kFlagWithoutHost)) != kFlagFull)
    return std::nullopt;
  return follower;
}

RecordingFollower::Mapping RecordingFollower::map(std::uint64_t offset, std::size_t bytes) const {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = offset / page * page;
  void* memory =
      ::mmap(nullptr, bytes + (offset - begin), PROT_READ, MAP_SHARED, fd_.get(), static_cast<off_t>(begin));
  if (memory == MAP_FAILED) return {};
  return {static_cast<const std::uint8_t*>(memory) + (offset - begin), Unmap{bytes}};
}

bool RecordingFollower::find_segments() {
  const std::uint64_t first = std::uint64_t{header().header_bytes} + header().metadata_bytes;
  const std::uint64_t claimed = std::min<std::uint64_t>(
      header().segments_claimed.load(std::memory_order_acquire), header().segments_limit);
  for (; claimed_ < claimed; ++claimed_) {
    const std::uint64_t at = first + claimed_ * header().segment_bytes;
    // The process claims a slot before the file reaches it.
    if (header().file_bytes.load(std::memory_order_acquire) < at + sizeof(SegmentHeader)) break;
    auto segment = std::make_unique<Segment>();
    segment->mapping = map(at, header().segment_bytes);
    if (!segment->mapping) return false;
    segments_.push_back(std::move(segment));
  }
  return true;
}

bool RecordingFollower::extend_segments() {
  for (auto& segment : segments_) {
    const SegmentHeader& written = segment->header();
    const std::uint32_t committed = written.committed.load(std::memory_order_acquire);
    if (committed == 0) continue;  // the header may be incomplete
    const bool is_counted =
        (written.counted_allocations | written.counted_bytes | written.counted_releases) != 0;
    if (written.magic != kSegmentMagic || is_counted || committed > header().segment_bytes - sizeof written)
      return false;
    const std::uint8_t* const begin = segment->mapping.get() + sizeof written;
    if (!segment->decoder) {
      SegmentSpan span{};
      span.thread = written.thread;
      span.number = written.number;
      span.base_time = segment->base_time = written.base_time;
      span.scope = written.scope;
      span.begin = span.end = begin;
      // The times stay units, and nobody asks for stacks.
      segment->decoder.emplace(span, TimeScale{}, weights_, 0, nullptr);
    }
    segment->decoder->extend(begin + committed);
    if (!segment->has_event)
      segment->has_event = segment->decoder->bytes_left() > 0 && segment->decoder->advance();
    if (segment->decoder->damage() != nullptr) return false;
  }
  remove_finished();
  std::ranges::stable_sort(segments_, {}, [](const auto& segment) { return segment->base_time; });
  return true;
}

void RecordingFollower::remove_finished() {
  std::erase_if(segments_, [](const auto& segment) {
    return segment->decoder && !segment->has_event &&
           segment->header().checksum.load(std::memory_order_acquire) != 0 &&
           segment->decoder->offset() == segment->header().committed.load(std::memory_order_acquire);
  });
}

// The segments are in the order of their base times. So the search ends at the first one that begins later.
RecordingFollower::Segment* RecordingFollower::earliest(std::uint64_t horizon, std::uint64_t& until) const {
  Segment* first = nullptr;
  for (const auto& segment : segments_) {
    if (first != nullptr && segment->base_time > first->decoder->next_time()) break;
    if (segment->has_event && segment->decoder->next_time() < horizon &&
        (first == nullptr || segment->decoder->comes_before(*first->decoder)))
      first = segment.get();
  }
  until = horizon;
  for (const auto& segment : segments_) {
    if (segment->base_time >= until) break;
    if (segment->has_event && segment.get() != first) until = std::min(until, segment->decoder->next_time());
  }
  return first;
}

std::uint64_t RecordingFollower::units_of(std::uint64_t ticks) const {
  return ticks < header().first_ticks ? 0 : (ticks - header().first_ticks) >> header().time_shift;
}

}  // namespace headroom::recording
