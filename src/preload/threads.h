// The state of a thread: its segment, the stacks defined there, the sampler, and the guard that keeps the
// tracer's own allocations out of the recording.
#pragma once

#include <cstdint>

#include "preload/memory.h"
#include "preload/process.h"
#include "preload/stack_walk.h"
#include "recording/record_writer.h"

namespace headroom::preload {

// The stacks that a thread's current segment has defined, by their hash. With 20,000 stacks nearly every
// lookup misses the first-level cache, so the table is dense: a word for each stack, eight words a cache
// line, and up to three quarters of them in use. A stack is in the set of its hash, or in the set beside it,
// which processors load along. The table grows from 2,048 stacks (16 KiB) to 131,072 (1 MiB). A stack that
// was evicted is defined again, which costs bytes but not correctness.
class StackDictionary {
 public:
  // Returns the stack's number in the segment; 0 if it has none.
  std::uint32_t find(std::uint64_t hash) const {
    const Place place = place_of(hash);
    const std::uint32_t number = sets_[place.set].find(place.key);
    return __builtin_expect(number != 0, 1) ? number : sets_[place.set ^ 1].find(place.key);
  }
  void prefetch(std::uint64_t hash) const { __builtin_prefetch(&sets_[place_of(hash).set]); }
  // Numbers count from 1, so they are also the number of stacks in the segment.
  void put(std::uint64_t hash, std::uint32_t number);
  // A new segment begins.
  void clear();

 private:
  // A word: 44 bits of the mixed hash, 20 of the number. Together with the set in the smallest table these
  // are the hash's upper 51 bits, so two of 20,000 stacks are taken for one with a probability of 10^-7.
  static constexpr unsigned kEntries = 8, kFewestBits = 8, kMostBits = 14, kNumberBits = 20;
  struct alignas(kCacheLine) Set {
    std::uint64_t entries[kEntries];
    // Where a stack is, unless another one was there first.
    static std::uint64_t first_of(std::uint64_t key) { return key >> kNumberBits & (kEntries - 1); }
    std::uint32_t find(std::uint64_t key) const {
      const std::uint64_t first = entries[first_of(key)] ^ key;
      if (__builtin_expect(first >> kNumberBits == 0, 1)) return static_cast<std::uint32_t>(first);
      std::uint64_t number = 0;  // without branches: which entry it is can't be predicted
      for (const std::uint64_t entry : entries) number |= (entry ^ key) >> kNumberBits == 0 ? entry ^ key : 0;
      return static_cast<std::uint32_t>(number);
    }
    bool put(std::uint64_t entry);  // false: full
  };
  struct Place {
    std::uint64_t set, key;
  };
  // The hash is a sum of products. After one more, its upper bits depend on all input bits.
  Place place_of(std::uint64_t hash) const {
    const std::uint64_t mixed = hash * kHashFactor;
    return {mixed >> (64 - kFewestBits - more_bits_),
            (mixed << (kFewestBits - 1)) >> kNumberBits << kNumberBits};
  }
  void grow();

  unsigned more_bits_;  // 0 in the zeroed memory of a new thread
  bool is_used_;
  Set sets_[1 << kMostBits];
};

// log2 of a number above 0, accurate to 1e-7: the mantissa's part is a series in (m−1)/(m+1).
inline double log2_of(std::uint64_t value) {
  const int exponent = 63 - __builtin_clzll(value);
  const double mantissa = static_cast<double>(value) / static_cast<double>(std::uint64_t{1} << exponent);
  const double z = (mantissa - 1) / (mantissa + 1), z2 = z * z;
  const double ln = 2 * z * (1 + z2 * (1.0 / 3 + z2 * (1.0 / 5 + z2 * (1.0 / 7 + z2 * (1.0 / 9 + z2 / 11)))));
  return exponent + ln * 1.4426950408889634;
}

// Chooses the small allocations to record as samples. Each byte is chosen with probability 1/period, so the
// distance to the next chosen byte is exponentially distributed and memoryless. An allocation of `size` bytes
// is recorded with probability 1 − e^(−size/period). Weighting samples with the inverse gives unbiased
// estimates.
class Sampler {
 public:
  void start(std::uint64_t seed, std::uint64_t period) {
    random_ = (seed ^ 0x2545f4914f6cdd1d) * 0x9e3779b97f4a7c15 | 1;
    period_ = period;
    draw();
  }
  // Returns whether one of these bytes is chosen.
  bool chooses(std::uint64_t bytes) {
    if (__builtin_expect(bytes < left_, 1)) {
      left_ -= bytes;
      return false;
    }
    draw();
    return true;
  }
  // Returns true if none of these bytes is chosen. If one is, changes nothing: then call chooses().
  bool passes(std::uint64_t bytes) {
    if (__builtin_expect(bytes >= left_, 0)) return false;
    left_ -= bytes;
    return true;
  }

