// Runs cycles that keep their allocations in one of several modes, and then releases some of them. The first
// argument selects the mode.
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
  const std::string_view mode = count > 1 ? arguments[1] : "";
  std::vector<void*> results(100);
  const std::size_t cycles = mode == "last thirty" ? 40 : 50;
  for (std::size_t i = 0; i < cycles; ++i) {
    const headroom::Scope scope("step");
    void*& kept = results[mode == "last thirty" ? i % 30 : i];
    std::free(kept);
    kept = result_of_a_cycle();
  }
  if (mode == "killed") std::abort();
  std::size_t released = 0;
  if (mode == "released") released = cycles;
  if (mode == "half released") released = cycles / 2;
  for (std::size_t i = 0; i < released; ++i) std::free(results[i]);
}
