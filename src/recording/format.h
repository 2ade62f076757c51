// The bytes of a recording (.hrec), version 1. docs/recording-format.md says the same in words; a change here
// is a change there and a new version.
//
//   file      := FileHeader (4096 bytes) · metadata area · segment 0 · segment 1 · …
//   metadata  := MetadataHeader · payload, padded to 8 bytes · …
//   segment   := SegmentHeader (64 bytes) · records · zeros
//   record    := tag byte · fields as varints
//
// All integers are little-endian. A process that is traced maps this file and writes into it; whatever was
// committed stays readable when the process is killed, because the kernel holds the pages, not the process.
// Only constants and plain structs: the preload library includes this inside other people's programs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace headroom::recording {

inline constexpr char kMagic[8] = {'H', 'E', 'A', 'D', 'R', 'O', 'O', 'M'};
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint32_t kHeaderBytes = 4096;
inline constexpr std::uint32_t kDefaultMetadataBytes = 4 << 20;
inline constexpr std::uint32_t kDefaultSegmentBytes = 1 << 20;
// malloc of every allocator in use gives multiples of 8, so addresses are stored in eighths.
inline constexpr unsigned kAddressShift = 3;
inline constexpr std::uint32_t kMaxFrames = 64;

enum HeaderFlags : std::uint32_t {
  kFlagFull = 1,          // every allocation is recorded, not only large ones and samples
  kFlagRing = 2,          // segments are reused: the recording holds the last ones only
  kFlagClosed = 4,        // the process ended its recording itself (absent after a kill)
  kFlagSealed = 8,        // and wrote a RecordingEnd, with checksums
  kFlagWithoutHost = 16,  // memory of GPUs only: neither the heap nor mappings were recorded
  kFlagForked = 32,       // a child after fork, which began with its parent's blocks
};

struct FileHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint32_t metadata_bytes;
  std::uint32_t segment_bytes;
  std::atomic<std::uint32_t> flags;
  std::uint32_t time_shift;  // a time unit is 2^time_shift ticks
  // Two points that turn ticks into time; the second is written anew with every segment that is claimed.
  std::uint64_t first_ticks, first_monotonic_ns, first_realtime_ns;
  std::atomic<std::uint64_t> last_ticks, last_monotonic_ns;
  std::int32_t pid, parent_pid;
  std::uint32_t page_bytes;
  std::uint32_t machine;                        // e_machine of ELF: 62 x86-64, 183 AArch64
  std::uint64_t large_bytes;                    // allocations of this size and above are recorded each
  std::uint64_t sample_period_bytes;            // smaller ones are sampled once in so many bytes on average
  std::uint64_t segments_limit;                 // no more segments than these
  std::atomic<std::uint64_t> segments_claimed;  // in a ring this runs on past segments_limit
  std::atomic<std::uint64_t> metadata_used;     // bytes claimed in the metadata area
  std::atomic<std::uint64_t> threads_seen;
  std::atomic<std::uint64_t> events_dropped;  // of threads that had no segment to write a gap into
  std::uint32_t exec_generation;              // how many programs this process had run before (execve)
  std::uint32_t checksum;  // of what does not change (checksum.h); 0: an earlier version's, without checksums
  // The file has been this long: a shorter one was cut off. A slot may be claimed before the file reaches it.
  std::atomic<std::uint64_t> file_bytes;
};
inline constexpr std::size_t kCheckedHeaderBytes = 160;
static_assert(sizeof(FileHeader) == kCheckedHeaderBytes);

