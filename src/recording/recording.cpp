#include "recording/recording.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/files.h"
#include "base/utf8.h"
#include "types/device_name.h"

namespace headroom::recording {
namespace {

// The number of a segment that its process may be replacing at this moment.
std::uint64_t number_of(const SegmentHeader& segment) {
  return std::atomic_ref(const_cast<std::uint64_t&>(segment.number)).load(std::memory_order_acquire);
}

// Reads plain values from the payload of a metadata record. Missing data reads as zero or empty.
class PayloadReader {
 public:
  PayloadReader(const std::uint8_t* at, std::size_t bytes) : at_(at), left_(bytes) {}
  template <class Value>
  Value take() {
    Value value{};
    if (left_ < sizeof value) {
      left_ = 0;
      return value;
    }
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    left_ -= sizeof value;
    return value;
  }
  std::string take_text(std::size_t bytes) {
    bytes = std::min(bytes, left_);
    std::string text(reinterpret_cast<const char*>(at_), bytes);
    at_ += bytes;
    left_ -= bytes;
    return text;
  }
  std::string rest() { return take_text(left_); }

 private:
  const std::uint8_t* at_;
  std::size_t left_;
};

std::vector<std::string> split_at_nul(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string hex_digits(const std::string& bytes) {
  const auto* at = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return fmt::format("{:02x}", fmt::join(at, at + bytes.size(), ""));
}

// Element `index` of a list that is indexed by id; grows the list. Returns null for an invalid id. Ids are
// dense and each has a record, so there cannot be more ids than records fit the bytes in the file. (The
// header alone is not trusted: in a 12 KiB file it can claim 4 GiB.)
template <class T>
T* slot(std::vector<T>& list, std::uint32_t index, std::size_t record_bytes) {
  if (index > record_bytes / sizeof(MetadataHeader)) return nullptr;
  if (index >= list.size()) list.resize(index + 1);
  return &list[index];
}

}  // namespace

void Recording::Unmap::operator()(const std::uint8_t* bytes) const {
  ::munmap(const_cast<std::uint8_t*>(bytes), size);
}

Result<Recording> Recording::open(const std::filesystem::path& path) {
  Recording recording;
  if (auto status = recording.map(path); !status) return forward_error(status);
  if (auto status = recording.read_header(path); !status) return forward_error(status);
  recording.check_header();
  recording.find_end();
  recording.set_times();
  recording.info_.scopes.resize(1);
  recording.read_metadata();
  recording.places_.relocate(recording.info_.modules);
  recording.find_segments();
  ::madvise(const_cast<std::uint8_t*>(recording.bytes_), recording.size_,
            MADV_DONTNEED);  // as in drop_pages()
  recording.read_profiles(path);
  recording.note_unwritten_profiles();
  const bool is_known = std::ranges::any_of(recording.open_problems_, [](const std::string& problem) {
    return problem.find("cut off") != problem.npos;
  });
  if (recording.size_ < recording.header_file_bytes_ && !is_known)
    recording.add_problem(fmt::format("the file has {} of its {} bytes: it was cut off", recording.size_,
                                      recording.header_file_bytes_));
  recording.problems_ = recording.open_problems_;
  return recording;
}

Status Recording::map(const std::filesystem::path& path) {
  const std::string what = fmt::format("cannot read {}", path.string());
  auto fd = open_regular_file(path, "check the path of the recording");
  if (!fd) return forward_error(fd);
  // Read this before the length, because a writing process extends the file first.
  if (::pread(fd->get(), &header_file_bytes_, sizeof header_file_bytes_, offsetof(FileHeader, file_bytes)) <
      0)
    header_file_bytes_ = 0;
  struct stat info {};
  if (::fstat(fd->get(), &info) != 0) return input_error(what, errno_text(errno));
  if (static_cast<std::uint64_t>(info.st_size) < kHeaderBytes)
    return input_error(
        what, fmt::format("it has {} bytes and a recording begins with {}", info.st_size, kHeaderBytes),
        "record again; the file was cut off or is not a recording");
  size_ = static_cast<std::size_t>(info.st_size);
  void* memory = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd->get(), 0);
  if (memory == MAP_FAILED) return input_error(what, errno_text(errno), "free some address space");
  bytes_ = static_cast<const std::uint8_t*>(memory);
  mapping_ = {bytes_, Unmap{size_}};
  return {};
}

Status Recording::read_header(const std::filesystem::path& path) {
  const auto& header = *reinterpret_cast<const FileHeader*>(bytes_);
  const std::string what = fmt::format("cannot read {}", path.string());
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0)
    return input_error(what, "it is not a Headroom recording", "record one with headroom trace");
  if (header.version != kVersion)
    return input_error(
        what, fmt::format("it has version {} and this Headroom reads version {}", header.version, kVersion),
        "use the version of Headroom that recorded it");
  constexpr std::uint32_t kSmallestSegment = 4096, kLargestSegment = 1 << 30;
  if (header.header_bytes != kHeaderBytes || header.metadata_bytes % 8 != 0 ||
      header.segment_bytes < kSmallestSegment || header.segment_bytes > kLargestSegment ||
      header.segment_bytes % kSmallestSegment != 0 || header.time_shift > 32)
    return input_error(what, "its header is damaged", "record again");
  const std::uint32_t flags = header.flags.load(std::memory_order_acquire);
  info_.full = (flags & kFlagFull) != 0;
  info_.ring = (flags & kFlagRing) != 0;
  info_.closed = (flags & kFlagClosed) != 0;
  info_.host_recorded = (flags & kFlagWithoutHost) == 0;
  info_.forked = (flags & kFlagForked) != 0;
  if ((flags & kFlagAttached) != 0) info_.attached.emplace();
  info_.pid = header.pid;
  info_.parent_pid = header.parent_pid;
  info_.page_bytes = header.page_bytes;
  info_.exec_generation = static_cast<int>(header.exec_generation);
  info_.started_realtime_ns = static_cast<std::int64_t>(header.first_realtime_ns);
  info_.large_bytes = header.large_bytes;
  info_.sample_period_bytes = header.sample_period_bytes;
  weights_ = SampleWeights(info_.sample_period_bytes);
  info_.file_bytes = size_;
  return {};
}

