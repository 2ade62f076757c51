// The byte format of a recording (.hrec), version 1. docs/recording-format.md describes it in prose. Change
// both together, with a new version.
//
//   file      := FileHeader (4096 bytes) · metadata area · segment 0 · segment 1 · …
//   metadata  := MetadataHeader · payload, padded to 8 bytes · …
//   segment   := SegmentHeader (64 bytes) · records · zeros
//   record    := tag byte · fields as varints
//
// All integers are little-endian. The traced process maps this file and writes to it. Committed data stays
// readable when the process is killed, because the pages belong to the kernel. The preload library includes
// this file in other programs, so it contains only constants and plain structs.
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
// All common allocators return multiples of 8, so addresses are stored divided by 8.
inline constexpr unsigned kAddressShift = 3;
inline constexpr std::uint32_t kMaxFrames = 64;

enum HeaderFlags : std::uint32_t {
  kFlagFull = 1,          // every allocation is recorded, not only large ones and samples
  kFlagRing = 2,          // segments are reused: the recording contains only the last ones
  kFlagClosed = 4,        // the process closed the recording (not set after a kill)
  kFlagSealed = 8,        // the process wrote a RecordingEnd with checksums
  kFlagWithoutHost = 16,  // only GPU memory is recorded: no heap, no mappings
  kFlagForked = 32,       // a child after fork, which starts with its parent's live blocks
  kFlagAttached = 64,     // the recorder came into a running process, whose older blocks are not recorded
};

struct FileHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint32_t metadata_bytes;
  std::uint32_t segment_bytes;
  std::atomic<std::uint32_t> flags;
  std::uint32_t time_shift;  // a time unit is 2^time_shift ticks
  // Two reference points convert ticks to time. The second is updated whenever a segment is claimed.
  std::uint64_t first_ticks, first_monotonic_ns, first_realtime_ns;
  std::atomic<std::uint64_t> last_ticks, last_monotonic_ns;
  std::int32_t pid, parent_pid;
  std::uint32_t page_bytes;
  std::uint32_t machine;              // e_machine of ELF: 62 x86-64, 183 AArch64
  std::uint64_t large_bytes;          // allocations of at least this size are recorded individually
  std::uint64_t sample_period_bytes;  // average distance of samples, in bytes, for smaller allocations
  std::uint64_t segments_limit;       // maximum number of segments
  std::atomic<std::uint64_t> segments_claimed;  // in a ring this counts beyond segments_limit
  std::atomic<std::uint64_t> metadata_used;     // bytes claimed in the metadata area
  std::atomic<std::uint64_t> threads_seen;
  std::atomic<std::uint64_t> events_dropped;  // of threads without a segment for a gap record
  std::uint32_t exec_generation;              // number of earlier execve calls of this process
  std::uint32_t checksum;  // of the constant fields (encoding.h); 0: written by an earlier version
  // The file once had this length; a shorter file was truncated. A slot may be claimed before the file
  // reaches it.
  std::atomic<std::uint64_t> file_bytes;
};
inline constexpr std::size_t kCheckedHeaderBytes = 160;
static_assert(sizeof(FileHeader) == kCheckedHeaderBytes);

enum class MetadataKind : std::uint32_t {
  command = 1,          // argv, separated by NUL
  executable = 2,       // path
  folder = 3,           // working directory
  module = 4,           // ModuleRecord · build id · path
  module_gone = 5,      // u64 load bias · u64 ticks: the module was unloaded
  scope = 6,            // ScopeRecord · name; `id` is the scope id
  thread = 7,           // u32 kernel thread id · u32 0 · name; `id` is the thread index
  runtime_profile = 8,  // ProfileRecord · path: a profile written by a runtime; `id` is its number
  host = 9,             // sysname, release, machine, separated by NUL
  note = 10,            // a sentence for the reader, such as why the recording ended early
  device = 11,          // DeviceRecord · name: a GPU that the process used; `id` is its ordinal
  open_profile = 12,    // ProfileRecord without time and path: a runtime holds an unwritten profile in memory
  segment_seal = 13,    // SegmentSeal of a segment that was open at the end; `id` is its slot
  end = 14,             // RecordingEnd
  process = 15,         // name of a process that a device_holder record refers to; `id` is its number
  attached = 16,        // AttachRecord: the recorder came into a running process
};

