/* Calls every function of the malloc family with a distinct size, so that its recording can be checked event
 * by event. Prints nothing; allocates nothing else. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static volatile size_t too_much = (size_t)1 << 60;
static void* volatile kept; /* so that the compiler does not remove pairs */

static void drop(void* pointer) {
  kept = pointer;
  free(kept);
}

int main(void) {
  void* pointer = NULL;
  void* volatile nothing = NULL;
  drop(malloc(100001));
  drop(calloc(2, 50001)); /* 100002 */
  drop(memalign(64, 100003));
  drop(aligned_alloc(64, 100004));
  if (posix_memalign(&pointer, 4096, 100005) == 0) drop(pointer);
  drop(valloc(100006));
  drop(pvalloc(100007));
  drop(reallocarray(NULL, 3, 33336)); /* 100008 */
  drop(realloc(nothing, 100009));

  /* A block that grows, shrinks, fails to grow, and is freed by realloc. */
  pointer = malloc(200001);
  pointer = realloc(pointer, 2000002);
  pointer = realloc(pointer, 203);
  kept = pointer;
  if (realloc(kept, too_much) != NULL) return 1;
  if (reallocarray(kept, too_much, 1 << 10) != NULL) return 1;
  memset(kept, 1, 203);
  kept = realloc(kept, 0);
  free(nothing);

  pointer = mmap(NULL, 300000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pointer = mremap(pointer, 300000, 400000, MREMAP_MAYMOVE);
  munmap(pointer, 400000);

  // Reserves addresses, and then makes memory of two parts of them: by mprotect, and by a mapping on top. A
  // reservation on top gives up the second part.
  char* reserved = mmap(NULL, 8 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  mprotect(reserved, 1 << 20, PROT_READ | PROT_WRITE);
  mmap(reserved + (2 << 20), 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  mmap(reserved + (2 << 20), 2 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return 0;
}
