// The minimal cost of a library in front of malloc: it only forwards calls. With -DCOUNTS it also counts them
// in thread-local data, which is lost when the process is killed. For benchmarks/trace_hook_cost.py --preload:
//
//     gcc -O2 -shared -fPIC -fno-builtin -Wl,-z,now [-DCOUNTS] -o counted.so benchmarks/malloc_only_counted.c
#include <stddef.h>

extern void* __libc_malloc(size_t size);
extern void __libc_free(void* pointer);

#ifdef COUNTS
static __thread __attribute__((tls_model("initial-exec"))) struct {
  unsigned long allocations, bytes, releases, failures;
} counts;
#define COUNT(what, number) (counts.what += (number))
#else
#define COUNT(what, number) ((void)0)
#endif

static inline void* allocate(size_t size) {
  COUNT(allocations, 1);
  COUNT(bytes, size);
  void* const pointer = __libc_malloc(size);
  if (pointer == NULL) COUNT(failures, 1);
  return pointer;
}
static inline void release(void* pointer) {
  COUNT(releases, 1);
  __libc_free(pointer);
}

void* malloc(size_t size) { return allocate(size); }
void free(void* pointer) { release(pointer); }
void* _Znwm(size_t size) { return allocate(size); }
void _ZdlPv(void* pointer) { release(pointer); }
void _ZdlPvm(void* pointer, size_t size) {
  (void)size;
  release(pointer);
}
