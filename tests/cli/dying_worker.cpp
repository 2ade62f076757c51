// Preloaded into `headroom bench --task vos`: ends a worker before it sends a chosen event, or fills its
// disk. HEADROOM_TEST_DIE="KIND COUNT TEXT": of the events that contain TEXT, the one with number COUNT,
// from 1. KIND "kill": SIGKILL. KIND "oom": as a runtime that was refused memory. KIND "full": lines of
// another file that begin with TEXT are not written, as if its disk were full.
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>

extern "C" __attribute__((visibility("default"))) ssize_t write(int fd, const void* data, std::size_t size) {
  constexpr int kEventsFd = 3;
  using Write = ssize_t (*)(int, const void*, std::size_t);
  static const auto real = reinterpret_cast<Write>(::dlsym(RTLD_NEXT, "write"));
  static int seen = 0;
  char kind[8] = {}, text[128] = {};
  int count = 0;
  const char* plan = std::getenv("HEADROOM_TEST_DIE");
  const bool has_plan = plan != nullptr && std::sscanf(plan, "%7s %d %127[^\n]", kind, &count, text) == 3;
  const bool is_full = std::string_view(kind) == "full";
  if (!has_plan || is_full != (fd > kEventsFd)) return real(fd, data, size);
  const std::size_t found = std::string_view(static_cast<const char*>(data), size).find(text);
  const bool is_planned = is_full ? found == 0 : fd == kEventsFd && found != std::string_view::npos;
  if (is_planned && ++seen == count) {
    if (is_full) {
      errno = ENOSPC;
      return -1;
    }
    if (std::string_view(kind) == "kill") ::kill(::getpid(), SIGKILL);
    constexpr std::string_view kLine = "std::bad_alloc\n";
    real(STDERR_FILENO, kLine.data(), kLine.size());
    std::abort();
  }
  return real(fd, data, size);
}
