#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include <cstdio>
#include <cstring>

#include "ledger/high_descriptor.h"
#include "preload/clock.h"
#include "preload/memory.h"
#include "preload/process.h"
#include "recording/encoding.h"

namespace headroom::preload {

// When this process began, on CLOCK_MONOTONIC; execve does not change it. The result may be too early: by up
// to a tick of 10 ms, and by the time that the machine slept since. 0: unknown.
std::uint64_t process_start_ns() {
  char text[1024] = {};
  const int fd = ::open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t size = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (size <= 0) return 0;
  const char* at = std::strrchr(text, ')');  // the program's name may contain anything
  constexpr int kFieldsBefore = 20;          // from the third to the 22nd
  for (int i = 0; at != nullptr && i < kFieldsBefore; ++i) at = std::strchr(at + 1, ' ');
  if (at == nullptr) return 0;
  std::uint64_t ticks = 0;
  for (++at; *at >= '0' && *at <= '9'; ++at) ticks = ticks * 10 + static_cast<std::uint64_t>(*at - '0');
  timespec since_boot{};
  const std::uint64_t now = monotonic_ns();
  clock_gettime(CLOCK_BOOTTIME, &since_boot);
  const auto ticks_a_second = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  const std::uint64_t slept = static_cast<std::uint64_t>(since_boot.tv_sec) * 1'000'000'000 +
                              static_cast<std::uint64_t>(since_boot.tv_nsec) - now;
  const std::uint64_t start = ticks * (1'000'000'000 / ticks_a_second);
  return start > slept ? start - slept : 1;
}

namespace {

using namespace recording;

constexpr std::uint64_t kMappedBytes = std::uint64_t{kHeaderBytes} + kDefaultMetadataBytes;
constexpr std::uint64_t kMetadataStep = 64 << 10;
constexpr std::uint64_t kMostRingSlots = 1 << 22;
#ifndef MADV_POPULATE_WRITE
constexpr int MADV_POPULATE_WRITE = 23;  // Linux 5.14
#endif

#if defined(__x86_64__)
constexpr std::uint32_t kMachine = 62;
#elif defined(__aarch64__)
constexpr std::uint32_t kMachine = 183;
#else
#error "recordings are defined for x86-64 and AArch64"
#endif

// A mapping that is shared with the file.
void* map_file(int fd, std::uint64_t bytes, std::uint64_t offset) {
  return map_memory(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
}

// Whether a page that was written once can always be overwritten. File systems that copy on write (such as
// btrfs) allocate new space for that, and on a full disk the program would die of SIGBUS. There, fallocate()
// at least guarantees the space for the first write.
bool is_overwritten_in_place(int fd) {
  constexpr long kExt = 0xEF53, kTmpfs = 0x01021994;
  struct statfs info {};
  return ::fstatfs(fd, &info) == 0 && (info.f_type == kExt || info.f_type == kTmpfs);
}

// Writes zeros in one call. A file system with large folios then caches them in a few pieces, which are
// mapped at once. 128 KiB take 35 to 45 µs on ext4 (Linux 6.18). fallocate() and a page fault for each page
// take 150 µs. The difference is 4 ns for each event. Both reserve the disk space.
bool write_zeros(int fd, std::uint64_t offset, std::uint64_t bytes) {
  static char zeros[16384];
  constexpr std::uint64_t kMostPieces = 8;
  while (bytes > 0) {
    iovec pieces[kMostPieces];
    int count = 0;
    for (std::uint64_t left = bytes; left > 0 && count < static_cast<int>(kMostPieces); ++count) {
      pieces[count] = {zeros, left < sizeof zeros ? left : sizeof zeros};
      left -= pieces[count].iov_len;
    }
    const ssize_t written = ::pwritev(fd, pieces, count, static_cast<off_t>(offset));
    if (written <= 0) return false;
    offset += static_cast<std::uint64_t>(written);
    bytes -= static_cast<std::uint64_t>(written);
  }
  return true;
}

// Whether this process made the recording before an execve. Another process may have had the same PID: PIDs
// are reused, and each PID namespace has its own.
bool is_of_this_process(const FileHeader& header) {
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.pid != ::getpid()) return false;
  const std::uint64_t start = process_start_ns();
  return start != 0 && header.first_monotonic_ns >= start;
}

// Whether this process made the recording at `path` before an execve. If so, marks it as properly closed.
bool close_earlier_recording(const char* path) {
  const int fd = ::open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  bool is_ours = false;
  struct stat info {};
  if (::fstat(fd, &info) == 0 && static_cast<std::uint64_t>(info.st_size) >= kHeaderBytes) {
    if (void* page = map_memory(kHeaderBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) {
      auto* header = static_cast<FileHeader*>(page);
      is_ours = is_of_this_process(*header);
      if (is_ours) header->flags.fetch_or(kFlagClosed);
      unmap_memory(page, kHeaderBytes);
    }
  }
  ::close(fd);
  return is_ours;
}

// If a file grows beyond RLIMIT_FSIZE, a signal kills the program. The program may change that limit at any
// time.
bool may_grow_to(std::uint64_t bytes) {
  rlimit file_size{};
  return ::getrlimit(RLIMIT_FSIZE, &file_size) != 0 || file_size.rlim_cur == RLIM_INFINITY ||
         bytes <= file_size.rlim_cur;
}

// The size limit in units of the default segment. RLIMIT_FSIZE at the start also limits the recording.
std::uint64_t max_segments(const Options& options) {
  std::uint64_t most = options.segments;
  if (options.ring && most > kMostRingSlots) most = kMostRingSlots;
  rlimit file_size{};
  if (::getrlimit(RLIMIT_FSIZE, &file_size) == 0 && file_size.rlim_cur != RLIM_INFINITY) {
    const std::uint64_t left = file_size.rlim_cur > kMappedBytes ? file_size.rlim_cur - kMappedBytes : 0;
    if (left / kDefaultSegmentBytes < most) most = left / kDefaultSegmentBytes;
  }
  return most;
}

// Each segment defines its stacks anew. A program with 20,000 stacks of 26 frames needs a megabyte for that.
// So in full mode a segment is larger, unless fewer than a thousand fit: each thread needs one. In a ring,
// smaller segments keep more of the past.
std::uint64_t choose_segment_bytes(const Options& options) {
  constexpr std::uint64_t kLargest = 16 << 20, kFewestSlots = 1000;
  std::uint64_t bytes = kDefaultSegmentBytes;
  if (!options.full || options.ring) return bytes;
  while (bytes < kLargest && max_segments(options) / (2 * bytes / kDefaultSegmentBytes) >= kFewestSlots)
    bytes *= 2;
  return bytes;
}

}  // namespace

bool RecordingFile::open_new(const char* path) {
  fd_ = ::open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) return false;
  fd_ = ledger::move_to_high_number(fd_);
  std::snprintf(path_, sizeof path_, "%s", path);
  return true;
}

bool RecordingFile::open_for_process(const char* path) {
  generation_ = 0;
  if (open_new(path)) return true;
  if (errno != EEXIST) return false;
  if (close_earlier_recording(path)) generation_ = 1;
  char name[sizeof path_];
  if (std::snprintf(name, sizeof name, "%s.d", path) >= static_cast<int>(sizeof name) - 32) return false;
  ::mkdir(name, 0777);
  constexpr std::uint32_t kMostNumbers = 100'000;
  for (std::uint32_t number = generation_; number < kMostNumbers; ++number) {
    std::snprintf(name, sizeof name, "%s.d/%d-%u.hrec", path, ::getpid(), number);
    if (open_new(name)) return true;
    if (errno != EEXIST) return false;
    generation_ = close_earlier_recording(name) ? generation_ + 1 : 0;
  }
  return false;
}

void RecordingFile::fill_header(FileHeader& header, const Options& options) {
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.header_bytes = kHeaderBytes;
  header.metadata_bytes = kDefaultMetadataBytes;
  segment_bytes_ = choose_segment_bytes(options);
  header.segment_bytes = static_cast<std::uint32_t>(segment_bytes_);
  header.flags = (options.full ? kFlagFull : 0u) | (options.ring ? kFlagRing : 0u) |
                 (options.host ? 0u : kFlagWithoutHost) | (is_forked_child() ? kFlagForked : 0u) |
                 (options.attached ? kFlagAttached : 0u);
  header.time_shift = process_clock.shift;
  header.first_ticks = process_clock.first_ticks = ticks_now();
  header.first_monotonic_ns = monotonic_ns();
  header.first_realtime_ns = clock_ns(CLOCK_REALTIME);
  header.last_ticks = header.first_ticks;
  header.last_monotonic_ns = header.first_monotonic_ns;
  header.pid = ::getpid();
  header.parent_pid = ::getppid();
  header.page_bytes = static_cast<std::uint32_t>(::sysconf(_SC_PAGESIZE));
  header.machine = kMachine;
  header.large_bytes = options.large_bytes;
  header.sample_period_bytes = options.sample_period;
  header.segments_limit = max_segments(options) / (segment_bytes_ / kDefaultSegmentBytes);
  is_size_limited_ = max_segments(options) < options.segments && !options.ring;
  header.exec_generation = generation_;
  header.checksum = checksum_of(header);
}

bool RecordingFile::create(const char* path, const Options& options) {
  if (max_segments(options) == 0 || !open_for_process(path)) return false;
  if (set_up(options)) return true;
  // Not even the beginning fits on the disk.
  ::unlink(path_);
  ::close(fd_);
  fd_ = -1;
  return false;
}

bool RecordingFile::set_up(const Options& options) {
  struct stat info {};
  ::fstat(fd_, &info);
  device_ = info.st_dev;
  inode_ = info.st_ino;
  zeros_reserve_ = is_overwritten_in_place(fd_);
  // Write the header first, in one call: a process that is killed right after this leaves a valid, empty
  // recording.
  alignas(FileHeader) static char page[kHeaderBytes];
  fill_header(*reinterpret_cast<FileHeader*>(page), options);
  if (::pwrite(fd_, page, sizeof page, 0) != sizeof page) return false;
  metadata_backed_ = kMetadataStep - kHeaderBytes;
  if (!allocate(kHeaderBytes, kMetadataStep - kHeaderBytes, Reserve::as_a_hole) ||
      ::ftruncate(fd_, kMappedBytes) != 0)
    return false;
  void* mapped = map_file(fd_, kMappedBytes, 0);
  if (mapped == nullptr) return false;
  // Disable read-ahead. The file behind a new page is a hole. With large folios and read-ahead, the kernel
  // would fill up to 2 MiB of it with zeros at the first access. That took 1.3 ms of a process's start (0.02
  // ms without).
  ::madvise(mapped, kMappedBytes, MADV_RANDOM);
  auto* header = static_cast<FileHeader*>(mapped);
  if (options.ring) {
    slots_in_use_ = reserve_array<std::atomic<std::uint8_t>>(header->segments_limit);
    if (slots_in_use_ == nullptr) {
      unmap_memory(mapped, kMappedBytes);
      return false;
    }
  }
  header->file_bytes = kMappedBytes;
  header_ = header;
  return true;
}

void RecordingFile::abandon() {
  if (slots_in_use_ != nullptr) unmap_memory(slots_in_use_, header_->segments_limit);
  if (header_ != nullptr) unmap_memory(header_, kMappedBytes);
  if (fd_ >= 0 && ensure_descriptor()) ::close(fd_);
  header_ = nullptr;
  slots_in_use_ = nullptr;
  next_slot_ = 0;
  fd_ = -1;
  calibrating_ = false;
  backing_metadata_.reset();
}

// A program that closes all descriptors (as daemons do) also closes ours, and may reuse its number for
// another file. So the descriptor is checked before each use, and reopened if it no longer refers to the
// recording.
bool RecordingFile::ensure_descriptor() {
  struct stat info {};
  if (fd_ >= 0 && ::fstat(fd_, &info) == 0 && info.st_dev == device_ && info.st_ino == inode_) return true;
  const int again = ::open(path_, O_RDWR | O_CLOEXEC);
  if (again < 0) return false;
  if (::fstat(again, &info) != 0 || info.st_dev != device_ || info.st_ino != inode_) {
    ::close(again);
    return false;
  }
  fd_ = ledger::move_to_high_number(again);
  return true;
}

bool RecordingFile::allocate(std::uint64_t offset, std::uint64_t bytes, Reserve how) {
  if (!may_grow_to(offset + bytes)) {
    is_size_limited_ = true;
    return false;
  }
  // The range is unwritten, or a slot of the ring whose old records are discarded.
  if (how == Reserve::with_zeros && zeros_reserve_ ? !write_zeros(fd_, offset, bytes)
                                                   : !reserve_on_disk(offset, bytes))
    return false;
  if (header_ == nullptr) return true;
  std::uint64_t known = header_->file_bytes.load(std::memory_order_relaxed);
  while (known < offset + bytes && !header_->file_bytes.compare_exchange_weak(known, offset + bytes)) {
  }
  return true;
}

bool RecordingFile::reserve_on_disk(std::uint64_t offset, std::uint64_t bytes) {
  if (::fallocate(fd_, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0) return true;
  if (errno != EOPNOTSUPP && errno != ENOSYS) return false;
  return write_zeros(fd_, offset, bytes);  // the file system has no other way to reserve space
}

std::uint64_t RecordingFile::segment_offset(std::uint64_t slot) const {
  return kMappedBytes + slot * segment_bytes_;
}

bool RecordingFile::claim(Segment& segment, bool (*leave)(std::uint64_t slot)) {
  if (!ensure_descriptor()) return false;
  const std::uint64_t limit = header_->segments_limit;
  std::atomic<std::uint64_t>& claimed = header_->segments_claimed;
  if (slots_in_use_ == nullptr) {
    std::uint64_t number = claimed.load(std::memory_order_relaxed);
    do {
      if (number >= limit) return false;
    } while (!claimed.compare_exchange_weak(number, number + 1));
    segment.number = segment.slot = number;
  } else {
    // Find the oldest slot that no other thread is writing to.
    std::uint64_t next = next_slot_.load(std::memory_order_relaxed), tries = 0;
    for (; tries < limit; ++tries) {  // each slot once, whatever other threads do meanwhile
      segment.slot = (next + tries) % limit;
      const auto take = [&] {
        return slots_in_use_[segment.slot].exchange(1, std::memory_order_acquire) == 0;
      };
      if (take() || (leave(segment.slot) && take())) break;
    }
    if (tries == limit) return false;
    // if it fails, another thread has advanced it
    next_slot_.compare_exchange_strong(next, next + tries + 1);
    segment.number = claimed.fetch_add(1);
  }
  void* memory = map_file(fd_, segment_bytes_, segment_offset(segment.slot));
  if (memory == nullptr) {
    if (slots_in_use_ != nullptr) slots_in_use_[segment.slot].store(0);
    return false;
  }
  segment.memory = static_cast<std::uint8_t*>(memory);
  calibrate();
  return true;
}

void RecordingFile::release(Segment& segment) {
  if (segment.memory == nullptr) return;
  unmap_memory(segment.memory, segment_bytes_);
  if (slots_in_use_ != nullptr) slots_in_use_[segment.slot].store(0, std::memory_order_release);
  segment.memory = nullptr;
}

bool RecordingFile::reserve_space(const Segment& segment, std::uint64_t bytes) {
  const std::uint64_t begin = bytes - kBackingStep;
  if (!ensure_descriptor() ||
      !allocate(segment_offset(segment.slot) + begin, kBackingStep, Reserve::with_zeros))
    return false;
  // Populating all pages in one call is cheaper than a fault each. Kernels before 5.14 reject the call, and
  // the pages fault.
  ::madvise(segment.memory + begin, kBackingStep, MADV_POPULATE_WRITE);
  // The written part stays in the page cache. Unmapped, it is no longer part of the program's resident
  // memory.
  constexpr std::uint64_t kKeptMapped = 1 << 20;
  if (begin % kKeptMapped == 0 && begin > 0)
    ::madvise(segment.memory + begin - kKeptMapped, kKeptMapped, MADV_DONTNEED);
  calibrate();
  return true;
}

bool RecordingFile::back_metadata(std::uint64_t end) {
  if (end <= metadata_backed_.load(std::memory_order_acquire)) return true;
  const Locked locked(backing_metadata_);
  std::uint64_t backed = metadata_backed_.load(std::memory_order_relaxed);
  for (; backed < end; backed += kMetadataStep) {
    if (!ensure_descriptor() || !allocate(kHeaderBytes + backed, kMetadataStep, Reserve::as_a_hole))
      return false;
    metadata_backed_.store(backed + kMetadataStep, std::memory_order_release);
  }
  return true;
}

bool RecordingFile::write_metadata(MetadataKind kind, std::uint32_t id, const Piece* pieces,
                                   std::size_t count) {
  if (header_ == nullptr) return false;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) bytes += pieces[i].bytes;
  const std::size_t padded = (bytes + 7) / 8 * 8;
  const std::uint64_t begin = header_->metadata_used.fetch_add(sizeof(MetadataHeader) + padded);
  const std::uint64_t end = begin + sizeof(MetadataHeader) + padded;
  if (end > kDefaultMetadataBytes || !back_metadata(end)) return false;
  std::uint8_t* at = reinterpret_cast<std::uint8_t*>(header_) + kHeaderBytes + begin;
  auto* record = reinterpret_cast<MetadataHeader*>(at);
  record->bytes = static_cast<std::uint32_t>(bytes);
  record->kind = kind;
  record->id = id;
  at += sizeof(MetadataHeader);
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(at, pieces[i].data, pieces[i].bytes);
    at += pieces[i].bytes;
  }
  record->magic.store(kMetadataMagic, std::memory_order_release);
  return true;
}

void RecordingFile::write_seal(std::uint64_t slot, const SegmentSeal& seal) {
  if (header_ == nullptr) return;
  const std::uint64_t end = header_->metadata_used.load() + sizeof(MetadataHeader) + sizeof seal;
  if (end + kMetadataStep > kDefaultMetadataBytes) return;
  write_metadata(MetadataKind::segment_seal, static_cast<std::uint32_t>(slot), {&seal, sizeof seal});
}

bool RecordingFile::write_end() {
  if (header_ == nullptr) return false;
  const std::uint64_t used = header_->metadata_used.load();
  if (used + sizeof(MetadataHeader) + sizeof(RecordingEnd) > kDefaultMetadataBytes) return false;
  // Another thread may be writing a record, whose bytes are not final: the checksum ends before it.
  const std::uint8_t* const area = reinterpret_cast<const std::uint8_t*>(header_) + kHeaderBytes;
  RecordingEnd end{};
  while (end.metadata_bytes < used) {
    const auto& record = *reinterpret_cast<const MetadataHeader*>(area + end.metadata_bytes);
    if (record.magic.load(std::memory_order_acquire) != kMetadataMagic) break;
    end.metadata_bytes += sizeof record + (std::uint64_t{record.bytes} + 7) / 8 * 8;
  }
  end.last_ticks = header_->last_ticks.load();
  end.last_monotonic_ns = header_->last_monotonic_ns.load();
  end.segments_claimed = header_->segments_claimed.load();
  end.threads_seen = header_->threads_seen.load();
  end.events_dropped = header_->events_dropped.load();
  end.checksum = checksum_of(end, area);
  return write_metadata(MetadataKind::end, 0, {&end, sizeof end});
}

void RecordingFile::note(const char* sentence) {
  write_metadata(MetadataKind::note, 0, {sentence, std::strlen(sentence)});
}

bool RecordingFile::is_locked() {
  if (!ensure_descriptor()) return false;
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) return errno == EWOULDBLOCK;
  ::flock(fd_, LOCK_UN);
  return false;
}

void RecordingFile::calibrate() {
  if (header_ == nullptr || calibrating_.exchange(true)) return;
  header_->last_ticks.store(ticks_now(), std::memory_order_relaxed);
  header_->last_monotonic_ns.store(monotonic_ns(), std::memory_order_relaxed);
  calibrating_.store(false);
}

}  // namespace headroom::preload
