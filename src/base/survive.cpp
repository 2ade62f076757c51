#include "base/survive.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/files.h"

namespace headroom {
namespace {

// Whether RLIMIT_MEMLOCK does not apply. With a limit, later allocations would fail, because all memory is
// locked.
bool may_lock_without_bound() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3]{};
  if (::syscall(SYS_capget, &header, data) == 0 && (data[0].effective & (1U << CAP_IPC_LOCK)) != 0)
    return true;
  rlimit most{};
  return ::getrlimit(RLIMIT_MEMLOCK, &most) == 0 && most.rlim_cur == RLIM_INFINITY;
}

}  // namespace

void survive_shortage_of_memory() {
  const UniqueFd fd(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (fd) [[maybe_unused]]
    const auto asked = write_all(fd.get(), "-900");
  // MCL_ONFAULT locks only pages that are used, so resident memory does not grow.
  if (may_lock_without_bound()) ::mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT);
}

}  // namespace headroom
