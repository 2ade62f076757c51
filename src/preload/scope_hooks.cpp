// The functions behind include/headroom/scope.h, also exported under their plain names for callers that look
// them up at run time (Python's ctypes, dlsym).
#include <cstring>

#include "preload/real_functions.h"
#include "preload/scopes.h"
#include "recording/format.h"

using namespace headroom::preload;

HEADROOM_HOOK void headroom_trace_scope_push(const char* name) {
  if (name == nullptr) name = "";
  push_scope(headroom::recording::ScopeSource::program, name, std::strlen(name), kProgramDomain);
}

HEADROOM_HOOK void headroom_trace_scope_pop(void) { pop_scope(kProgramDomain); }

HEADROOM_HOOK void headroom_scope_push(const char* name) { headroom_trace_scope_push(name); }

HEADROOM_HOOK void headroom_scope_pop(void) { headroom_trace_scope_pop(); }
