#include "cuda/device_uuids.h"

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

void write_uuids(int to) {
  const auto driver = Driver::open();
  if (!driver || (*driver)->call().cuDeviceGetUuid_v2 == nullptr) return;
  for (int ordinal = 0; ordinal < (*driver)->device_count(); ++ordinal) {
    Uuid uuid{};
    int device = 0;
    if ((*driver)->call().cuDeviceGet(&device, ordinal) == kSuccess)
      (*driver)->call().cuDeviceGetUuid_v2(uuid.data(), device);
    if (::write(to, uuid.data(), uuid.size()) != static_cast<ssize_t>(uuid.size())) return;
  }
}

}  // namespace

std::vector<Uuid> device_uuids() {
  constexpr int kPatienceMs = 30'000;
  std::vector<Uuid> uuids;
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return uuids;
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    write_uuids(to.get());
    ::_exit(0);
  }
  to.reset();
  if (child < 0) return uuids;
  Uuid uuid{};
  pollfd ready{from.get(), POLLIN, 0};
  // A pipe gives so few bytes whole.
  while (::poll(&ready, 1, kPatienceMs) > 0 &&
         ::read(from.get(), uuid.data(), uuid.size()) == static_cast<ssize_t>(uuid.size()))
    uuids.push_back(uuid);
  ::kill(child, SIGKILL);
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return uuids;
}

}  // namespace headroom::cuda
