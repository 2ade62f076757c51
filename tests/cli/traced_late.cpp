// Threads, one after another, that free memory after their last destructors: the C library frees dlerror's
// texts then.
//
//     traced_late THREADS
#include <dlfcn.h>
#include <pthread.h>

#include <cstdlib>

namespace {

void* work(void*) {
  void* volatile block = std::malloc(90'001);
  std::free(block);
  ::dlopen("/there is no such library", RTLD_NOW);
  ::dlerror();
  ::dlopen("/there is no such library", RTLD_NOW);
  return nullptr;
}

}  // namespace

int main(int, char** argv) {
  for (int left = std::atoi(argv[1]); left > 0; --left) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, work, nullptr) != 0) return 1;
    pthread_join(thread, nullptr);
  }
}
