// The traced process: the tracer's options, which `headroom trace` passes in an environment variable, the
// recording's file, and the process's phase.
#pragma once

#include <atomic>
#include <cstdint>

#include "ledger/account.h"
#include "preload/address_set.h"
#include "preload/memory.h"
#include "recording/format.h"
#include "types/lock.h"

namespace headroom::preload {

// The result of the probe that tested the limits before the program started.
enum class ProvedLimit : std::uint8_t { not_tried, hard, soft };

enum class StackMode : std::uint8_t { off, frame_pointers, unwind };

struct Options {
  bool ledger = false;                   // no recording: only the account of GPU memory and its limits
  bool host = true;                      // record host memory; set from kHasHostHooks, not parsed
  bool attached = false;                 // recording began in a running process (attach.cpp), not parsed
  bool full = false;                     // record every allocation, not only large ones and samples
  StackMode stacks = StackMode::unwind;  // how call stacks are taken
  bool layers = true;                    // record scopes of NVTX, ONNX Runtime and PyTorch
  // overwrite the oldest segment instead of stopping at `segments`
  bool ring = false;
  std::uint64_t segments = ~std::uint64_t{0};  // maximum number of segments in the file
  std::uint64_t events = 0;                    // stop after this number of events; 0: no limit
  std::uint64_t large_bytes = 4096;            // default mode: record each allocation of at least this size
  std::uint64_t sample_period = 262144;  // default mode: sample smaller allocations once per this many bytes
  ledger::Limits device_limits;          // "device=8589934592" for all, "device0=…" for one
  ProvedLimit proved = ProvedLimit::not_tried;  // "proved=hard"
  char account[256] = {};                       // file of the account that other processes share; empty: none
  char outer_accounts[ledger::kMaxAccounts - 1][256] = {};  // "within=": the accounts that enclose it
  unsigned outer_account_count = 0;
};

// "full=1,stacks=fp,ring=64": unknown keys and invalid values keep the default.
Options parse_options(const char* text);

// When this process began, on CLOCK_MONOTONIC. 0: unknown.
std::uint64_t process_start_ns();

// The file that one process records into. Its header and metadata stay mapped as long as the process lives.
// Threads claim segments, map them, write them, and release them.
//
// Disk space is reserved before it is written to, in steps of 128 KiB. A write through a mapping to a full
// disk would kill the program by SIGBUS, whereas a failed reservation only costs events.
inline constexpr std::uint64_t kBackingStep = 128 << 10;

// A segment that belongs to one thread.
struct Segment {
  std::uint8_t* memory = nullptr;  // null: none
  std::uint64_t number = 0;        // in the order of claims
  std::uint64_t slot = 0;          // its position in the file
};

class RecordingFile {
 public:
  // Creates the recording of this process: `path` itself for the first process of the tree, otherwise
  // `path`.d/PID-NUMBER.hrec. Returns false on failure.
  bool create(const char* path, const Options& options);
  // In a forked child: drops the parent's recording. The parent's file does not change.
  void abandon();

  recording::FileHeader* header() const { return header_; }
  bool is_open() const { return header_ != nullptr; }
  // Of this recording, or of the parent's in a forked child that has not created its own yet.
  std::uint64_t segment_bytes() const { return segment_bytes_; }
  // True if RLIMIT_FSIZE keeps the recording smaller than requested.
  bool is_size_limited() const { return is_size_limited_.load(std::memory_order_relaxed); }

  // Returns false when the size limit is reached, all slots of the ring are in use, or memory cannot be
  // mapped. In a ring, calls `leave` for used slots, oldest first, until one call returns true: then that
  // slot is free.
  bool claim(Segment& segment, bool (*leave)(std::uint64_t slot));
  void release(Segment& segment);
  // Reserves disk space for the first `bytes` of a segment (a multiple of the step). Returns false when the
  // disk is full.
  bool reserve_space(const Segment& segment, std::uint64_t bytes);

  // Writes a metadata record that consists of these pieces. If the area or the disk is full, drops the record
  // and returns false.
  struct Piece {
    const void* data;
    std::size_t bytes;
  };
  bool write_metadata(recording::MetadataKind kind, std::uint32_t id, const Piece* pieces, std::size_t count);
  bool write_metadata(recording::MetadataKind kind, std::uint32_t id, Piece piece) {
    return write_metadata(kind, id, &piece, 1);
  }
  // Writes the checksum of a segment whose thread may go on writing. Leaves some metadata space free for
  // records that a reader needs more.
  void write_seal(std::uint64_t slot, const recording::SegmentSeal& seal);
  // Writes the last record of a process that ends: the header's current values and the checksum of the
  // metadata. Returns false if there is no space.
  bool write_end();
  void note(const char* sentence);

