// Scopes of the traced program: which layer, range or graph node a thread works for.
//
// A scope is a path in a tree; its id is small, dense and the same for all threads of the process. Safe from
// any thread and from inside a hook: nothing here allocates through what the tracer hooks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "recording/format.h"

namespace headroom::tracer {

// The id of this scope, a number above its parent's; the same triple gives the same id. Writes the scope into
// the recording's metadata when it is new. 0 (the root) when nothing is recorded, and `parent` when the table
// of scopes is full (a note in the recording says so). Names are cut at kMaxScopeName bytes.
std::uint32_t intern_scope(std::uint32_t parent, recording::ScopeSource source, const char* name,
                           std::size_t length);

// The calling thread's scope; 0 outside of any.
std::uint32_t current_scope();

// From now on the calling thread works for `id`; written into its events. Cheap when nothing changes.
void set_scope(std::uint32_t id);

// What the calling thread works for is the path of all that it pushed or started and that is still open, in
// the order of time. What closes under others leaves the path, and the others stay.

// Whose pushes a pop undoes: they pair up within a domain (scope.h is one, PyTorch's modules are
// another, NVTX has one and makes more).
using Domain = std::uint8_t;
inline constexpr Domain kProgramDomain = 0, kModuleDomain = 1;

// Past the depth limit only the pushes are counted, so that pushes and pops stay in pairs; which domain's
// they were is not remembered. A pop without a push does nothing. Both return how deep the domain was before.
int push_scope(recording::ScopeSource source, const char* name, std::size_t length, Domain domain);
int pop_scope(Domain domain);
// The same for a scope that is known, one inside of the thread's own, where looking its name up would take
// too long. False past the depth limit: then there is nothing to leave.
bool enter_scope(std::uint32_t id, Domain domain);
void leave_scope(Domain domain);
// Ranges, which end in any order; `range` is not 0. The end does nothing about another thread's, nor about
// one that was started past the depth limit.
void start_range(recording::ScopeSource source, const char* name, std::size_t length, std::uint32_t range);
void end_range(std::uint32_t range);

// A runtime has begun to profile the session of this scope; `number`, not 0, is no other profile's.
void add_open_profile(std::uint32_t scope, std::uint32_t number);
// It has written that profile to `path`; the profile's own zero is `start_monotonic_ns` (CLOCK_MONOTONIC).
void add_runtime_profile(const char* path, std::uint64_t start_monotonic_ns, std::uint32_t scope,
                         std::uint32_t number);

inline constexpr std::size_t kMaxScopeName = 1024;
inline constexpr std::uint32_t kMaxScopeDepth = 64;

}  // namespace headroom::tracer
