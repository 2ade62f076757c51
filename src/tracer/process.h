// The recording of this process, from its first event to its end.
#pragma once

#include <atomic>
#include <cstdint>

#include "tracer/address_set.h"
#include "tracer/hot_data.h"
#include "tracer/options.h"
#include "tracer/recording_file.h"

namespace headroom::tracer {

enum class Phase : std::uint32_t {
  idle,      // before the first event
  starting,  // one thread opens the recording; the others' events go by
  recording,
  disabled,  // nothing was asked for, or nothing can be written
};

struct alignas(kCacheLine) Process {
  std::atomic<Phase> phase{Phase::idle};
  // Allocations below this are counted and sampled; 0 in full mode.
  std::uint64_t large_bytes = 0;
  AddressSet recorded;  // default mode only
  Options options;
  RecordingFile file;
  void* spare_account = nullptr;              // Account::kPageBytes, where there is a limit on GPU memory
  bool has_device_limit = false;              // of `options`
  char path[4096] = {};                       // what was asked for; a child may have lost its environment
  std::atomic<std::uint64_t> events_left{0};  // of options.events
};
extern Process process;

struct ThreadLocal;

// Opens the recording at the first event, if the environment asks for one. False: nothing is to be recorded
// (yet).
bool start_recording(ThreadLocal& thread);
// The same for a library that a program asks to record, to a file of its own: `path` is absolute. Where
// nothing can be written it may be tried again with another path.
bool start_recording_to(ThreadLocal& thread, const char* path, const Options& options);
inline bool is_recording(ThreadLocal& thread) {
  const Phase phase = process.phase.load(std::memory_order_acquire);
  return __builtin_expect(phase == Phase::recording, 1) || (phase == Phase::idle && start_recording(thread));
}

// Whether the recording belongs to this process, and not to the parent that it was forked from.
bool recording_is_ours();
// In a child after fork: opens a recording of its own.
void start_recording_in_child(ThreadLocal& thread);
// Whether this process records as the child that another forked. Then no thread may wait for a lock that the
// loader takes: a thread of the parent's may have held it at the fork, and nobody will ever give it back.
bool is_forked_child();
// Whether a recording was asked for, though perhaps none could be written, or the ledger alone: limits hold
// all the same.
inline bool is_traced(ThreadLocal& thread) {
  return is_recording(thread) || process.path[0] != 0 || process.options.ledger || process.has_device_limit;
}
// The process ends in order. What happens after is still recorded.
void finish_recording();
// The same from a hook: not while the tracer or an allocator works. False if nothing was closed.
bool finish_quietly();
// What followed the end did not come: an exec that failed.
void go_on_recording();

}  // namespace headroom::tracer
