// Threads that start and end, allocate through every function, pass blocks to each other and check each
// other's bytes:
//
//     trace_stress [SECONDS] [THREADS]
//
// Each of THREADS (100) threads runs ten thousand operations and is then replaced by a new one, until the
// time is over. All sizes have the form 16 n + 9, which nothing else in this process requests. So a recording
// can be compared with the output:
// {"threads": started, "allocations", "releases", "bytes", "squares": the sum of size², modulo 2^64,
// "broken": blocks whose bytes were not those written}. A realloc counts as a release and an allocation.
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

namespace {

struct Figures {
  std::uint64_t allocations = 0, releases = 0, bytes = 0, squares = 0, broken = 0;
  void add_allocation(std::uint64_t size) {
    ++allocations;
    bytes += size;
    squares += size * size;
  }
};

// Each place has a block that any thread may take; the block describes itself.
constexpr unsigned kPlaces = 1024, kOperations = 10'000, kKept = 24;
std::atomic<unsigned char*> shelf[kPlaces];
std::atomic<std::uint64_t> started{0}, allocations{0}, releases{0}, bytes{0}, squares{0}, broken{0};

struct Header {
  std::uint32_t size;
  std::uint8_t is_from_new, pattern;
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 | 1) {}
  std::uint64_t next() {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return state_ >> 33;
  }

 private:
  std::uint64_t state_;
};

std::size_t random_size(Random& random) {
  return 16 * (2 + random.next() % (random.next() % 16 == 0 ? 700 : 60)) + 9;
}

unsigned char* fill(void* memory, std::size_t size, bool is_from_new, std::uint64_t pattern) {
  const Header header{static_cast<std::uint32_t>(size), is_from_new, static_cast<std::uint8_t>(pattern)};
  std::memcpy(memory, &header, sizeof header);
  std::memset(static_cast<char*>(memory) + sizeof header, header.pattern, size - sizeof header);
  return static_cast<unsigned char*>(memory);
}

Header check(const unsigned char* memory, Figures& figures) {
  Header header{};
  std::memcpy(&header, memory, sizeof header);
  bool is_sound = header.size % 16 == 9 && header.size < 16 * 703;
  for (std::size_t i = sizeof header; is_sound && i < header.size; ++i)
    is_sound = memory[i] == header.pattern;
  if (!is_sound) ++figures.broken;
  return header;
}

unsigned char* allocate(Random& random, Figures& figures) {
  const std::size_t size = random_size(random);
  void* memory = nullptr;
  const std::uint64_t choice = random.next() % 8;
  if (choice == 0)
    memory = std::calloc(1, size);
  else if (choice == 1)
    memory = aligned_alloc(64, size);
  else if (choice == 2 && posix_memalign(&memory, 256, size) != 0)
    memory = nullptr;
  else if (choice == 3)
    memory = ::operator new(size);
  else if (choice > 3)
    memory = std::malloc(size);
  if (memory == nullptr) std::abort();
  figures.add_allocation(size);
  return fill(memory, size, choice == 3, random.next());
}

// Not inlined: the compiler would report a mismatched new and free.
[[gnu::noinline]] void release(unsigned char* memory, Figures& figures) {
  if (memory == nullptr) return;
  const Header header = check(memory, figures);
  ++figures.releases;
  if (header.is_from_new != 0)
    ::operator delete(memory);
  else
    std::free(memory);
}

// Resizes a block; its content must be preserved.
[[gnu::noinline]] unsigned char* resize(unsigned char* memory, Random& random, Figures& figures) {
  const Header header = check(memory, figures);
  if (header.is_from_new != 0) return memory;
  const std::size_t size = random_size(random), kept = size < header.size ? size : header.size;
  auto* moved = static_cast<unsigned char*>(std::realloc(memory, size));
  if (moved == nullptr) std::abort();
  ++figures.releases;
  figures.add_allocation(size);
  for (std::size_t i = sizeof header; i < kept; ++i)
    if (moved[i] != header.pattern) {
      ++figures.broken;
      break;
    }
  return fill(moved, size, false, random.next());
}

void* live(void* seed) {
  Random random(reinterpret_cast<std::uint64_t>(seed));
  Figures figures;
  unsigned char* kept[kKept] = {};
  for (unsigned i = 0; i < kOperations; ++i) {
    unsigned char*& mine = kept[random.next() % kKept];
    const std::uint64_t what = random.next() % 8;
    if (mine == nullptr)
      mine = allocate(random, figures);
    else if (what == 0)
      mine = resize(mine, random, figures);
    else if (what < 4)  // takes a block that another thread left, and leaves one of its own
      mine = shelf[random.next() % kPlaces].exchange(mine);
    else {
      release(mine, figures);
      mine = nullptr;
    }
  }
  for (unsigned char* memory : kept) release(memory, figures);
  allocations += figures.allocations;
  releases += figures.releases;
  bytes += figures.bytes;
  squares += figures.squares;
  broken += figures.broken;
  return nullptr;
}

pthread_t start_thread() {
  pthread_t thread;
  const std::uint64_t seed = ++started;
  if (pthread_create(&thread, nullptr, live, reinterpret_cast<void*>(seed)) != 0) std::abort();
  return thread;
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::strtod(argv[1], nullptr) : 5;
  const unsigned count = argc > 2 ? static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10)) : 100;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::vector<pthread_t> threads;
  for (unsigned i = 0; i < count; ++i) threads.push_back(start_thread());
  for (unsigned next = 0; std::chrono::steady_clock::now() < end; next = (next + 1) % count) {
    pthread_join(threads[next], nullptr);
    threads[next] = start_thread();
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  Figures last;
  for (auto& place : shelf) release(place.exchange(nullptr), last);
  releases += last.releases;
  broken += last.broken;
  std::printf(
      "{\"threads\": %llu, \"allocations\": %llu, \"releases\": %llu, \"bytes\": %llu, \"squares\": %llu, "
      "\"broken\": %llu}\n",
      static_cast<unsigned long long>(started), static_cast<unsigned long long>(allocations),
      static_cast<unsigned long long>(releases), static_cast<unsigned long long>(bytes),
      static_cast<unsigned long long>(squares), static_cast<unsigned long long>(broken));
}