void Recording::set_times() {
  const auto& header = *reinterpret_cast<const FileHeader*>(bytes_);
  first_ticks_ = header.first_ticks;
  const std::uint64_t ticks = end_.last_ticks - header.first_ticks;
  const std::uint64_t nanoseconds = end_.last_monotonic_ns - header.first_monotonic_ns;
  // If a recording ended before its first segment was full, the two reference points are close together, but
  // always a known time apart (docs/recording-format.md).
  const double per_tick = ticks > 0 ? static_cast<double>(nanoseconds) / static_cast<double>(ticks) : 1;
  const double per_unit_32 = std::ldexp(per_tick, 32 + static_cast<int>(header.time_shift));
  scale_.nanoseconds_per_unit_32 = per_unit_32 > 0 && per_unit_32 < 9e18
                                       ? static_cast<std::uint64_t>(per_unit_32)
                                       : std::uint64_t{1} << 32;
  scale_time_shift_ = header.time_shift;
}

Nanoseconds Recording::time_of_ticks(std::uint64_t ticks) const {
  return scale_.of((ticks - first_ticks_) >> scale_time_shift_);
}

std::size_t Recording::metadata_bytes() const {
  const auto& header = *reinterpret_cast<const FileHeader*>(bytes_);
  return std::min<std::size_t>(std::min<std::uint64_t>(header.metadata_used.load(), header.metadata_bytes),
                               size_ - kHeaderBytes);
}

void Recording::read_metadata() {
  const auto& header = *reinterpret_cast<const FileHeader*>(bytes_);
  SkippedBytes skipped =
      walk_metadata([&](const MetadataHeader& record, const std::uint8_t* payload, std::size_t) {
        read_metadata_record(record.kind, record.id, payload, record.bytes);
        return true;
      });
  const bool is_full = header.metadata_used.load() > header.metadata_bytes;
  if (is_full) skipped.total -= skipped.at_the_end;  // the last record did not fit; that is not damage
  if (skipped.total > 0)
    open_problems_.push_back(fmt::format("{} bytes of names and modules could not be read", skipped.total));
  if (is_full)
    open_problems_.emplace_back(
        "the area of names and modules was full: some layers and modules have no name");
}

