// Threads that allocate, pass blocks to each other, and free:
//
//     traced_threads THREADS ROUNDS [forever]
//
// Prints its own counts: "allocations releases bytes"; with `forever` after each round.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

constexpr unsigned kBlocks = 200;
std::atomic<void*> shelf[64];
std::atomic<std::uint64_t> allocations{0}, releases{0}, bytes{0};

// All sizes end in 01 to 08 in steps of 10,000, larger than any allocation of a library here.
std::size_t size_of(std::uint64_t number) { return 100'001 + number % 8 * 10'000; }

void work(std::uint64_t seed) {
  std::uint64_t random = seed * 0x9e3779b97f4a7c15 | 1;
  for (unsigned i = 0; i < kBlocks; ++i) {
    random = random * 6364136223846793005 + 1442695040888963407;
    const std::size_t size = size_of(random >> 33);
    void* block = std::malloc(size);
    allocations += 1;
    bytes += size;
    // Frees the block that another thread left there.
    if (void* other = shelf[random >> 58].exchange(block)) {
      std::free(other);
      releases += 1;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned count = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 4;
  const unsigned rounds = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;
  const bool forever = argc > 3;
  for (unsigned round = 0; forever || round < rounds; ++round) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < count; ++i)
      threads.emplace_back([round, i] {
        char name[16];
        std::snprintf(name, sizeof name, "worker %u", i);
        pthread_setname_np(pthread_self(), name);
        work(round * 1000 + i + 1);
      });
    for (auto& thread : threads) thread.join();
    char line[100];
    const int length =
        std::snprintf(line, sizeof line, "%llu %llu %llu\n", static_cast<unsigned long long>(allocations),
                      static_cast<unsigned long long>(releases), static_cast<unsigned long long>(bytes));
    if (write(1, line, static_cast<std::size_t>(length)) != length) return 1;
  }
}
