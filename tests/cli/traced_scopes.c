/* Uses include/headroom/scope.h from C. Allocates a block of a distinct size in each scope. */
#include <headroom/scope.h>
#include <stdlib.h>

static void* volatile kept;

static void allocate(size_t size) {
  kept = malloc(size);
  free(kept);
}

int main(void) {
  int i;
  headroom_scope_pop(); /* without a push: no effect */
  allocate(66601);
  for (i = 0; i < 3; ++i) {
    headroom_scope_push("model");
    allocate(66602);
    headroom_scope_push("conv1");
    allocate(66603);
    headroom_scope_pop();
    headroom_scope_push("conv2");
    allocate(66604);
    headroom_scope_pop();
    allocate(66605);
    headroom_scope_pop();
    allocate(66606);
  }
  for (i = 0; i < 100; ++i) headroom_scope_push("deep");
  allocate(66607);
  for (i = 0; i < 100; ++i) headroom_scope_pop();
  allocate(66608);
  return 0;
}
