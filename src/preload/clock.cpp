#include "preload/clock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace headroom::preload {

Clock process_clock;

namespace {

constexpr std::uint64_t kCoarsestUnit = 40;  // nanoseconds

#if defined(__x86_64__)
enum class KernelsWord { trusts, distrusts, unknown };

// The kernel compares the counter with other clocks. If the kernel has switched to one of those, the counter
// cannot be trusted, whatever the processor reports.
KernelsWord kernel_on_counter() {
  char name[32] = {};
  const int fd =
      ::open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return KernelsWord::unknown;
  const ssize_t size = ::read(fd, name, sizeof name - 1);
  ::close(fd);
  if (size <= 0) return KernelsWord::unknown;
  if (std::strcmp(name, "tsc\n") == 0) return KernelsWord::trusts;
  return std::strncmp(name, "hpet", 4) == 0 || std::strncmp(name, "acpi_pm", 7) == 0 ||
                 std::strncmp(name, "jiffies", 7) == 0
             ? KernelsWord::distrusts
             : KernelsWord::unknown;
}

// In a virtual machine each cpuid exits to the host, which takes 20 µs of a process's start. So cpuid is used
// only where the kernel itself uses another clock (kvm-clock).
bool processor_says_steady() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kInvariantTsc = 1u << 8;
  return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) != 0 && (edx & kInvariantTsc) != 0;
}
#endif

bool counter_is_steady() {
#if defined(__x86_64__)
  const KernelsWord word = kernel_on_counter();
  return word == KernelsWord::trusts || (word == KernelsWord::unknown && processor_says_steady());
#elif defined(__aarch64__)
  return true;  // the architecture guarantees one rate on all cores
#else
  return false;
#endif
}

}  // namespace

void share_clock() {
  if (process_clock.wait.load(std::memory_order_relaxed) != Clock::Wait::none) return;
  Clock::Wait wait = Clock::Wait::with_fence;
#if defined(__x86_64__)
  // Some virtual machines lack the instruction that waits by itself.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kRdtscp = 1u << 27;
  if (process_clock.counter && __get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) != 0 && (edx & kRdtscp) != 0)
    wait = Clock::Wait::within;
#endif
  process_clock.wait.store(wait, std::memory_order_relaxed);
}

void choose_clock() {
  process_clock.counter = counter_is_steady();
  // Measure roughly how many ticks a microsecond has; it only selects the unit.
  const std::uint64_t ns_before = monotonic_ns(), ticks_before = ticks_now();
  std::uint64_t ns = ns_before;
  while (ns - ns_before < 4'000) ns = monotonic_ns();
  const std::uint64_t ticks_a_microsecond = (ticks_now() - ticks_before) * 1000 / (ns - ns_before);
  process_clock.shift = 0;
  while ((std::uint64_t{2000} << process_clock.shift) <= kCoarsestUnit * ticks_a_microsecond)
    ++process_clock.shift;
}

}  // namespace headroom::preload
