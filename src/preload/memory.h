// The tracer's own memory, directly from the kernel, so that it never passes through the functions that the
// tracer hooks.
#pragma once

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace headroom::preload {

inline void* map_memory(std::size_t bytes, int protection, int flags, int fd, std::uint64_t offset) {
  const long result = ::syscall(SYS_mmap, nullptr, bytes, protection, flags, fd, offset);
  return result == -1 ? nullptr : reinterpret_cast<void*>(result);
}

inline void unmap_memory(void* memory, std::size_t bytes) { ::syscall(SYS_munmap, memory, bytes); }

// Zeroed pages that use no memory until they are touched; null on failure.
inline void* reserve_memory(std::size_t bytes) {
  return map_memory(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

// Makes reserved memory read as zeros again, and returns its pages to the kernel.
inline void zero_memory(void* memory, std::size_t bytes) { ::madvise(memory, bytes, MADV_DONTNEED); }

// A child after fork, however it is created, finds zeros in these pages. They must be whole pages of
// anonymous memory. Not supported before Linux 4.14.
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

// Wraps the tracer's own system calls. It restores the program's errno. It also disables cancellation,
// because open, pwritev and fallocate are cancellation points, but malloc is not. A thread that is cancelled
// there would never release the program's and the tracer's locks.
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

// Layout of the data that each malloc and free reads.
//
// In a loop of malloc and free this data stays in the first-level cache wherever it lies. Between two
// allocations of a runtime that launches kernels, neither the data nor the code is cached. So both are kept
// compact (fast_path.h).
inline constexpr std::size_t kCacheLine = 64;

}  // namespace headroom::preload
