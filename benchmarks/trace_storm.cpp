// A storm of small allocations, to measure the cost of recording each of them:
//
//     trace_storm [OPERATIONS] [THREADS]
//
// Each thread has 4096 slots. An operation picks one at random. An empty slot gets 16 to 2063 bytes,
// allocated ten calls deep along one of 64 paths; a used slot is freed. Prints nanoseconds per operation
// (wall-clock time over the operations of one thread) and the totals, so that a recording can be compared
// with them.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr unsigned kSlots = 4096, kDepth = 10, kForks = 6;

// Each level has two functions, so that the return addresses identify the path. The work after the call
// prevents the compiler from turning it into a jump.
template <unsigned Level, unsigned Branch>
[[gnu::noinline]] void* allocate_along(unsigned path, std::size_t size) {
  void* pointer = nullptr;
  if constexpr (Level == kDepth)
    pointer = std::malloc(size);
  else if (Level <= kForks && (path >> (Level - 1) & 1) != 0)
    pointer = allocate_along<Level + 1, 1>(path, size);
  else
    pointer = allocate_along<Level + 1, 0>(path, size);
  asm volatile("" : "+r"(pointer));
  return pointer;
}

struct Figures {
  std::uint64_t allocations = 0, releases = 0, bytes = 0;
};

[[gnu::noinline]] Figures storm(std::uint64_t operations, std::uint64_t seed) {
  std::vector<void*> slots(kSlots, nullptr);
  Figures figures;
  std::uint64_t random = seed * 0x9e3779b97f4a7c15 | 1;
  for (std::uint64_t i = 0; i < operations; ++i) {
    random = random * 6364136223846793005 + 1442695040888963407;
    void*& slot = slots[random >> 52];
    if (slot == nullptr) {
      const std::size_t size = 16 + (random >> 20) % 2048;
      slot = allocate_along<1, 0>(random >> 40 & 63, size);
      figures.bytes += size;
      ++figures.allocations;
    } else {
      std::free(slot);
      slot = nullptr;
      ++figures.releases;
    }
  }
  for (void* slot : slots)
    if (slot != nullptr) {
      std::free(slot);
      ++figures.releases;
    }
  return figures;
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t operations = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 8'000'000;
  const unsigned threads = argc > 2 ? static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10)) : 1;
  std::vector<Figures> figures(threads);
  std::vector<std::thread> running;
  const auto begin = std::chrono::steady_clock::now();
  for (unsigned i = 1; i < threads; ++i)
    running.emplace_back([&figures, operations, i] { figures[i] = storm(operations, i + 1); });
  figures[0] = storm(operations, 1);
  for (std::thread& thread : running) thread.join();
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  Figures sum;
  for (const Figures& one : figures) {
    sum.allocations += one.allocations;
    sum.releases += one.releases;
    sum.bytes += one.bytes;
  }
  std::printf(
      "{\"ns_per_operation\": %.2f, \"threads\": %u, \"operations\": %llu, \"allocations\": %llu, "
      "\"releases\": %llu, \"bytes\": %llu}\n",
      took.count() / static_cast<double>(operations), threads,
      static_cast<unsigned long long>(operations * threads), static_cast<unsigned long long>(sum.allocations),
      static_cast<unsigned long long>(sum.releases), static_cast<unsigned long long>(sum.bytes));
}
