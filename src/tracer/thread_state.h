// What a thread needs to record. The thread-local part is small and always there; the rest is had at the
// thread's first event and handed on, with its half-full segment, when the thread ends.
#pragma once

#include <cstdint>

#include "recording/record_writer.h"
#include "tracer/call_frame.h"
#include "tracer/hot_data.h"
#include "tracer/known_walks.h"
#include "tracer/recording_file.h"
#include "tracer/sampler.h"
#include "tracer/scopes.h"
#include "tracer/stack_dictionary.h"

namespace headroom::tracer {

inline constexpr std::size_t kThreadNameBytes = 16;  // of the kernel, with its NUL

inline constexpr std::uint64_t kFirstDropsBetweenTries = 1024;

// Lies in memory that the kernel wipes in a child after fork, so that all zeros must mean "not usable": a
// child that wrote into its parent's segments would spoil them.
struct alignas(kCacheLine) ThreadState {
  recording::SegmentHeader* counters = nullptr;  // where small allocations may be counted: the open segment's
  recording::RecordWriter writer;
  std::uint64_t quota = 0;           // events that it may still write before it asks again
  std::uint32_t segment_serial = 0;  // for the dictionary; 0 is none
  std::uint32_t thread_index = 0;
  std::uint32_t segment_thread = 0, segment_scope = 0;  // what a reader takes the next record to be of
  StackBounds stack;
  std::uint64_t counters_written = 0;     // time
  std::uint64_t backed_bytes = 0;         // of the segment
  std::uint64_t gap = 0;                  // events not written since the last record
  std::uint64_t retry_in = 0;             // drops until the next try to get a segment
  std::uint64_t drops_between_tries = 0;  // grows while the disk is full
  std::uint32_t registry_slot = 0;
  Segment segment;
  std::uint64_t frames[recording::kMaxFrames] = {};
  WalkHistory history;
  KnownWalks known_walks;
  StackDictionary dictionary;
};

// More than the loader allocates for one library; a look takes about 0.1 µs.
inline constexpr std::uint32_t kLooksAtLoader = 1000;

// So aligned the first ones, which are all that the short way (fast_path.h) asks of a thread, lie in one line
// of the cache. Not to a whole line: a library that is loaded late, as Python does MemoryTracer's, has its
// share of 1664 bytes.
struct alignas(32) ThreadLocal {
  // The state's, as it was when the last hook ended. In a child after fork they are the parent's until a hook
  // has run; the short way is closed there.
  recording::SegmentHeader* counters = nullptr;
  // Not 0: inside of a hook, or of the short way, which a signal's handler may have interrupted. What is
  // called meanwhile is not the program's doing, or cannot be recorded.
  std::uint32_t guard = 0;
  std::uint32_t nested_calls = 0;  // of malloc while the thread was busy
  Sampler sampler;
  ThreadState* state = nullptr;
  bool is_busy() const { return guard != 0; }
  void hook_ends() { counters = state != nullptr ? state->counters : nullptr; }
  std::uint32_t scope = 0;
  bool has_ended = false;  // the thread's last destructors have run
  // Not 0: inside of a call of a GPU's driver; what that calls is its own doing.
  std::uint32_t driver_depth = 0;
  // So many events yet look for libraries that a dlopen may have brought.
  std::uint32_t looks_at_loader = 0;
  // Of the scopes that are open, in the order of time; and how many pushes found no room there.
  struct OpenScope {
    std::uint32_t scope, outer;  // and the one around it
    std::uint32_t range;         // 0: it was pushed, in `domain`
    Domain domain;
  };
  std::uint32_t open_count = 0, pushed_too_deep = 0;
  OpenScope open_scopes[kMaxScopeDepth] = {};
  StackBounds stack;  // none until the thread records
  // Counts from 1; 0: none yet. A thread that frees after its last destructors has a state anew, and is the
  // same thread.
  std::uint32_t number = 0;
  bool name_is_written = false;
  char name[kThreadNameBytes] = {};  // the last that was
};
// Defined and constant-initialised in one place; "initial-exec" is one instruction and never allocates.
extern constinit thread_local ThreadLocal thread_local_state __attribute__((tls_model("initial-exec")));

// Up while the tracer works or an allocator does.
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

// The same where the thread is known not to be busy: nothing is loaded that was stored a moment ago. Of a
// pair of malloc and free the four counts up and down, each waiting for the one before, were most of the
// cost.
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

// Makes the thread's state fit to take a record of `time`: attached, with room in a segment, within the bound
// on events. Null when the event is lost, which is counted. The slow side of recording.
//
// What it writes itself is of `time`, too. The release in a realloc is written when the block may be another
// thread's already: stamped later than it was, because a segment had to be begun, it would end that thread's
// allocation.
ThreadState* prepare_to_record(ThreadLocal& thread, std::uint64_t time);

// For an event that is stamped now and written later, after the real call: a segment that an ending thread
// leaves in between could hold records that are later already.
void attach_first(ThreadLocal& thread);
inline void attach_before_stamp(ThreadLocal& thread) {
  if (__builtin_expect(thread.state == nullptr, 0)) attach_first(thread);
}

// Needs room for a record. What was counted in the scope before is written first.
void write_scope(ThreadState& state, std::uint64_t time, std::uint32_t scope);

// The thread has ended: its state is for the next.
void detach(ThreadLocal& thread);

// Writes the checksums of all segments that are open, their threads' business or not.
void seal_open_segments();

// Writes the calling thread's name, if it is recorded.
void write_thread_name(ThreadLocal& thread);

// In a child after fork: all states are free, and the parent's segments are unmapped.
void reset_threads();
// Makes all states unusable, where the kernel does not do so by itself at fork.
void wipe_threads();
// A page that reads as 0 in a child after fork.
std::atomic<std::uint32_t>* create_fork_mark();

}  // namespace headroom::tracer
