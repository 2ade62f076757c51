// What a pair of new and delete takes between other code, which has driven all that they need out of the
// first-level caches: so it is in a runtime that launches kernels. (In a loop of them, bench/trace_storm.cpp,
// everything is in the caches, and a hook seems to cost less than it does.)
//
//     cold_allocations [BLOCKS] [PAIRS]
//
// Between two of them BLOCKS functions of 400 run, in turn; all together have 200 KiB of code and ask for 100
// KiB of data. Prints the nanoseconds of one new and of one delete, with those of reading the clock, as the
// means of the faster four fifths.
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
constexpr std::size_t kWords = 1 << 15, kBytes = 64;
std::array<unsigned, kWords> data;  // written by main(), so that no compiler knows what it holds

// Most of a block is nothing but code that must be fetched.
template <unsigned Block>
[[gnu::noinline, gnu::aligned(64)]] unsigned block(unsigned x) {
  for (unsigned step = 0; step < kSteps; ++step)
    x = x * (Block * 2 + 1) ^ data[(Block * 64 + step * 16) % kWords];
#if defined(__x86_64__)
  asm volatile(".rept 400\n\tnop\n\t.endr");
#else
  asm volatile(".rept 100\n\tnop\n\t.endr");  // of four bytes
#endif
  return x;
}
template <unsigned... Block>
constexpr auto all_blocks(std::integer_sequence<unsigned, Block...> /*numbers*/) {
  return std::array<unsigned (*)(unsigned), sizeof...(Block)>{block<Block>...};
}
constexpr auto blocks = all_blocks(std::make_integer_sequence<unsigned, kBlocks>());

// As a compiler has it by default: clang does not tell the size.
inline void release(void* pointer) {
#ifdef __cpp_sized_deallocation
  ::operator delete(pointer, kBytes);
#else
  ::operator delete(pointer);
#endif
}

using Clock = std::chrono::steady_clock;

double mean_of_faster(std::vector<std::int64_t>& times) {
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
  for (std::size_t i = 0; i < kWords; ++i) data[i] = between * static_cast<unsigned>(i);
  std::vector<std::int64_t> news, deletes;
  news.reserve(pairs);
  deletes.reserve(pairs);
  std::array<void*, 8> live{};
  unsigned x = 1, at = 0;
  const auto run_others = [&] {
    for (unsigned i = 0; i < between; ++i) x = blocks[at = at + 1 == kBlocks ? 0 : at + 1](x);
  };
  for (std::size_t i = 0; i < pairs; ++i) {
    void*& pointer = live[i % live.size()];
    run_others();
    const auto before_delete = Clock::now();
    release(pointer);
    deletes.push_back((Clock::now() - before_delete).count());
    run_others();
    const auto before_new = Clock::now();
    pointer = ::operator new(kBytes);
    news.push_back((Clock::now() - before_new).count());
    *static_cast<unsigned*>(pointer) = x;
  }
  for (void* pointer : live) release(pointer);
  std::printf(R"({"blocks": %u, "pairs": %zu, "new_ns": %.2f, "delete_ns": %.2f})"
              "\n",
              between, pairs, mean_of_faster(news), mean_of_faster(deletes));
  return 0;
}