enum class MetadataKind : std::uint32_t {
  command = 1,          // argv, separated by NUL
  executable = 2,       // path
  folder = 3,           // working directory
  module = 4,           // ModuleRecord · build id · path
  module_gone = 5,      // u64 load bias · u64 ticks
  scope = 6,            // ScopeRecord · name; `id` is the scope's
  thread = 7,           // u32 kernel's thread id · u32 0 · name; `id` is the thread's index
  runtime_profile = 8,  // ProfileRecord · path: a profile that a runtime wrote of itself; `id` is its number
  host = 9,             // sysname, release, machine, separated by NUL
  note = 10,            // a sentence for the reader: why the recording ended early
  device = 11,          // DeviceRecord · name: a GPU that the process used; `id` is its ordinal
  open_profile = 12,    // ProfileRecord without a time or a path: a runtime keeps a profile in its memory
  segment_seal = 13,    // SegmentSeal of a segment that was open at the end; `id` is its slot
  end = 14,             // RecordingEnd
  process = 15,         // name: of a process that a device_holder tells of; `id` is its number
};

struct MetadataHeader {
  std::atomic<std::uint32_t> magic;  // kMetadataMagic, stored last
  std::uint32_t bytes;               // of the payload, without padding
  MetadataKind kind;
  std::uint32_t id;
};
// The note of a tracer whose list of recorded blocks was full: it counted large ones like small ones. Readers
// take a recording with it for incomplete.
inline constexpr char kNoteUnrecordedLarge[] =
    "more than a million large allocations were live: some were counted and not recorded";
inline constexpr std::uint32_t kMetadataMagic = 0x4154454d;  // "META"
static_assert(sizeof(MetadataHeader) == 16);

struct ModuleRecord {
  std::uint64_t load_bias;   // what is added to the file's virtual addresses
  std::uint64_t start, end;  // the range of its loaded segments
  std::uint64_t ticks;       // when it was seen
  std::uint32_t build_id_bytes, reserved;
};

enum class ScopeSource : std::uint32_t {
  program = 0,
  nvtx = 1,
  session = 2,
  run = 3,
  node = 4,
  load = 5,
  module = 6,   // of PyTorch
  phase = 7,    // of training: backward, optimizer.step
  weights = 8,  // of the PyTorch module that it lies in; no thread is ever in it
};
// What such a scope is called.
inline constexpr char kWeightsScope[] = "(weights)";

// The scope of what the tracer itself does in the program, such as ending a runtime's profile. It lies in
// whatever scope the thread is in then.
inline constexpr char kTracersOwnScope[] = "headroom: profiling";

struct ScopeRecord {
  std::uint32_t parent;  // scope id; 0 is the root
  ScopeSource source;
};

struct ProfileRecord {
  std::uint64_t start_monotonic_ns;  // what the profile's own zero is
  std::uint32_t scope;               // the session that it tells of
  std::uint32_t reserved;
};

enum DeviceFlags : std::uint32_t {
  kDeviceIntegrated = 1,  // its memory is the machine's: never to be added to that
  kDeviceLimited = 2,     // limit_bytes is a limit that allocations are refused by
  kDeviceShared = 4,      // other processes' memory counts against the limit, too
  // What a probe found of the limit before the program was started: neither, where there was none.
  kDeviceLimitHard = 8,   // every way to take memory that was tried was refused
  kDeviceLimitSoft = 16,  // not so
  kDeviceMig = 32,        // an instance of MIG: `uuid` is its own
};
struct DeviceRecord {
  std::uint64_t total_bytes;  // as the driver tells
  std::uint64_t limit_bytes;
  std::uint32_t flags;
  std::uint32_t granule_bytes;  // in what the device gives memory; 0: not known, or the machine's pages
  std::uint8_t uuid[16];
};

// ThreadSanitizer knows no fences, and g++ ends a build for it that has one.
inline void fence(std::memory_order order) {
#ifdef __SANITIZE_THREAD__
  std::atomic_signal_fence(order);
#else
  std::atomic_thread_fence(order);
#endif
}

