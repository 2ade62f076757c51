// The inner side of scopes.h: what the start of a recording needs.
#pragma once

namespace headroom::tracer {

// Writes all scopes that are known: a child after fork keeps its parent's ids.
void rewrite_scopes();
// In a child after fork.
void reset_scope_lock();

}  // namespace headroom::tracer
