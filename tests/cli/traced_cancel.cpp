// Cancels a thread that holds a mutex and only allocates and names scopes. Neither is a cancellation point,
// so the thread runs to its end and unlocks the mutex.
#include <headroom/scope.h>
#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace {

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
std::atomic<bool> has_started{false}, is_cancelled{false};

// Enough for several growth steps of the recording, both of its events and of its names.
void allocate_and_name() {
  for (int i = 0; i < 100'000; ++i) {
    std::free(std::malloc(static_cast<std::size_t>(16 + i % 9000)));
    if (i % 50 != 0) continue;
    char name[160];
    std::snprintf(name, sizeof name, "scope %0140d", i);
    headroom_scope_push(name);
    headroom_scope_pop();
  }
}

void* work(void*) {
  pthread_mutex_lock(&mutex);
  has_started = true;
  while (!is_cancelled) {
  }
  allocate_and_name();
  pthread_mutex_unlock(&mutex);
  return nullptr;
}

}  // namespace

int main() {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, work, nullptr) != 0) return 1;
  while (!has_started) {
  }
  pthread_cancel(thread);
  is_cancelled = true;
  void* result = nullptr;
  pthread_join(thread, &result);
  if (result == PTHREAD_CANCELED) return 2;
  return pthread_mutex_trylock(&mutex) == 0 ? 0 : 3;
}