struct SegmentHeader {
  std::uint32_t magic;  // kSegmentMagic
  std::uint32_t thread;
  std::uint64_t number;     // the order of claims
  std::uint64_t base_time;  // time units since first_ticks that the first record's delta counts from
  std::uint32_t scope;      // the thread's scope at the first record
  std::atomic<std::uint32_t> committed;  // bytes of records that are whole
  // What the thread counted after its last counters record, in the scope below: to be read as one more such
  // record at the segment's end. In place, so that a process that is killed loses none of it.
  std::atomic<std::uint64_t> counted_allocations, counted_bytes, counted_releases;
  std::atomic<std::uint32_t> counted_scope;
  // Not 0: the segment was left, and this is the checksum of what lies above and of the committed records.
  std::atomic<std::uint32_t> checksum;
};
inline constexpr std::uint32_t kSegmentMagic = 0x47455348;  // "HSEG"
static_assert(sizeof(SegmentHeader) == 64);

// A segment's header as it was when the recording ended, with the checksum that it has no place for while its
// thread may go on. Whatever that thread writes later lies behind it.
struct SegmentSeal {
  std::uint32_t magic, thread;
  std::uint64_t number, base_time;
  std::uint32_t scope, committed;
  std::uint64_t counted_allocations, counted_bytes, counted_releases;
  std::uint32_t counted_scope, checksum;
};
static_assert(sizeof(SegmentSeal) == sizeof(SegmentHeader));

// What the process writes last: fields of the file header as they were then, and a checksum of the metadata
// before it.
struct RecordingEnd {
  std::uint64_t metadata_bytes;  // so many from the start of the area on have the checksum
  std::uint64_t last_ticks, last_monotonic_ns;
  std::uint64_t segments_claimed, threads_seen, events_dropped;
  std::uint64_t checksum;  // of those bytes, and of the fields above
};
static_assert(sizeof(RecordingEnd) == 56);

// The low four bits of a record's tag. The high four are the time since the record before in this segment, in
// units; 15 means that a varint of the rest follows the tag.
enum RecordTag : std::uint8_t {
  kTagEnd = 0,       // nothing here yet
  kTagAllocate = 1,  // zigzag Δaddress/8 · size · stack
  kTagRelease = 2,   // zigzag Δaddress/8
  kTagMap = 3,       // zigzag Δaddress/8 · size · stack
  kTagUnmap = 4,     // zigzag Δaddress/8 · size
  kTagScope = 5,     // scope id
  kTagStack = 6,  // defines the segment's next stack (1, 2, …): frames · shared · zigzag Δ of the others
  kTagSample = 7,  // as kTagAllocate
  kTagCounters =
      8,  // scope id · allocations · bytes · releases since the thread's last such record of the scope
  kTagGap = 9,         // events not written
  kTagThread = 10,     // thread index: the records that follow are another thread's; its scope begins at 0
  kTagExtension = 15,  // ExtensionKind · bytes · payload: an older reader steps over what it does not know
};
// Device is an ordinal of a GPU, kind a DeviceMemoryKind, handle an address or what else the driver calls it
// by; all are varints.
enum class ExtensionKind : std::uint8_t {
  device_allocate = 1,  // device · kind · handle · size · stack
  device_release = 2,   // device · kind · handle
  device_refused = 3,   // device · kind · size · charged · limit · stack
  device_figure = 4,    // device · kind · bytes: what it is now, for kinds that are no allocations
  reserve = 5,          // address/8 · size · stack: addresses without access (PROT_NONE)
  make_accessible = 6,  // address/8 · size · stack: what of this was reserved is memory from now on
  weight = 7,  // address/8 · scope id: what lies there belongs to this scope, and did so all the time
  // device · process · bytes · is elsewhere: behind a device_refused of the thread, who held how much of the
  // limit then. Process 0 is the one of the recording; one elsewhere has its number in another PID namespace.
  device_holder = 8,
};
// Of a refusal: the process itself, and the largest others. Of the first refusals of a device alone, so that
// a program that asks again and again does not fill its recording with them.
inline constexpr unsigned kMostOtherHolders = 3, kMostRefusalsWithHolders = 100;
inline constexpr unsigned kInlineTimeLimit = 15;

// The longest record that is not a stack, and the longest stack.
inline constexpr std::size_t kMaxRecordBytes = 72;
inline constexpr std::size_t kMaxStackBytes = 32 + 10 * kMaxFrames;

}  // namespace headroom::recording