void Recording::read_metadata_record(MetadataKind kind, std::uint32_t id, const std::uint8_t* at,
                                     std::size_t bytes) {
  PayloadReader payload(at, bytes);
  const auto& header = *reinterpret_cast<const FileHeader*>(bytes_);
  switch (kind) {
    case MetadataKind::command:
      info_.command = split_at_nul(payload.rest());
      return;
    case MetadataKind::executable:
      info_.executable = payload.rest();
      return;
    case MetadataKind::folder:
      info_.folder = payload.rest();
      return;
    case MetadataKind::module: {
      const auto record = payload.take<ModuleRecord>();
      const std::string build_id = hex_digits(payload.take_text(record.build_id_bytes));
      info_.modules.push_back({payload.rest(), build_id, record.load_bias, record.start, record.end,
                               time_of_ticks(record.ticks), std::nullopt});
      return;
    }
    case MetadataKind::module_gone: {
      const auto bias = payload.take<std::uint64_t>();
      const Nanoseconds time = time_of_ticks(payload.take<std::uint64_t>());
      for (auto it = info_.modules.rbegin(); it != info_.modules.rend(); ++it)
        if (it->load_bias == bias && !it->unloaded) {
          it->unloaded = time;
          break;
        }
      return;
    }
    case MetadataKind::attached: {
      const auto record = payload.take<AttachRecord>();
      constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
      info_.attached = Attached{{static_cast<std::int64_t>(std::min(record.process_age_ns, kMost))},
                                record.resident_bytes};
      return;
    }
    case MetadataKind::scope: {
      const auto record = payload.take<ScopeRecord>();
      // A parent's record comes first, so parents have smaller ids. This guarantees that path_of() ends.
      if (Scope* scope = slot(info_.scopes, id, metadata_bytes());
          scope != nullptr && id != 0 && record.parent < id) {
        *scope = {ScopeId{record.parent}, record.source, with_valid_utf8(payload.rest())};
        // A range may have an empty name, but here an empty name means an id without a record.
        if (scope->name.empty()) scope->name = kUnnamedScope;
        has_weights_to_find_ |= record.source == ScopeSource::weights;
      }
      return;
    }
    case MetadataKind::thread: {
      const auto tid = payload.take<std::uint32_t>();
      payload.take<std::uint32_t>();
      if (Thread* thread = slot(info_.threads, id, metadata_bytes()))
        *thread = {tid, with_valid_utf8(payload.rest())};
      return;
    }
    case MetadataKind::runtime_profile: {
      const auto record = payload.take<ProfileRecord>();
      constexpr std::int64_t kMost = std::int64_t{1} << 61;
      const auto since = std::clamp(
          static_cast<std::int64_t>(record.start_monotonic_ns - header.first_monotonic_ns), -kMost, kMost);
      info_.profiles.push_back({payload.rest(), Nanoseconds{since}, ScopeId{record.scope}, {}});
      written_profiles_.insert(id);
      return;
    }
    case MetadataKind::open_profile:
      begun_profiles_.emplace(id, ScopeId{payload.take<ProfileRecord>().scope});
      return;
    case MetadataKind::device: {
      const auto record = payload.take<DeviceRecord>();
      Device device;
      device.ordinal = id;
      device.name = payload.rest();
      device.uuid = gpu_uuid_text(record.uuid, (record.flags & kDeviceMig) != 0);
      device.total_bytes = record.total_bytes;
      if ((record.flags & kDeviceLimited) != 0) device.limit_bytes = record.limit_bytes;
      device.integrated = (record.flags & kDeviceIntegrated) != 0;
      device.shared_limit = (record.flags & kDeviceShared) != 0;
      if ((record.flags & kDeviceLimitHard) != 0) device.proved_limit = LimitType::hard;
      if ((record.flags & kDeviceLimitSoft) != 0) device.proved_limit = LimitType::soft;
      device.granule_bytes = record.granule_bytes;
      info_.devices.push_back(std::move(device));
      return;
    }
    case MetadataKind::process:
      info_.processes[id] = with_valid_utf8(payload.rest());
      return;
    case MetadataKind::host:  // for people who read the file
    case MetadataKind::segment_seal:
    case MetadataKind::end:  // see find_end()
      return;
    case MetadataKind::note: {
      std::string sentence = payload.rest();
      // Large blocks without a record are missing from all live-byte figures.
      auto& list = sentence == kNoteUnrecordedLarge ? open_problems_ : info_.notes;
      list.push_back(std::move(sentence));
      return;
    }
  }
  // A kind of a later version is skipped.
}

void Recording::find_weights() {
  walk_records([&](const MemoryEvent& event) { weight_blocks_.observe(event); });
  weight_blocks_.finish_pass();
}

