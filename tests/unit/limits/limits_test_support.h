// Shared by the tests of limits: children that allocate memory, and the reasons to skip.
#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "base/units.h"
#include "support/test_support.h"

namespace headroom::limits {

#if defined(HEADROOM_SANITIZED)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#ifdef HEADROOM_EMULATED
inline constexpr bool kEmulated = true;
#else
inline constexpr bool kEmulated = false;
#endif

inline constexpr const char* kNoRealLimits =
    "an emulator or a sanitizer needs more memory than the limits of this test allow";

// Allocates and touches private memory; returns false if it was refused.
inline bool allocate(Bytes bytes, int flags = MAP_PRIVATE) {
  const auto size = static_cast<std::size_t>(bytes.count);
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  for (std::size_t at = 0; at < size; at += 4096) static_cast<volatile char*>(memory)[at] = 1;
  return true;
}

// Starts a child that enters a limit and then runs `work`; exit code 99 means that it could not enter.
inline pid_t start_child(const std::function<int()>& entry, const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  if (entry && entry() != 0) ::_exit(99);
  ::_exit(work());
}

inline int wait_status(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

inline int run_child(const std::function<int()>& entry, const std::function<int()>& work) {
  return wait_status(start_child(entry, work));
}

inline bool killed(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }

}  // namespace headroom::limits
