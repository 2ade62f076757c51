// A cycle that keeps what it allocates, in one of several ways, and what becomes of it when the cycles are
// over. First argument: which way.
#include <headroom/scope.h>

#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace {

constexpr std::size_t kBytes = 10'000;

[[gnu::noinline]] void* result_of_a_cycle() {
  void* const result = std::malloc(kBytes);
  std::memset(result, 1, kBytes);
  return result;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view way = count > 1 ? arguments[1] : "";
  std::vector<void*> results(100);
  const std::size_t cycles = way == "last thirty" ? 40 : 50;
  for (std::size_t i = 0; i < cycles; ++i) {
    const headroom::Scope scope("step");
    void*& kept = results[way == "last thirty" ? i % 30 : i];
    std::free(kept);
    kept = result_of_a_cycle();
  }
  if (way == "killed") std::abort();
  std::size_t released = 0;
  if (way == "released") released = cycles;
  if (way == "half released") released = cycles / 2;
  for (std::size_t i = 0; i < released; ++i) std::free(results[i]);
}
