// The start and the end of this process's recording.
#pragma once

#include "preload/process.h"

namespace headroom::preload {

// Like start_recording(), for a library that a program calls to record to its own file. `path` is absolute.
// On failure it may be called again with another path.
bool start_recording_to(ThreadLocal& thread, const char* path, const Options& options);
// Writes the end of the recording, because the program ends in order. Later events are still recorded.
void finish_recording();
// The same from a hook. Does nothing while the tracer or an allocator runs; returns whether the recording was
// ended.
bool try_finish_recording();
// Ends the recording of a program that goes on; the counterpart of start_recording_to(). Threads that are
// inside a hook may still write to it.
void stop_recording();
// Then releases the memory of the recording, so that another one may start. No thread may be inside a hook.
void release_recording();
// Reopens an ended recording, because the exec that ended it failed.
void resume_recording();

}  // namespace headroom::preload
