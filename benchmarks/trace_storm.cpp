// A storm of small allocations, to measure the cost of recording each of them:
//
//     trace_storm [OPERATIONS [THREADS [STACKS [SLOTS [LARGEST]]]]]
//
// Each thread has SLOTS slots (4096). An operation picks one at random. An empty slot gets a block of 16 to
// LARGEST bytes (2063), allocated along one of STACKS paths; a used slot is freed. So about half the slots
// are live. The paths are picked at random, all equally often:
//
//   up to 64 (the default)   ten calls deep, and different in the six outermost calls
//   more, at most 29,696     7 to 35 calls deep, and different in each call, so that a stack has 12 to 40
//                            frames and shares few of them with the one before
//
// Prints nanoseconds per operation (wall-clock time over the operations of one thread) and the totals, so
// that a recording can be compared with them.
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr unsigned kDepth = 10, kForks = 6, kFewStacks = 1 << kForks;
constexpr unsigned kShallowest = 7, kDeepest = 35, kDepths = kDeepest - kShallowest + 1;
constexpr unsigned kMostStacks = kDepths << 10;  // ten bits choose the first five calls

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

// The same with four functions a level, chosen by two bits of `choices`, and with `left` more calls.
template <unsigned Level, unsigned Branch>
[[gnu::noinline]] void* allocate_deep(unsigned left, std::uint64_t choices, std::size_t size) {
  void* pointer = nullptr;
  if (Level == kDeepest || left == 0) {
    pointer = std::malloc(size);
  } else if constexpr (Level < kDeepest) {
    const std::uint64_t others = std::rotr(choices, 2);
    switch (choices & 3) {
      case 0:
        pointer = allocate_deep<Level + 1, 0>(left - 1, others, size);
        break;
      case 1:
        pointer = allocate_deep<Level + 1, 1>(left - 1, others, size);
        break;
      case 2:
        pointer = allocate_deep<Level + 1, 2>(left - 1, others, size);
        break;
      default:
        pointer = allocate_deep<Level + 1, 3>(left - 1, others, size);
    }
  }
  asm volatile("" : "+r"(pointer) : "i"(Branch));  // so that the four functions are not merged into one
  return pointer;
}

[[gnu::always_inline]] inline void* allocate_on_stack(unsigned stacks, std::uint64_t random,
                                                      std::size_t size) {
  const auto path = static_cast<unsigned>((random >> 32) * stacks >> 32);
  if (stacks <= kFewStacks) return allocate_along<1, 0>(path, size);
  const std::uint64_t number = path / kDepths;  // below 2^10
  const std::uint64_t others = (path + 1) * 0x9e3779b97f4a7c15;
  return allocate_deep<1, 0>(kShallowest - 1 + path % kDepths, (others & ~std::uint64_t{0x3ff}) | number,
                             size);
}

struct Storm {
  std::uint64_t operations = 8'000'000;
  std::uint64_t threads = 1, stacks = kFewStacks, slots = 4096, largest = 2063;
};

struct Figures {
  std::uint64_t allocations = 0, releases = 0, bytes = 0;
};

[[gnu::noinline]] Figures run(const Storm& storm, std::uint64_t seed) {
  constexpr std::size_t kSmallest = 16;
  std::vector<void*> slots(storm.slots, nullptr);
  const auto stacks = static_cast<unsigned>(storm.stacks);
  Figures figures;
  std::uint64_t random = seed * 0x9e3779b97f4a7c15 | 1;
  const auto next = [&random] {
    random = random * 6364136223846793005 + 1442695040888963407;
    return random >> 32;
  };
  for (std::uint64_t i = 0; i < storm.operations; ++i) {
    void*& slot = slots[next() * storm.slots >> 32];
    if (slot == nullptr) {
      const std::size_t size = kSmallest + (next() * (storm.largest - kSmallest + 1) >> 32);
      slot = allocate_on_stack(stacks, random * 0xd1342543de82ef95, size);
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
  Storm storm;
  std::uint64_t* const options[] = {&storm.operations, &storm.threads, &storm.stacks, &storm.slots,
                                    &storm.largest};
  for (int i = 1; i < argc && i <= 5; ++i) *options[i - 1] = std::strtoull(argv[i], nullptr, 10);
  if (argc > 6 || storm.operations == 0 || storm.threads == 0 || storm.stacks == 0 ||
      storm.stacks > kMostStacks || storm.slots == 0 || storm.slots >> 32 != 0 || storm.largest < 16 ||
      storm.largest >> 32 != 0) {
    std::fprintf(stderr, "usage: trace_storm [OPERATIONS [THREADS [STACKS [SLOTS [LARGEST]]]]]\n");
    return 2;
  }
  std::vector<Figures> figures(storm.threads);
  std::vector<std::thread> running;
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t i = 1; i < storm.threads; ++i)
    running.emplace_back([&figures, &storm, i] { figures[i] = run(storm, i + 1); });
  figures[0] = run(storm, 1);
  for (std::thread& thread : running) thread.join();
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  Figures sum;
  for (const Figures& one : figures) {
    sum.allocations += one.allocations;
    sum.releases += one.releases;
    sum.bytes += one.bytes;
  }
  std::printf(
      "{\"ns_per_operation\": %.2f, \"threads\": %llu, \"operations\": %llu, \"allocations\": %llu, "
      "\"releases\": %llu, \"bytes\": %llu}\n",
      took.count() / static_cast<double>(storm.operations), static_cast<unsigned long long>(storm.threads),
      static_cast<unsigned long long>(storm.operations * storm.threads),
      static_cast<unsigned long long>(sum.allocations), static_cast<unsigned long long>(sum.releases),
      static_cast<unsigned long long>(sum.bytes));
}
