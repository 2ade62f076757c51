// Memory of the tracer's own, straight from the kernel: what the tracer needs never goes through the
// functions that it hooks.
#pragma once

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace headroom::tracer {

inline void* map_memory(std::size_t bytes, int protection, int flags, int fd, std::uint64_t offset) {
  const long result = ::syscall(SYS_mmap, nullptr, bytes, protection, flags, fd, offset);
  return result == -1 ? nullptr : reinterpret_cast<void*>(result);
}

inline void unmap_memory(void* memory, std::size_t bytes) { ::syscall(SYS_munmap, memory, bytes); }

// Zeroed pages that cost nothing until they are touched; null when there are none.
inline void* reserve_memory(std::size_t bytes) {
  return map_memory(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

// Whole pages of memory that is no file's: a child after fork, however it is made, finds zeros there. Linux
// before 4.14 cannot.
inline void wipe_on_fork(void* memory, std::size_t bytes) {
#ifndef MADV_WIPEONFORK
  constexpr int MADV_WIPEONFORK = 18;
#endif
  ::madvise(memory, bytes, MADV_WIPEONFORK);
}

template <class Value>
Value* reserve_array(std::size_t count) {
  return static_cast<Value*>(reserve_memory(count * sizeof(Value)));
}

// Around the tracer's own system calls. The program's errno must not show what they left there; and several
// of them (open, pwritev, fallocate) are cancellation points, which malloc is not: a thread that is cancelled
// there would keep its locks, the program's and the tracer's, for ever.
class OwnSystemCalls {
 public:
  OwnSystemCalls() : errno_(errno) { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_); }
  ~OwnSystemCalls() {
    ::pthread_setcancelstate(cancel_state_, nullptr);
    errno = errno_;
  }
  OwnSystemCalls(const OwnSystemCalls&) = delete;
  OwnSystemCalls& operator=(const OwnSystemCalls&) = delete;

 private:
  int errno_, cancel_state_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace headroom::tracer
