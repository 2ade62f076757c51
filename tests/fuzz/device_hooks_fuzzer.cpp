// All hooks of the CUDA driver, in front of the fake driver, with any sequence of calls. The fake driver
// counts independently: it never allocates more than the limit, and all freed memory becomes available again.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "support/hooked_cuda.h"

namespace {

constexpr std::uint64_t kLimit = std::uint64_t{1} << 30;

void require(bool holds) {
  if (!holds) std::abort();
}

// Reads two bytes of the input per number and spreads them over 64 bits by an odd factor, so that the lowest
// bits are those of the input. Returns zeros after the end of the input.
struct Numbers {
  const std::uint8_t*& at;
  const std::uint8_t* end;
  std::uint64_t operator()() const {
    constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15;
    std::uint64_t number = 0;
    for (int i = 0; i < 2 && at != end; ++i) number = number << 8 | *at++;
    return number * kSpread;
  }
};

void start() {
  ::setenv("FAKE_CUDA_GRANULE", "2097152", 0);
  cuda_program::install_hooks("", kLimit);
  require(cuda_program::is_whole_limit_available(kLimit));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool is_started = (start(), true);
  require(is_started);
  const std::uint8_t* at = data;
  const std::uint8_t* const end = data + size;
  static const std::array contexts{cuda_program::current_context(), cuda_program::make_context()};
  static const std::vector<cuda_program::Work> works = cuda_program::works_in(contexts);
  cuda_program::RandomCaller caller(Numbers{at, end}, kLimit, works, true);
  while (at != end) {
    caller.call();
    require(cuda_program::fake_peak(0) <= kLimit && cuda_program::fake_peak(1) <= kLimit);
  }
  caller.free_everything();
  // After a refusal, the driver synchronizes the current context. So try with each context.
  for (void* const context : {contexts[1], contexts[0]}) {
    cuda_program::make_current(context);
    cuda_program::synchronize();
    [[maybe_unused]] const bool has_waited = cuda_program::is_whole_limit_available(kLimit);
  }
  require(cuda_program::is_whole_limit_available(kLimit));
  return 0;
}
