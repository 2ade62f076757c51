// Scopes of the traced program: the layer, range or graph node that a thread is working on.
//
// A scope is a path in a tree. Its id is small, dense and the same in all threads of the process. All
// functions may be called from any thread and inside hooks: they never allocate through hooked functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/threads.h"
#include "recording/format.h"

namespace headroom::preload {

// Returns the id of this scope, a number above its parent's; the same triple always gives the same id. A new
// scope is written into the recording's metadata. Returns 0 (the root) when nothing is recorded, and `parent`
// when the scope table is full (a note in the recording reports it). Names are cut at kMaxScopeName bytes.
std::uint32_t intern_scope(std::uint32_t parent, recording::ScopeSource source, const char* name,
                           std::size_t length);

// The calling thread's scope; 0 outside any scope.
std::uint32_t current_scope();

// Sets the calling thread's scope and writes it into its events. Cheap when nothing changes.
void set_scope(std::uint32_t id);

// A thread's scope is the path of everything that it pushed or started and that is still open, in order of
// time. Closing an element in the middle removes it from the path; the others stay.

// Beyond the depth limit, pushes are only counted, so that pushes and pops stay paired; their domain is not
// remembered. A pop without a push does nothing. Both return the domain's depth before the call.
int push_scope(recording::ScopeSource source, const char* name, std::size_t length, Domain domain);
int pop_scope(Domain domain);
// The same for a known scope inside the thread's current one, which saves looking up its name. Returns false
// beyond the depth limit: then there is nothing to leave.
bool enter_scope(std::uint32_t id, Domain domain);
void leave_scope(Domain domain);
// Ranges may end in any order; `range` is not 0. end_range() ignores ranges of other threads, and ranges that
// were started beyond the depth limit.
void start_range(recording::ScopeSource source, const char* name, std::size_t length, std::uint32_t range);
void end_range(std::uint32_t range);

// A runtime started to profile the session of this scope; `number` is unique and not 0.
void add_open_profile(std::uint32_t scope, std::uint32_t number);
// The runtime wrote that profile to `path`; the profile's time 0 is `start_monotonic_ns` (CLOCK_MONOTONIC).
void add_runtime_profile(const char* path, std::uint64_t start_monotonic_ns, std::uint32_t scope,
                         std::uint32_t number);

inline constexpr std::size_t kMaxScopeName = 1024;

// Internal interface of scopes.h, for the start of a recording.
// Writes all known scopes: a forked child keeps its parent's ids.
void rewrite_scopes();
// Call it in a forked child.
void reset_scope_lock();

}  // namespace headroom::preload
