// Measures a pair of new and delete between other code that has displaced them from the first-level caches,
// as in a runtime that launches kernels. (In a loop of allocations only, trace_storm.cpp, everything is
// in the caches, and a hook seems to cost less than it does.)
//
//     cold_allocations [BLOCKS] [PAIRS] [BYTES] [FAR]
//
// Between two pairs, BLOCKS of 400 functions run in turn. Together they have 200 KiB of code and read 100 KiB
// of data. Then the program reads one word per cache line of FAR MiB, which also displaces the second-level
// cache. This is the situation of blocks that default mode records (BYTES of 4096 and more), because they are
// rare. Allocations and frees happen below eighteen function calls. Prints the nanoseconds of one new and of
// one delete, including the time to read the clock: the mean of the faster four fifths of the second half.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

namespace {

constexpr unsigned kBlocks = 400, kSteps = 4;
constexpr std::size_t kWords = 1 << 15, kWordsOfMiB = (1 << 20) / sizeof(unsigned);
constexpr unsigned kDepth = 18;
std::array<unsigned, kWords> data;  // main() writes it, so that the compiler cannot know its content

// Most of a block is code that only has to be fetched.
template <unsigned Block>
[[gnu::noinline, gnu::aligned(64)]] unsigned block(unsigned x) {
  for (unsigned step = 0; step < kSteps; ++step)
    x = x * (Block * 2 + 1) ^ data[(Block * 64 + step * 16) % kWords];
#if defined(__x86_64__)
  asm volatile(".rept 400\n\tnop\n\t.endr");
#else
  asm volatile(".rept 100\n\tnop\n\t.endr");  // instructions of four bytes
#endif
  return x;
}
template <unsigned... Block>
constexpr auto all_blocks(std::integer_sequence<unsigned, Block...> /*numbers*/) {
  return std::array<unsigned (*)(unsigned), sizeof...(Block)>{block<Block>...};
}
constexpr auto blocks = all_blocks(std::make_integer_sequence<unsigned, kBlocks>());

// The form of delete that the compiler uses by default: clang does not pass the size.
inline void release(void* pointer, [[maybe_unused]] std::size_t bytes) {
#ifdef __cpp_sized_deallocation
  ::operator delete(pointer, bytes);
#else
  ::operator delete(pointer);
#endif
}

using Clock = std::chrono::steady_clock;

// Frees or allocates `pointer` below `Depth` more function calls: frees it if it is set, else allocates.
// Returns the nanoseconds.
template <unsigned Depth>
[[gnu::noinline]] std::int64_t below(void*& pointer, std::size_t bytes) {
  volatile unsigned
      place[16 + Depth * 4];  // a frame with a distinct size, which lives until the function returns
  place[0] = Depth;
  std::int64_t nanoseconds = 0;
  if constexpr (Depth > 0) {
    nanoseconds = below<Depth - 1>(pointer, bytes);
  } else {
    const auto before = Clock::now();
    if (pointer != nullptr) {
      release(pointer, bytes);
      pointer = nullptr;
    } else {
      pointer = ::operator new(bytes);
    }
    nanoseconds = (Clock::now() - before).count();
  }
  place[1] = place[0];
  return nanoseconds;
}

double mean_of_faster(std::vector<std::int64_t>& times) {
  times.erase(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  std::sort(times.begin(), times.end());
  const std::size_t count = times.size() * 4 / 5;
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += static_cast<double>(times[i]);
  return sum / static_cast<double>(count);
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned between = argc > 1 ? static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10)) : kBlocks;
  const std::size_t pairs = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 10000;
  const std::size_t bytes = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 64;
  const std::size_t far_mib = argc > 4 ? std::strtoul(argv[4], nullptr, 10) : 0;
  for (std::size_t i = 0; i < kWords; ++i) data[i] = between * static_cast<unsigned>(i);
  const std::vector<unsigned> far(far_mib * kWordsOfMiB, between);
  std::vector<std::int64_t> news, deletes;
  news.reserve(pairs);
  deletes.reserve(pairs);
  std::array<void*, 8> live{};
  unsigned x = 1, at = 0;
  const auto run_others = [&] {
    for (unsigned i = 0; i < between; ++i) x = blocks[at = at + 1 == kBlocks ? 0 : at + 1](x);
    for (std::size_t i = 0; i < far.size(); i += 16) x += far[i];
  };
  for (std::size_t i = 0; i < pairs; ++i) {
    void*& pointer = live[i % live.size()];
    run_others();
    if (pointer != nullptr) deletes.push_back(below<kDepth>(pointer, bytes));
    run_others();
    news.push_back(below<kDepth>(pointer, bytes));
    *static_cast<unsigned*>(pointer) = x;
  }
  for (void* pointer : live) release(pointer, bytes);
  std::printf(R"({"blocks": %u, "pairs": %zu, "new_ns": %.2f, "delete_ns": %.2f})"
              "\n",
              between, pairs, mean_of_faster(news), mean_of_faster(deletes));
  return 0;
}
