// Threads in groups, followed by allocations of the main thread:
//
//     traced_crowd THREADS AT_A_TIME PAIRS
//
// Each thread allocates once, and all threads of a group wait until all have allocated. Then the main thread
// allocates 77701 bytes in the scope "late", and allocates and frees PAIRS blocks.
#include <pthread.h>

#include <cstdlib>
#include <vector>

#include "headroom/scope.h"

namespace {

void* volatile kept;
pthread_barrier_t all_have_allocated;

void allocate(std::size_t size) {
  kept = std::malloc(size);
  std::free(kept);
}

void* work(void*) {
  allocate(1000);
  pthread_barrier_wait(&all_have_allocated);
  return nullptr;
}

}  // namespace

int main(int, char** arguments) {
  const auto threads = std::strtoul(arguments[1], nullptr, 10);
  const auto at_a_time = std::strtoul(arguments[2], nullptr, 10);
  const auto pairs = std::strtoul(arguments[3], nullptr, 10);
  pthread_barrier_init(&all_have_allocated, nullptr, static_cast<unsigned>(at_a_time));
  std::vector<pthread_t> group(at_a_time);
  for (unsigned long done = 0; done < threads; done += at_a_time) {
    for (pthread_t& thread : group)
      if (pthread_create(&thread, nullptr, work, nullptr) != 0) return 1;
    for (const pthread_t thread : group) pthread_join(thread, nullptr);
  }
  headroom_scope_push("late");
  allocate(77701);
  headroom_scope_pop();
  for (unsigned long i = 0; i < pairs; ++i) allocate(64);
}