  // Takes the second of the two points that convert ticks into time.
  void calibrate();

  // Whether another process has locked the file: the one that attached this recorder.
  bool is_locked();

 private:
  bool open_new(const char* path);
  bool open_for_process(const char* path);
  bool set_up(const Options& options);
  void fill_header(recording::FileHeader& header, const Options& options);
  bool ensure_descriptor();
  enum class Reserve { as_a_hole, with_zeros };
  bool allocate(std::uint64_t offset, std::uint64_t bytes, Reserve how);
  bool reserve_on_disk(std::uint64_t offset, std::uint64_t bytes);
  bool back_metadata(std::uint64_t end);
  std::uint64_t segment_offset(std::uint64_t slot) const;

  bool zeros_reserve_ = false;  // writing zeros reserves space as well as fallocate(), and faster
  std::uint64_t segment_bytes_ = recording::kDefaultSegmentBytes;
  int fd_ = -1;
  std::uint64_t device_ = 0, inode_ = 0;  // identify the file behind fd_
  std::uint32_t generation_ = 0;
  recording::FileHeader* header_ = nullptr;
  std::atomic<std::uint8_t>* slots_in_use_ = nullptr;  // only in a ring
  // only in a ring: where the search for a free slot continues
  std::atomic<std::uint64_t> next_slot_{0};
  std::atomic<std::uint64_t> metadata_backed_{0};
  Lock backing_metadata_;
  std::atomic<bool> calibrating_{false}, is_size_limited_{false};
  char path_[4096] = {};
};

// The recording of this process, from its first event to its end.
enum class Phase : std::uint32_t {
  idle,      // before the first event
  starting,  // one thread opens the recording; events of other threads are dropped
  recording,
  disabled,  // not requested, or the file cannot be written
};

struct alignas(kCacheLine) Process {
  std::atomic<Phase> phase{Phase::idle};
  // Allocations below this are counted and sampled; 0 in full mode.
  std::uint64_t large_bytes = 0;
  AddressSet recorded;  // default mode only
  Options options;
  RecordingFile file;
  void* spare_account = nullptr;              // Account::kPageBytes, mapped early under a GPU memory limit
  bool has_device_limit = false;              // from `options`
  char path[4096] = {};                       // the requested path; a child's environment may lack it
  std::atomic<std::uint64_t> events_left{0};  // of options.events
  // kOurs while the recording belongs to this process. In a child after fork the kernel has zeroed it.
  enum ForkMark : std::uint32_t { kForked = 0, kOurs = 1, kChildStarts = 2 };
  std::atomic<std::uint32_t>* fork_mark = nullptr;
  bool is_forked_child = false;
  // Set while a recorder that came into a running process records (attach.cpp). The first is called a few
  // times a second: it ends the recording if the process that wanted it is gone. The second restores the
  // redirected calls, in a forked child.
  void (*end_if_abandoned)() = nullptr;
  void (*leave_in_child)() = nullptr;
};
extern Process process;

// Whether the recording belongs to this process, and not to the parent that forked it.
inline bool recording_is_ours() {
  return process.fork_mark != nullptr && process.fork_mark->load(std::memory_order_acquire) == Process::kOurs;
}
// Whether this process is a forked child that records. Then no thread may wait for the loader's lock. A
// thread of the parent may have held it at the fork, and then it is never released.
inline bool is_forked_child() { return process.is_forked_child; }

struct ThreadLocal;

// The two steps that a recorder may need first. They use every file of the recorder, so they are defined
// above all of them, in recording_start.cpp.
//
// Opens the recording at the first event, if the environment requests one. False: do not record (yet).
bool start_recording(ThreadLocal& thread);
// In a child after fork: opens the child's own recording.
void start_recording_in_child(ThreadLocal& thread);

inline bool is_recording(ThreadLocal& thread) {
  const Phase phase = process.phase.load(std::memory_order_acquire);
  return __builtin_expect(phase == Phase::recording, 1) || (phase == Phase::idle && start_recording(thread));
}
// Whether a recording or the ledger was requested, even if the recording could not be written: limits stay in
// force.
inline bool is_traced(ThreadLocal& thread) {
  return is_recording(thread) || process.path[0] != 0 || process.options.ledger || process.has_device_limit;
}

}  // namespace headroom::preload
