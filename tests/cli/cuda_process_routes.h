// Routes with two processes under one limit, and memory that they share.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "cli/cuda_handle_routes.h"

namespace cuda_program {

inline std::uint64_t take(std::uint64_t bytes, std::uint64_t step) {
  start_context();
  Plain route;
  std::uint64_t held = 0;
  while (held + step <= bytes && route.grants(step)) held += step;
  return held;
}

// Allocates this amount, reports how much it got, and holds it until its input closes.
inline int hold(std::uint64_t bytes, std::uint64_t step, int input = 0, int output = 1) {
  return report_and_wait(take(bytes, step), input, output);
}

struct Child {
  pid_t pid = -1;
  int from = -1, to = -1;  // the child's output and input pipes
};
// Starts another process, a forked copy.
template <class Run>
Child start(const Run& run) {
  int to_parent[2], to_child[2];
  if (::pipe(to_parent) != 0 || ::pipe(to_child) != 0) fail("no pipe", "", errno);
  Child child;
  child.pid = ::fork();
  if (child.pid == 0) {
    ::close(to_parent[0]);
    ::close(to_child[1]);
    ::_exit(run(to_child[0], to_parent[1]));
  }
  ::close(to_parent[1]);
  ::close(to_child[0]);
  child.from = to_parent[0];
  child.to = to_child[1];
  return child;
}
// Starts this program again, with `role`.
inline Child start_role(const char* role, std::uint64_t bytes, std::uint64_t step) {
  return start([&](int input, int output) {
    const char* const self = program_invocation_name;
    ::dup2(input, 0);
    ::dup2(output, 1);
    ::execl(self, self, lookup.c_str(), role, std::to_string(bytes).c_str(), std::to_string(step).c_str(),
            nullptr);
    return 3;
  });
}
inline void end(const Child& child, bool by_force) {
  if (by_force) ::kill(child.pid, SIGKILL);
  ::close(child.to);
  ::close(child.from);
  int status = 0;
  ::waitpid(child.pid, &status, 0);
}
// What the child reports that it holds, if it reports anything.
inline std::optional<std::uint64_t> held_by(const Child& child) {
  char line[64] = {};
  if (::read(child.from, line, sizeof line - 1) <= 0) return std::nullopt;
  return std::strtoull(line, nullptr, 10);
}

// Two processes under one limit: a child allocates its part, the parent gets the rest, and later the child's
// part after the child ended without freeing.
inline bool share_with(const char* name, const Child& child, std::uint64_t limit, std::uint64_t step,
                       bool by_force) {
  const std::uint64_t held = held_by(child).value_or(0);
  start_context();
  Plain route;
  const Outcome meanwhile = fill(route, step);
  end(child, by_force);
  const Outcome after = fill(route, step);
  route.free_all();
  const bool sound = held > 0 && meanwhile.end == kOutOfMemory && held + meanwhile.bytes <= limit &&
                     limit - held - meanwhile.bytes < step && meanwhile.bytes + after.bytes <= limit &&
                     limit - meanwhile.bytes - after.bytes < step;
  return report(sound, "%-8s another held %lu, %lu at the same time, %lu after its end", name, held,
                meanwhile.bytes, after.bytes);
}

// Call it after a process with memory was killed or executed another program: either its child holds the
// memory, or it is free.
inline bool wait_until_left(std::uint64_t bytes) {
  for (int i = 0; i < 1000 && left() != bytes; ++i) ::usleep(5000);
  return left() == bytes;
}
inline bool run_after(const char* name, const Child& child, std::uint64_t limit, std::uint64_t step,
                      bool is_held) {
  const std::uint64_t held = held_by(child).value_or(0);
  if (is_held) {  // do not wait for its end: its own child lives on
    int status = 0;
    ::waitpid(child.pid, &status, 0);
  }
  start_context();
  const std::uint64_t free = is_held ? limit - held : limit;
  bool sound = held > 0 && wait_until_left(free);
  Plain route;
  const Outcome meanwhile = fill(route, step);
  route.free_all();
  sound = sound && meanwhile.end == kOutOfMemory && meanwhile.bytes <= free && free - meanwhile.bytes < step;
  end(child, false);
  sound = sound && wait_until_left(limit);
  return report(sound, "%-8s held %lu, %lu at the same time", name, held, meanwhile.bytes);
}
// Allocates this amount, reports it, and is killed while its forked child lives until its input closes: like
// a program's workers after an OOM kill.
inline int leave_to_child(std::uint64_t bytes, std::uint64_t step) {
  const std::uint64_t held = take(bytes, step);
  char byte = 0;
  if (::fork() == 0) ::_exit(::read(0, &byte, 1) >= 0 ? 0 : 1);
  return ::dprintf(1, "%lu\n", held) < 0 ? 1 : ::raise(SIGKILL);
}
// The same, but executes a program without a driver.
inline int become_another(std::uint64_t bytes, std::uint64_t step) {
  const std::uint64_t held = take(bytes, step);
  if (::dprintf(1, "%lu\n", held) < 0) return 1;
  ::execl("/bin/cat", "cat", nullptr);
  return 3;
}

// Memory shared between processes: charged once, to its creator.
inline int export_memory(std::uint64_t step) {
  start_context();
  Pointer pointer = 0;
  check(cuMemAlloc_v2(&pointer, step), "allocate");
  IpcHandle handle{};
  if (cuIpcGetMemHandle(&handle, pointer) != kSuccess) return 4;
  if (::write(1, handle.bytes, sizeof handle.bytes) < 0) return 1;
  char byte = 0;
  return ::read(0, &byte, 1) >= 0 ? 0 : 1;
}
inline bool run_ipc(std::uint64_t limit, std::uint64_t step) {
  const Child child = start_role("export", limit, step);
  IpcHandle handle{};
  if (::read(child.from, handle.bytes, sizeof handle.bytes) != sizeof handle.bytes) {
    end(child, true);
    std::printf("ipc      the driver shares no memory between processes here: not tried\n");
    return true;
  }
  start_context();
  Pointer pointer = 0;
  const Result opened = cuIpcOpenMemHandle_v2(&pointer, handle, 1);
  const std::uint64_t left_meanwhile = left();
  Plain route;
  const Outcome meanwhile = fill(route, step);
  route.free_all();
  if (opened == kSuccess) check(cuIpcCloseMemHandle(pointer), "close");
  end(child, false);
  const bool sound = opened == kSuccess && left_meanwhile == limit - step && meanwhile.end == kOutOfMemory &&
                     meanwhile.bytes <= limit - step && limit - step - meanwhile.bytes < step &&
                     left() == limit;
  return report(sound, "ipc      opened with %d, left %lu at the same time, granted %lu", opened,
                left_meanwhile, meanwhile.bytes);
}

// Memory that only a file descriptor holds, without a handle or mapping: charged as long as the process
// lives.
inline bool run_shareable(std::uint64_t limit, std::uint64_t step) {
  const Child child = start_role("descriptor", limit, step);
  const auto reported = held_by(child);
  if (!reported) {
    end(child, true);
    std::printf("shared   the driver gives no descriptors of memory here: not tried\n");
    return true;
  }
  const std::uint64_t held = *reported;
  start_context();
  const std::uint64_t left_meanwhile = left();
  end(child, false);
  const bool sound =
      held <= limit && limit - held < step && left_meanwhile == limit - held && left() == limit;
  return report(sound, "shared   descriptors held %lu, left %lu at the same time", held, left_meanwhile);
}

}  // namespace cuda_program
