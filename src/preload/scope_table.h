// Internal interface of scopes.h, for the start of a recording.
#pragma once

namespace headroom::preload {

// Writes all known scopes: a forked child keeps its parent's ids.
void rewrite_scopes();
// Call it in a forked child.
void reset_scope_lock();

}  // namespace headroom::preload
