/* Names for what a program does, so that `headroom trace` can say which part of it holds how much memory.
 *
 *     headroom_scope_push("load model");            C
 *     headroom_scope_pop();
 *
 *     headroom::Scope scope("load model");          C++, until the end of the block
 *
 * This header is all there is: nothing to link, and a program that is not traced pays for a test of a
 * pointer. Scopes nest; each thread has its own. The same name inside the same scopes is one scope, however
 * often it is entered. Names are UTF-8, copied, and cut at 1024 bytes; below 64 scopes in each other only the
 * outer 64 are told apart. */
#ifndef HEADROOM_SCOPE_H
#define HEADROOM_SCOPE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Defined by the library that `headroom trace` preloads; null without it. Call the functions below. */
extern void headroom_trace_scope_push(const char* name) __attribute__((weak));
extern void headroom_trace_scope_pop(void) __attribute__((weak));

/* From now on the calling thread works for `name`, inside of what it worked for before. */
static inline void headroom_scope_push(const char* name) {
  if (headroom_trace_scope_push) headroom_trace_scope_push(name);
}

/* Back to what was before the last push. Without one it does nothing. */
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
