// A program that is killed, and that records its work in a file, so that benchmarks/kills.py can compare its
// recording with it.
//
//     trace_victim TALLY THREADS run|abort|end|pause MICROSECONDS
//     trace_victim TALLY THREADS hoard CGROUP_PROCS
//
// Its threads allocate and free blocks of 30,011 to 30,074 bytes. After each operation, not before, the
// thread counts it in its line of the file TALLY, which is mapped and so survives any kind of death. `run`
// continues until it is killed. `abort` calls abort() after this many microseconds, `end` calls exit(0).
// `pause` is like `end`, and its threads pause after each operation. `hoard` moves into a control group,
// touches all memory and frees none, until the kernel kills it.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr unsigned kSlots = 512, kMostThreads = 16;
struct alignas(64) Tally {
  std::atomic<std::uint64_t> allocations, releases, bytes;
};
Tally* tallies;
bool hoards = false, pauses = false;

void* work(void* number) {
  Tally& tally = tallies[reinterpret_cast<std::uintptr_t>(number)];
  std::uint64_t random = reinterpret_cast<std::uintptr_t>(number) * 0x9e3779b97f4a7c15 | 1;
  void* slots[kSlots] = {};
  for (;;) {
    if (pauses) usleep(1);
    random = random * 6364136223846793005 + 1442695040888963407;
    void*& slot = slots[random >> 55];
    if (slot != nullptr && !hoards) {
      std::free(slot);
      slot = nullptr;
      tally.releases.fetch_add(1);
      continue;
    }
    const std::size_t size = 30'011 + (random >> 20) % 64;
    slot = std::malloc(size);
    if (slot == nullptr) std::abort();
    if (hoards) std::memset(slot, 1, size);
    tally.allocations.fetch_add(1);
    tally.bytes.fetch_add(size);
  }
}

bool join_group(const char* procs) {
  const int fd = open(procs, O_WRONLY | O_CLOEXEC);
  const bool done = fd >= 0 && write(fd, "0", 1) == 1;
  if (fd >= 0) close(fd);
  return done;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const unsigned threads = static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10));
  const int fd = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (threads > kMostThreads || fd < 0 || ftruncate(fd, sizeof(Tally) * kMostThreads) != 0) return 2;
  void* mapped = mmap(nullptr, sizeof(Tally) * kMostThreads, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return 2;
  tallies = static_cast<Tally*>(mapped);
  hoards = std::strcmp(argv[3], "hoard") == 0;
  pauses = std::strcmp(argv[3], "pause") == 0;
  if (hoards && !join_group(argv[4])) return 3;
  for (std::uintptr_t i = 0; i < threads; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, work, reinterpret_cast<void*>(i)) != 0) return 2;
  }
  const bool aborts = std::strcmp(argv[3], "abort") == 0;
  if (!aborts && !pauses && std::strcmp(argv[3], "end") != 0)
    for (;;) pause();
  usleep(static_cast<useconds_t>(std::strtoul(argv[4], nullptr, 10)));
  if (aborts) std::abort();
  std::exit(0);
}
