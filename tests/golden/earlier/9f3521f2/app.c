/* Allocates 3 MiB in scope "load" and 200 blocks of 1,000 bytes in scope "run", maps 1 MiB, and leaks 5 blocks of 70,000 bytes.
 * fork: also a child with 500,000 bytes. kill: dies at the peak. threads: three times ten threads, which fill a ring's segments. */
#include <headroom/scope.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void* volatile kept[256];

static void small_blocks(void) {
  for (int i = 0; i < 200; ++i) kept[i] = malloc(1000);
}

static void release(void) {
  for (int i = 0; i < 200; ++i) free(kept[i]);
}

static void leak(void) {
  for (int i = 200; i < 205; ++i) kept[i] = malloc(70000);
}

static pthread_barrier_t barrier;

static void* one_block(void* unused) {
  for (int i = 0; i < 2; ++i) {
    void* volatile block = malloc(5000);
    free(block);
    pthread_barrier_wait(&barrier);
  }
  return unused;
}

int main(int count, char** arguments) {
  const char* mode = count > 1 ? arguments[1] : "";
  headroom_scope_push("load");
  void* weights = memset(malloc(3 << 20), 1, 3 << 20);
  headroom_scope_pop();
  headroom_scope_push("run");
  small_blocks();
  headroom_scope_pop();
  void* area = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (strcmp(mode, "fork") == 0 && fork() == 0) {
    kept[210] = malloc(500000);
    exit(0);
  }
  if (strcmp(mode, "fork") == 0) wait(NULL);
  if (strcmp(mode, "kill") == 0) raise(SIGKILL);
  for (int round = 0; round < 3 && strcmp(mode, "threads") == 0; ++round) {
    pthread_t threads[10];
    pthread_barrier_init(&barrier, NULL, 10);
    for (int i = 0; i < 10; ++i) pthread_create(&threads[i], NULL, one_block, NULL);
    for (int i = 0; i < 10; ++i) pthread_join(threads[i], NULL);
  }
  munmap(area, 1 << 20);
  release();
  free(weights);
  leak();
  return 0;
}
