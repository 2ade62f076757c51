#include "cuda/visible_devices.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/files.h"
#include "cuda/driver.h"

namespace headroom::cuda {
namespace {

void write_devices(int to) {
  const auto driver = Driver::open();
  if (!driver || (*driver)->call().cuDeviceGetUuid_v2 == nullptr) return;
  for (int ordinal = 0; ordinal < (*driver)->device_count(); ++ordinal) {
    VisibleDevice visible;
    int device = 0;
    if ((*driver)->call().cuDeviceGet(&device, ordinal) == kSuccess)
      (*driver)->call().cuDeviceGetUuid_v2(visible.uuid.data(), device);
    visible.is_integrated = (*driver)->facts(static_cast<unsigned>(ordinal)).is_integrated;
    if (!write_device(to, visible)) return;
  }
}

// If the child hangs and is abandoned, it must not keep this program's output open: a reader would wait for
// its end.
void close_output(int pipe) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int standard = STDIN_FILENO; null >= 0 && standard <= STDERR_FILENO; ++standard)
    if (standard != pipe) ::dup2(null, standard);
}

// A child that hangs in the driver does not die from SIGKILL. After one second it is abandoned; it ends when
// the driver's call returns.
void kill_or_abandon(pid_t child) {
  constexpr Nanoseconds kWaitForEnd{1'000'000'000};
  constexpr useconds_t kPauseMicroseconds = 1000;
  ::kill(child, SIGKILL);
  const Nanoseconds deadline = monotonic_now() + kWaitForEnd;
  for (;;) {
    const pid_t ended = ::waitpid(child, nullptr, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR) || monotonic_now() >= deadline) return;
    ::usleep(kPauseMicroseconds);
  }
}

}  // namespace

bool write_device(int to, const VisibleDevice& device) {
  return ::write(to, &device, sizeof device) == ssize_t{sizeof device};  // a pipe transfers it atomically
}

std::vector<VisibleDevice> read_devices(int from, Nanoseconds patience) {
  const Nanoseconds deadline = monotonic_now() + patience;
  std::vector<VisibleDevice> devices;
  VisibleDevice device;
  pollfd ready{from, POLLIN, 0};
  for (;;) {
    const std::int64_t left_ms = (deadline - monotonic_now()).count / 1'000'000;
    if (left_ms <= 0) return {};
    const int polled = ::poll(&ready, 1, static_cast<int>(left_ms));
    if (polled == 0) return {};
    if (polled < 0 && errno == EINTR) continue;
    if (polled < 0 || ::read(from, &device, sizeof device) != ssize_t{sizeof device}) return devices;
    devices.push_back(device);
  }
}

std::vector<VisibleDevice> visible_devices() {
  constexpr Nanoseconds kPatience{30'000'000'000};
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    close_output(to.get());
    write_devices(to.get());
    ::_exit(0);
  }
  to.reset();
  if (child < 0) return {};
  std::vector<VisibleDevice> devices = read_devices(from.get(), kPatience);
  kill_or_abandon(child);
  return devices;
}

}  // namespace headroom::cuda