struct MetadataHeader {
  std::atomic<std::uint32_t> magic;  // kMetadataMagic, stored last
  std::uint32_t bytes;               // of the payload, without padding
  MetadataKind kind;
  std::uint32_t id;
};
// The note of a tracer whose table of recorded blocks was full: it only counted some large allocations.
// Readers treat such a recording as incomplete.
inline constexpr char kNoteUnrecordedLarge[] =
    "more than a million large allocations were live: some were counted and not recorded";
inline constexpr std::uint32_t kMetadataMagic = 0x4154454d;  // "META"
static_assert(sizeof(MetadataHeader) == 16);

struct ModuleRecord {
  std::uint64_t load_bias;   // added to the file's virtual addresses
  std::uint64_t start, end;  // the range of its loaded segments
  std::uint64_t ticks;       // when the tracer first saw it
  std::uint32_t build_id_bytes, reserved;
};

struct AttachRecord {
  std::uint64_t process_age_ns;  // 0: unknown
  std::uint64_t resident_bytes;  // of the whole process, before attaching; 0: unknown
};

enum class ScopeSource : std::uint32_t {
  program = 0,
  nvtx = 1,
  session = 2,
  run = 3,
  node = 4,
  load = 5,
  module = 6,   // a PyTorch module
  phase = 7,    // a training phase: backward, optimizer.step
  weights = 8,  // weights of the enclosing PyTorch module; no thread ever enters it
};
// The name of a scope with ScopeSource::weights.
inline constexpr char kWeightsScope[] = "(weights)";

// The scope of the tracer's own work in the program, such as ending a runtime's profile. Its parent is the
// thread's current scope.
inline constexpr char kTracerScope[] = "headroom: profiling";

struct ScopeRecord {
  std::uint32_t parent;  // scope id; 0 is the root
  ScopeSource source;
};

struct ProfileRecord {
  std::uint64_t start_monotonic_ns;  // time zero of the profile
  std::uint32_t scope;               // the profiled session
  std::uint32_t reserved;
};

enum DeviceFlags : std::uint32_t {
  kDeviceIntegrated = 1,  // uses host memory: never add its figures to the host's
  kDeviceLimited = 2,     // allocations above limit_bytes are refused
  kDeviceShared = 4,      // other processes count against the same limit
  // Result of the limit probe before the program started. Neither flag is set if no probe ran.
  kDeviceLimitHard = 8,   // every route that the probe tried was refused
  kDeviceLimitSoft = 16,  // a route exceeded the limit
  kDeviceMig = 32,        // a MIG instance, with its own `uuid`
};
struct DeviceRecord {
  std::uint64_t total_bytes;  // from the driver
  std::uint64_t limit_bytes;
  std::uint32_t flags;
  std::uint32_t granule_bytes;  // allocation granule of the device; 0: unknown, or host pages
  std::uint8_t uuid[16];
};

// ThreadSanitizer does not support fences: g++ stops the build at one.
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
  std::uint64_t number;     // order in which segments were claimed
  std::uint64_t base_time;  // the first record's time delta counts from here, in time units since first_ticks
  std::uint32_t scope;      // the thread's scope at the first record
  std::atomic<std::uint32_t> committed;  // bytes of complete records
  // What the thread counted since its last counters record, in counted_scope. A reader treats this as one
  // more counters record at the end. It is stored here so that a killed process loses nothing.
  std::atomic<std::uint64_t> counted_allocations, counted_bytes, counted_releases;
  std::atomic<std::uint32_t> counted_scope;
  // Not 0: the segment is finished; checksum of the fields above and of the committed records.
  std::atomic<std::uint32_t> checksum;
};
inline constexpr std::uint32_t kSegmentMagic = 0x47455348;  // "HSEG"
static_assert(sizeof(SegmentHeader) == 64);

