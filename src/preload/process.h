// The recording of this process, from its first event to its end.
#pragma once

#include <atomic>
#include <cstdint>

#include "preload/address_set.h"
#include "preload/hot_data.h"
#include "preload/options.h"
#include "preload/recording_file.h"

namespace headroom::preload {

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
};
extern Process process;

struct ThreadLocal;

// Opens the recording at the first event, if the environment requests one. False: do not record (yet).
bool start_recording(ThreadLocal& thread);
// The same for a library that a program calls to record to its own file. `path` is absolute. On failure it
// may be called again with another path.
bool start_recording_to(ThreadLocal& thread, const char* path, const Options& options);
inline bool is_recording(ThreadLocal& thread) {
  const Phase phase = process.phase.load(std::memory_order_acquire);
  return __builtin_expect(phase == Phase::recording, 1) || (phase == Phase::idle && start_recording(thread));
}

// Whether the recording belongs to this process, and not to the parent that forked it.
bool recording_is_ours();
// In a child after fork: opens the child's own recording.
void start_recording_in_child(ThreadLocal& thread);
// Whether this process is a forked child that records. Then no thread may wait for the loader's lock. A
// thread of the parent may have held it at the fork, and then it is never released.
bool is_forked_child();
// Whether a recording or the ledger was requested, even if the recording could not be written: limits stay in
// force.
inline bool is_traced(ThreadLocal& thread) {
  return is_recording(thread) || process.path[0] != 0 || process.options.ledger || process.has_device_limit;
}
// Writes the end of the recording, because the program ends in order. Later events are still recorded.
void finish_recording();
// The same from a hook. Does nothing while the tracer or an allocator runs; returns whether the recording was
// ended.
bool try_finish_recording();
// Reopens an ended recording, because the exec that ended it failed.
void resume_recording();

}  // namespace headroom::preload