 private:
  [[gnu::noinline, gnu::cold]] void draw() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    constexpr double kLn2 = 0.6931471805599453;
    const double uniform_log2 = log2_of((random_ >> 11) + 1) - 53;  // of a number in (0, 1]
    left_ = static_cast<std::uint64_t>(-uniform_log2 * kLn2 * static_cast<double>(period_)) + 1;
  }

  std::uint64_t left_ = 0;  // bytes until the next chosen one
  std::uint64_t random_ = 0, period_ = 0;
};

// The data that a thread needs to record. The thread-local part is small and always present. The rest is
// assigned at the thread's first event. When the thread ends, another thread takes it over with its half-full
// segment.
inline constexpr std::size_t kThreadNameBytes = 16;  // the kernel's limit, with NUL

inline constexpr std::uint64_t kFirstDropsBetweenTries = 1024;

// The kernel wipes this memory in a forked child, so all zeros must mean "unusable". A child that wrote into
// its parent's segments would corrupt them.
struct alignas(kCacheLine) ThreadState {
  // where small allocations are counted: the open segment's header
  recording::SegmentHeader* counters = nullptr;
  std::uint64_t quota = 0;           // events that it may write before it must ask again
  std::uint32_t segment_serial = 0;  // for the known walks; 0 means none
  std::uint32_t thread_index = 0;
  recording::RecordWriter writer;  // its first fields share the cache line
  // thread and scope that a reader assigns to the next record
  std::uint32_t segment_thread = 0, segment_scope = 0;
  StackBounds stack;
  std::uint64_t counters_written = 0;     // time of the last record
  std::uint64_t backed_bytes = 0;         // reserved bytes of the segment
  std::uint64_t gap = 0;                  // events dropped since the last record
  std::uint64_t retry_in = 0;             // drops until the next attempt to get a segment
  std::uint64_t drops_between_tries = 0;  // doubles while the disk is full
  std::uint32_t registry_slot = 0;
  Segment segment;
  std::uint64_t frames[recording::kMaxFrames] = {};
  WalkHistory history;
  KnownWalks known_walks;
  StackDictionary dictionary;
};

inline constexpr std::uint32_t kMaxScopeDepth = 64;
// A pop undoes the last push of its domain: scope.h is one domain, PyTorch's modules are another, and NVTX
// has one and creates more.
using Domain = std::uint8_t;
inline constexpr Domain kProgramDomain = 0, kModuleDomain = 1;

// More events than the loader causes for one library; a check takes about 0.1 µs.
inline constexpr std::uint32_t kLoaderChecks = 1000;

