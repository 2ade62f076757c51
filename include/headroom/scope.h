/* Names the parts of a program, so that `headroom trace` can report how much memory each part holds.
 *
 *     headroom_scope_push("load model");            C
 *     headroom_scope_pop();
 *
 *     headroom::Scope scope("load model");          C++, until the end of the block
 *
 * Include this header; there is nothing to link. In a program that is not traced, a scope costs one test of a
 * pointer.
 *
 * Scopes nest, and each thread has its own. Entering the same name inside the same scopes again continues the
 * same scope. Names are UTF-8 and are copied; longer ones are cut at 1024 bytes. At most 64 nested scopes are
 * recorded; deeper ones count as the 64th. */
#ifndef HEADROOM_SCOPE_H
#define HEADROOM_SCOPE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Defined by the library that `headroom trace` preloads; null without it. Call the functions below. */
extern void headroom_trace_scope_push(const char* name) __attribute__((weak));
extern void headroom_trace_scope_pop(void) __attribute__((weak));

/* Enters the scope `name` on the calling thread, inside its current scope. */
static inline void headroom_scope_push(const char* name) {
  if (headroom_trace_scope_push) headroom_trace_scope_push(name);
}

/* Leaves the scope of the last push on this thread. Does nothing if there is none. */
static inline void headroom_scope_pop(void) {
  if (headroom_trace_scope_pop) headroom_trace_scope_pop();
}

#ifdef __cplusplus
}

namespace headroom {

class Scope {
 public:
  explicit Scope(const char* name) { headroom_scope_push(name); }
  ~Scope() { headroom_scope_pop(); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

}  // namespace headroom
#endif

#endif