// A segment's header at the end of the recording, with a checksum. A segment header cannot store it, because
// its thread may still write. Records that the thread adds later are not covered.
struct SegmentSeal {
  std::uint32_t magic, thread;
  std::uint64_t number, base_time;
  std::uint32_t scope, committed;
  std::uint64_t counted_allocations, counted_bytes, counted_releases;
  std::uint32_t counted_scope, checksum;
};
static_assert(sizeof(SegmentSeal) == sizeof(SegmentHeader));

// The last record that the process writes: copies of file-header fields, and a checksum of the metadata
// before it.
struct RecordingEnd {
  std::uint64_t metadata_bytes;  // the checksum covers this many bytes of the metadata area
  std::uint64_t last_ticks, last_monotonic_ns;
  std::uint64_t segments_claimed, threads_seen, events_dropped;
  std::uint64_t checksum;  // of those bytes and of the fields above
};
static_assert(sizeof(RecordingEnd) == 56);

// The low four bits of a record's tag. The high four bits are the time since the previous record of the
// segment, in time units. 15 means that a varint with the rest follows the tag.
enum RecordTag : std::uint8_t {
  kTagEnd = 0,       // no record here yet
  kTagAllocate = 1,  // zigzag Δaddress/8 · size · stack
  kTagRelease = 2,   // zigzag Δaddress/8
  kTagMap = 3,       // zigzag Δaddress/8 · size · stack
  kTagUnmap = 4,     // zigzag Δaddress/8 · size
  kTagScope = 5,     // scope id
  // Defines the segment's next stack (1, 2, …): frames · shared · zigzag Δ of the other frames.
  kTagStack = 6,
  kTagSample = 7,  // same fields as kTagAllocate
  // scope id · allocations · bytes · releases, since the thread's last counters record for the scope.
  kTagCounters = 8,
  kTagGap = 9,         // number of events that were not written
  kTagThread = 10,     // thread index: the following records are another thread's; its scope starts at 0
  kTagExtension = 15,  // ExtensionKind · bytes · payload: older readers skip unknown kinds
};
// device: ordinal of a GPU; kind: a DeviceMemoryKind; handle: an address or another identifier from the
// driver. All are varints.
enum class ExtensionKind : std::uint8_t {
  device_allocate = 1,  // device · kind · handle · size · stack
  device_release = 2,   // device · kind · handle
  device_refused = 3,   // device · kind · size · charged · limit · stack
  device_figure = 4,    // device · kind · bytes: the new value of a figure that is not an allocation
  reserve = 5,          // address/8 · size · stack: addresses without access (PROT_NONE)
  make_accessible = 6,  // address/8 · size · stack: the reserved part of this becomes memory
  weight = 7,           // address/8 · scope id: this block has belonged to this scope since its allocation
  // device · process · bytes · is elsewhere. Follows a device_refused of the same thread: `process` had so
  // many bytes of the limit then. Process 0 is the recorded process. If "is elsewhere" is set, the number
  // belongs to another PID namespace.
  device_holder = 8,
};
// Holders are recorded for the process itself and for the largest others, and only for the first refusals of
// a device. So a program that retries all the time does not fill its recording.
inline constexpr unsigned kMostOtherHolders = 3, kMostRefusalsWithHolders = 100;
inline constexpr unsigned kInlineTimeLimit = 15;

// The longest record except for stacks, and the longest stack.
inline constexpr std::size_t kMaxRecordBytes = 72;
inline constexpr std::size_t kMaxStackBytes = 32 + 10 * kMaxFrames;

}  // namespace headroom::recording
