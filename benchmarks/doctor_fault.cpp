// A small program with a planted memory fault, or with its cure. benchmarks/doctor_planted_faults.py runs
// headroom doctor on it. The program processes videos with several models, and each model tracks several
// objects.
//
//     doctor_fault FAULT [cured]           prints its resident bytes at the end
//     doctor_fault thrash FILE SECONDS     reads the mapped FILE again and again, like a model's weights;
//                                          prints how many MiB it read
#include <fcntl.h>
#include <fmt/format.h>
#include <headroom/scope.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::size_t kVideos = 24, kModels = 3, kObjects = 4, kState = 96 << 10;

std::string_view fault;
bool cured = false;

[[gnu::noinline]] char* make_state(std::size_t bytes) {
  char* const state = static_cast<char*>(std::malloc(bytes));
  std::memset(state, 1, bytes);
  return state;
}

// Memory for one object, model or video. It is not freed if that is the fault.
class State {
 public:
  explicit State(std::string_view level) : state_(make_state(kState)), is_kept_(fault == level && !cured) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (!is_kept_) std::free(state_);
  }

 private:
  char* state_;
  bool is_kept_;
};

// A cache that the first videos fill: not a leak.
void use_cache(std::size_t video) {
  static std::vector<char*> cache;
  constexpr std::size_t kFull = 9;
  if (fault == "arena" && !cured && video < kFull) cache.push_back(make_state(8 * kState));
}

void go_through_videos() {
  for (std::size_t video = 0; video < kVideos; ++video) {
    const headroom::Scope video_scope("video");
    const State of_video("leak-video");
    use_cache(video);
    for (std::size_t model = 0; model < kModels; ++model) {
      const headroom::Scope model_scope("model");
      const State of_model("leak-model");
      for (std::size_t object = 0; object < kObjects; ++object) {
        const headroom::Scope object_scope("object");
        const State of_object("leak-object");
      }
    }
  }
}

// Long-lived results between short-lived frames fragment the heap. Cured: the results are allocated first.
void fragment_heap() {
  constexpr std::size_t kFrames = 2000, kFrame = 64 << 10, kResult = 2 << 10;
  std::vector<char*> frames(kFrames), results(kFrames);
  if (cured)
    for (char*& result : results) result = make_state(kResult);
  for (std::size_t i = 0; i < kFrames; ++i) {
    frames[i] = make_state(kFrame);
    if (!cured) results[i] = make_state(kResult);
  }
  for (char* frame : frames) std::free(frame);
}

// A model reads its weights from first to last in each run, so the page that was evicted first is the next
// one needed.
double read_repeatedly(const char* file, double seconds) {
  const int fd = ::open(file, O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (fd < 0 || ::fstat(fd, &status) != 0) return 0;
  const auto size = static_cast<std::size_t>(status.st_size);
  ::posix_fadvise(
      fd, 0, 0,
      POSIX_FADV_DONTNEED);  // evict it first, because a page is charged to the group that reads it first
  void* const mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  ::close(fd);
  if (mapped == MAP_FAILED) return 0;
  const auto* const weights = static_cast<const volatile char*>(mapped);
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  constexpr std::size_t kPage = 4096, kBetweenLooks = 256;  // 1 MiB
  std::size_t pages = 0;
  while (Clock::now() < end)
    for (std::size_t i = 0; i < kBetweenLooks; ++i, ++pages) (void)weights[pages * kPage % size];
  return static_cast<double>(pages) / kBetweenLooks;
}

long resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmRSS:") {
      long kib = 0;
      status >> kib;
      return kib;
    }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  fault = count > 1 ? arguments[1] : "";
  if (fault == "thrash") {
    fmt::print("{:.0f}\n", count > 3 ? read_repeatedly(arguments[2], std::strtod(arguments[3], nullptr)) : 0);
    return 0;
  }
  cured = count > 2;
  if (fault == "fragmentation")
    fragment_heap();
  else
    go_through_videos();
  fmt::print("{}\n", resident_kib() * 1024);
  return 0;
}
