// The probe's child: takes memory by one route, a step at a time, until something stops it. It touches every
// page, since memory that is only promised costs nothing, and stops at its target even if nothing stops it.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/subprocess.h"
#include "limits/memory_limit.h"

namespace headroom::limits {
namespace {

constexpr std::int64_t kStep = std::int64_t{256} << 10;
constexpr std::int64_t kReportEvery = 16 * kStep;  // 32 short lines at most: they fit into the smallest pipe

// One byte a page. Volatile: memory that nobody reads may otherwise be left out by the compiler.
void touch(void* memory) {
  static const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  for (std::int64_t at = 0; at < kStep; at += page) static_cast<volatile char*>(memory)[at] = 1;
}

// Each takes one step and returns 0, or the errno value of its refusal.

int take_malloc() {
  static void* last_block = nullptr;  // each block holds the one before: kept, not lost
  void* memory = std::malloc(kStep);
  if (memory == nullptr) return ENOMEM;
  touch(memory);
  *static_cast<void**>(memory) = last_block;
  last_block = memory;
  return 0;
}

int take_mapping(int flags) {
  void* memory = ::mmap(nullptr, kStep, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return errno;
  touch(memory);
  return 0;
}

int take_brk() {
  void* memory = ::sbrk(kStep);
  if (memory == reinterpret_cast<void*>(-1)) return errno;
  touch(memory);
  return 0;
}

// The file has no name, so it goes with this process. A full tmpfs (containers often have 64 MiB) says
// nothing about the limit, so the rest is taken elsewhere.
int take_file_pages(int fd) {
  static const std::vector<char> zeros(kStep);
  for (std::int64_t written = 0; written < kStep;) {
    const ssize_t got = ::write(fd, zeros.data(), static_cast<std::size_t>(kStep - written));
    if (got < 0 && errno == ENOSPC) return take_malloc();
    if (got < 0 && errno != EINTR) return errno;
    if (got > 0) written += got;
  }
  return 0;
}

struct Outcome {
  std::int64_t taken = 0;
  int stopped_by = 0;  // an errno value
};

// Written without allocating: at the limit there is nothing left to allocate from.
void say(std::string_view route, Outcome outcome) {
  std::array<char, 160> line;
  const auto end = outcome.stopped_by == 0
                       ? fmt::format_to_n(line.data(), line.size(),
                                          "{{\"route\":\"{}\",\"taken_bytes\":{}}}\n", route, outcome.taken)
                       : fmt::format_to_n(line.data(), line.size(),
                                          "{{\"route\":\"{}\",\"taken_bytes\":{},\"stopped_by\":{}}}\n",
                                          route, outcome.taken, outcome.stopped_by);
  if (end.size <= line.size()) [[maybe_unused]]
    const auto sent = write_all(STDOUT_FILENO, {line.data(), end.size});
}

template <class Take>
Outcome take_until(std::string_view route, std::int64_t target, Take take) {
  Outcome outcome;
  while (outcome.taken < target) {
    if (outcome.taken % kReportEvery == 0) say(route, outcome);
    outcome.stopped_by = take();
    if (outcome.stopped_by != 0) break;
    outcome.taken += kStep;
  }
  return outcome;
}

Outcome take_file(std::string_view route, std::int64_t target, int fd) {
  if (fd < 0) return {0, errno};
  UniqueFd file(fd);
  return take_until(route, target, [&] { return take_file_pages(file.get()); });
}

int open_unnamed_shm_file() { return ::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600); }

// A grandchild's part of take_by_fork: takes its share, tells so, and holds it until the parent closes
// `hold`.
[[noreturn]] void take_share(std::int64_t share, int ready, int hold) {
  std::int64_t taken = 0;
  while (taken < share && take_malloc() == 0) taken += kStep;
  char byte = taken < share ? 'n' : 'y';
  [[maybe_unused]] const ssize_t told = ::write(ready, &byte, 1);
  ::close(ready);  // the last of them: if the other is killed, the parent need not wait for it
  [[maybe_unused]] const ssize_t released = ::read(hold, &byte, 1);
  ::_exit(taken < share ? 1 : 0);
}

// Two grandchildren that each stay below the limit (six tenths of it: the target is twice the limit) and are
// together above it: is it one account for the whole tree, or one for each process? What counts is what they
// hold at the same time: at a common limit the kernel may kill the first to make room for the second.
Outcome take_by_fork(std::string_view route, std::int64_t target) {
  const std::int64_t share = target * 3 / 10 / kStep * kStep;
  auto ready = Pipe::create();
  auto hold = Pipe::create();
  if (!ready || !hold) return {0, EMFILE};
  say(route, {});
  std::array<pid_t, 2> children{};
  for (pid_t& child : children) {
    child = ::fork();
    if (child < 0) return {0, errno};
    if (child > 0) continue;
    hold->write_end.reset();
    take_share(share, ready->write_end.get(), hold->read_end.get());
  }
  ready->write_end.reset();  // so that the pipe ends when all have answered or are dead
  char byte = 0;
  for (int answers = 0; answers < 2; ++answers) {
    pollfd polled{ready->read_end.get(), POLLIN, 0};
    if (::poll(&polled, 1, 1000) <= 0 || ::read(ready->read_end.get(), &byte, 1) != 1) break;
  }
  hold->write_end.reset();
  Outcome outcome;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) outcome.taken += share;
  }
  if (outcome.taken < 2 * share) outcome.stopped_by = ENOMEM;
  return outcome;
}

Outcome take_by(std::string_view route, std::int64_t target) {
  if (route == "malloc_touch") return take_until(route, target, take_malloc);
  if (route == "mmap_private") return take_until(route, target, [] { return take_mapping(MAP_PRIVATE); });
  if (route == "mmap_shared") return take_until(route, target, [] { return take_mapping(MAP_SHARED); });
  if (route == "brk") return take_until(route, target, take_brk);
  if (route == "memfd") return take_file(route, target, ::memfd_create("headroom-probe", MFD_CLOEXEC));
  if (route == "shm_file") return take_file(route, target, open_unnamed_shm_file());
  if (route == "fork") return take_by_fork(route, target);
  return {0, EINVAL};
}

}  // namespace

std::vector<std::string> probe_routes() {
  return {"malloc_touch", "mmap_private", "mmap_shared", "brk", "memfd", "shm_file", "fork"};
}

int run_limit_probe(std::string_view route, Bytes target) {
  const Outcome outcome = take_by(route, target.count);
  say(route, outcome);
  return outcome.stopped_by == 0 ? 0 : 1;
}

}  // namespace headroom::limits