// Needed only for recordings with reused addresses, which are rare, so its calls need not be inlined.
void Recording::walk_places(const std::function<void(const MemoryEvent&)>& visit) {
  walk_nodes([&](const MemoryEvent& event) {
    MemoryEvent relocated = event;
    relocated.stack = places_.stack_at(event.stack, event.time, stacks_);
    visit(relocated);
  });
}

void Recording::find_segments() {
  const auto& header = *reinterpret_cast<const FileHeader*>(bytes_);
  const std::uint64_t claimed = end_.segments_claimed;
  const std::uint64_t begin = std::uint64_t{kHeaderBytes} + header.metadata_bytes;
  const std::uint64_t slots = info_.ring ? std::min(claimed, header.segments_limit) : claimed;
  if (info_.ring && claimed > header.segments_limit)
    info_.segments_overwritten = claimed - header.segments_limit;
  std::uint64_t lost = 0;
  for (std::uint64_t i = 0; i < slots; ++i) {
    const std::uint64_t at = begin + i * header.segment_bytes;
    if (at + sizeof(SegmentHeader) > size_) {
      // A thread may claim a slot that the file never reached before the process ended.
      const std::uint64_t was = std::min(header_file_bytes_, begin + slots * header.segment_bytes);
      if (was > at) lost = (was - at + header.segment_bytes - 1) / header.segment_bytes;
      break;
    }
    const auto& segment = *reinterpret_cast<const SegmentHeader*>(bytes_ + at);
    // Read the length between two reads of the number: it may belong to the slot's previous segment.
    const std::uint64_t number = number_of(segment);
    SegmentSpan span{};
    read_seal(segment, span);
    const std::uint32_t committed = span.committed;
    if (segment.magic != kSegmentMagic) {
      // The process claimed the slot and ended before the first record: a hole, unless the slot contains
      // something else. In a ring that is still written, the next segment's slot may just have been cleared.
      const bool is_cleared = info_.ring && !info_.closed;
      if (segment.magic != 0 || (seals_.count(i) != 0 && !is_cleared))
        open_problems_.push_back(fmt::format("segment {} is damaged: it was left out", i));
      continue;
    }
    const std::uint64_t available =
        std::min<std::uint64_t>(header.segment_bytes, size_ - at) - sizeof segment;
    span.grew =
        committed > available && committed <= header.segment_bytes - sizeof segment && may_have_grown();
    if (committed > available && !span.grew)
      open_problems_.push_back(
          fmt::format("segment {} has {} of its {} bytes: the file was cut off", i, available, committed));
    span.begin = bytes_ + at + sizeof segment;
    span.end = span.begin + std::min<std::uint64_t>(committed, available);
    span.number = number;
    span.slot = i;
    fence(std::memory_order_acquire);
    // Check the length first: if it belongs to another segment, the number does too.
    const bool is_another = segment.committed.load() < committed || number_of(segment) != number;
    if (is_another) continue;  // the new segment started just now
    use_seal_of(span, segment);
    if (span.begin != span.end || span.has_counted()) segments_.push_back(span);
  }
  if (lost > 0)
    open_problems_.push_back(fmt::format("{} of {} segment{} missing: the file was cut off", lost, slots,
                                         slots == 1 ? " is" : "s are"));
  std::ranges::sort(segments_, [](const SegmentSpan& a, const SegmentSpan& b) {
    return a.base_time != b.base_time ? a.base_time < b.base_time : a.number < b.number;
  });
  info_.segments = segments_.size();
  info_.duration = time_of_ticks(end_.last_ticks);
}

// Drops the mapped pages. The file may be larger than the machine's memory, but so the process needs only the
// segments that are being read: about one per recorded thread. The pages stay in the page cache; the next
// pass maps them again.
void Recording::drop_pages(const std::uint8_t* begin, const std::uint8_t* end) const {
  const auto page = static_cast<std::ptrdiff_t>(::sysconf(_SC_PAGESIZE));
  begin = bytes_ + (begin - bytes_) / page * page;
  ::madvise(const_cast<std::uint8_t*>(begin), static_cast<std::size_t>(end - begin), MADV_DONTNEED);
}

bool has_unknown_blocks(const RecordingInfo& info) {
  return info.forked || info.attached || info.segments_overwritten > 0;
}

std::string path_of(const RecordingInfo& info, ScopeId scope) {
  std::string path;
  for (std::uint32_t id = scope.index; id != 0 && id < info.scopes.size(); id = info.scopes[id].parent.index)
    path = path.empty() ? info.scopes[id].name : info.scopes[id].name + "/" + path;
  return path;
}

}  // namespace headroom::recording