// The alignment puts the first fields, the only ones that the fast path (fast_path.h) reads, into one cache
// line. It is not a whole line, because late-loaded libraries share 1664 bytes of thread-local storage
// (Python loads MemoryTracer's that way).
struct alignas(32) ThreadLocal {
  // Equal to the state's counters when the last hook ended. In a forked child it is the parent's pointer
  // until a hook has run; the fast path is closed until then.
  recording::SegmentHeader* counters = nullptr;
  // Not 0: inside a hook or the fast path, which a signal handler may have interrupted. Calls made meanwhile
  // are not the program's, or cannot be recorded.
  std::uint32_t guard = 0;
  std::uint32_t nested_calls = 0;  // calls of malloc while the thread was busy
  Sampler sampler;
  ThreadState* state = nullptr;
  bool is_busy() const { return guard != 0; }
  void hook_ends() { counters = state != nullptr ? state->counters : nullptr; }
  std::uint32_t scope = 0;
  bool has_ended = false;  // the thread's last destructors have run
  // Not 0: inside a call of the GPU driver; calls made meanwhile are the driver's own.
  std::uint32_t driver_depth = 0;
  // Number of events that still check for libraries that a dlopen may have loaded.
  std::uint32_t loader_checks_left = 0;
  // The open scopes in order of time, and how many pushes did not fit.
  struct OpenScope {
    std::uint32_t scope, outer;  // the scope and the one around it
    std::uint32_t range;         // 0: it was pushed, in `domain`
    Domain domain;
  };
  std::uint32_t open_count = 0, pushed_too_deep = 0;
  OpenScope open_scopes[kMaxScopeDepth] = {};
  StackBounds stack;  // unset until the thread records
  // Counts from 1; 0: none yet. A thread that frees after its last destructors gets a new state but keeps its
  // number.
  std::uint32_t number = 0;
  bool name_is_written = false;
  char name[kThreadNameBytes] = {};  // the last name written
};
// Defined and constant-initialized in one place; "initial-exec" access takes one instruction and never
// allocates.
extern constinit thread_local ThreadLocal thread_local_state __attribute__((tls_model("initial-exec")));

// Exists while the tracer or an allocator runs.
class Guard {
 public:
  explicit Guard(ThreadLocal& thread) : thread_(thread) {
    ++thread_.guard;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  ~Guard() {
    if (thread_.guard == 1) thread_.hook_ends();
    std::atomic_signal_fence(std::memory_order_seq_cst);
    --thread_.guard;
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  ThreadLocal& thread_;
};

// Like Guard, where the thread is known not to be busy, so it loads no value that was stored a moment ago. In
// a pair of malloc and free, each of four increments and decrements waited for the previous one. That was
// most of the cost.
class OuterGuard {
 public:
  explicit OuterGuard(ThreadLocal& thread) : thread_(thread) {
    thread_.guard = 1;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  ~OuterGuard() {
    thread_.hook_ends();
    std::atomic_signal_fence(std::memory_order_seq_cst);
    thread_.guard = 0;
  }
  OuterGuard(const OuterGuard&) = delete;
  OuterGuard& operator=(const OuterGuard&) = delete;

 private:
  ThreadLocal& thread_;
};

// The slow part of recording. Prepares the thread's state for a record of `time`: attaches the state, makes
// space in its segment, and keeps the limit on events. Returns null when the event is dropped; the drop is
// counted.
//
// Its own records have the same `time`. A realloc's release is written when the block may already belong to
// another thread. A later time stamp, because a segment had to be opened first, would end that thread's
// allocation.
ThreadState* prepare_to_record(ThreadLocal& thread, std::uint64_t time);

// For an event that is stamped now and written after the real call. Without it, the thread could take over
// the segment of an ending thread in between, whose records may already be later.
void attach_first(ThreadLocal& thread);
inline void attach_before_stamp(ThreadLocal& thread) {
  if (__builtin_expect(thread.state == nullptr, 0)) attach_first(thread);
}

// Writes that the thread's next records belong to `scope`, after the counts of the previous scope. The
// segment must have space for a record.
void write_scope(ThreadState& state, std::uint64_t time, std::uint32_t scope);

// The thread has ended: its state becomes available to other threads.
void detach(ThreadLocal& thread);

// Writes the checksums of all open segments, whatever their threads are doing.
void seal_open_segments();

// Writes the calling thread's name, if the thread is recorded.
void write_thread_name(ThreadLocal& thread);

// In a forked child: marks all states as free, and unmaps the parent's segments.
void reset_threads();
// After a recording in a running process: the same, for threads that go on and may record again. No thread is
// inside a hook.
void release_threads();
// Makes all states unusable. Needed where the kernel does not wipe them at fork.
void wipe_threads();

}  // namespace headroom::preload
