// The probe's child: allocates memory by one route, step by step, until it is stopped or reaches its target.
// It touches every page, because untouched memory costs nothing.
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
constexpr std::int64_t kReportEvery = 16 * kStep;  // at most 32 short lines, which fit into the smallest pipe

// Writes one byte per page. Volatile, so that the compiler does not remove the writes.
void touch(void* memory) {
  static const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  for (std::int64_t at = 0; at < kStep; at += page) static_cast<volatile char*>(memory)[at] = 1;
}

// Each function allocates one step and returns 0, or the errno value of the refusal.

int allocate_malloc() {
  static void* last_block = nullptr;  // each block points to the one before, so no block is lost
  void* memory = std::malloc(kStep);
  if (memory == nullptr) return ENOMEM;
  touch(memory);
  *static_cast<void**>(memory) = last_block;
  last_block = memory;
  return 0;
}

int allocate_mapping(int flags) {
  void* memory = ::mmap(nullptr, kStep, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return errno;
  touch(memory);
  return 0;
}

int allocate_brk() {
  void* memory = ::sbrk(kStep);
  if (memory == reinterpret_cast<void*>(-1)) return errno;
  touch(memory);
  return 0;
}

// The file has no name, so it disappears with this process. A full tmpfs (containers often have 64 MiB)
// proves nothing about the limit, so the rest is allocated with malloc.
int allocate_file_pages(int fd) {
  static const std::vector<char> zeros(kStep);
  for (std::int64_t written = 0; written < kStep;) {
    const ssize_t got = ::write(fd, zeros.data(), static_cast<std::size_t>(kStep - written));
    if (got < 0 && errno == ENOSPC) return allocate_malloc();
    if (got < 0 && errno != EINTR) return errno;
    if (got > 0) written += got;
  }
  return 0;
}

struct Outcome {
  std::int64_t allocated = 0;
  int stopped_by = 0;  // an errno value
};

// Writes without allocating: at the limit, no memory is left.
void print_outcome(std::string_view route, Outcome outcome) {
  std::array<char, 160> line;
  const auto end =
      outcome.stopped_by == 0
          ? fmt::format_to_n(line.data(), line.size(), "{{\"route\":\"{}\",\"taken_bytes\":{}}}\n", route,
                             outcome.allocated)
          : fmt::format_to_n(line.data(), line.size(),
                             "{{\"route\":\"{}\",\"taken_bytes\":{},\"stopped_by\":{}}}\n", route,
                             outcome.allocated, outcome.stopped_by);
  if (end.size <= line.size()) [[maybe_unused]]
    const auto sent = write_all(STDOUT_FILENO, {line.data(), end.size});
}

template <class Allocate>
Outcome allocate_until(std::string_view route, std::int64_t target, Allocate allocate) {
  Outcome outcome;
  while (outcome.allocated < target) {
    if (outcome.allocated % kReportEvery == 0) print_outcome(route, outcome);
    outcome.stopped_by = allocate();
    if (outcome.stopped_by != 0) break;
    outcome.allocated += kStep;
  }
  return outcome;
}

Outcome allocate_file(std::string_view route, std::int64_t target, int fd) {
  if (fd < 0) return {0, errno};
  UniqueFd file(fd);
  return allocate_until(route, target, [&] { return allocate_file_pages(file.get()); });
}

int open_unnamed_shm_file() { return ::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600); }

// A grandchild's part of allocate_by_fork: allocates its share, reports it, and holds it until the parent
// closes `hold`.
[[noreturn]] void allocate_share(std::int64_t share, int ready, int hold) {
  std::int64_t allocated = 0;
  while (allocated < share && allocate_malloc() == 0) allocated += kStep;
  char byte = allocated < share ? 'n' : 'y';
  [[maybe_unused]] const ssize_t reported = ::write(ready, &byte, 1);
  ::close(ready);  // if the other grandchild is killed, the parent's read ends at once
  [[maybe_unused]] const ssize_t released = ::read(hold, &byte, 1);
  ::_exit(allocated < share ? 1 : 0);
}

// Two grandchildren each stay below the limit (six tenths of it, as the target is twice the limit), but
// together they exceed it. This shows whether the limit applies to the whole process tree or to each process.
// Only memory held at the same time counts: with a common limit, the kernel may kill the first grandchild to
// make room for the second.
Outcome allocate_by_fork(std::string_view route, std::int64_t target) {
  const std::int64_t share = target * 3 / 10 / kStep * kStep;
  auto ready = Pipe::create();
  auto hold = Pipe::create();
  if (!ready || !hold) return {0, EMFILE};
  print_outcome(route, {});
  std::array<pid_t, 2> children{};
  for (pid_t& child : children) {
    child = ::fork();
    if (child < 0) return {0, errno};
    if (child > 0) continue;
    hold->write_end.reset();
    allocate_share(share, ready->write_end.get(), hold->read_end.get());
  }
  ready->write_end.reset();  // so that the pipe ends when all have answered or died
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
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) outcome.allocated += share;
  }
  if (outcome.allocated < 2 * share) outcome.stopped_by = ENOMEM;
  return outcome;
}

Outcome allocate_by(std::string_view route, std::int64_t target) {
  if (route == "malloc_touch") return allocate_until(route, target, allocate_malloc);
  if (route == "mmap_private")
    return allocate_until(route, target, [] { return allocate_mapping(MAP_PRIVATE); });
  if (route == "mmap_shared")
    return allocate_until(route, target, [] { return allocate_mapping(MAP_SHARED); });
  if (route == "brk") return allocate_until(route, target, allocate_brk);
  if (route == "memfd") return allocate_file(route, target, ::memfd_create("headroom-probe", MFD_CLOEXEC));
  if (route == "shm_file") return allocate_file(route, target, open_unnamed_shm_file());
  if (route == "fork") return allocate_by_fork(route, target);
  return {0, EINVAL};
}

}  // namespace

std::vector<std::string> probe_routes() {
  return {"malloc_touch", "mmap_private", "mmap_shared", "brk", "memfd", "shm_file", "fork"};
}

int run_limit_probe(std::string_view route, Bytes target) {
  const Outcome outcome = allocate_by(route, target.count);
  print_outcome(route, outcome);
  return outcome.stopped_by == 0 ? 0 : 1;
}

}  // namespace headroom::limits
