// Preloaded into `headroom bench --task vos`: ends a worker before it sends a chosen event.
// HEADROOM_TEST_DIE="KIND COUNT TEXT": of the events that contain TEXT, the one with number COUNT, from 1.
// KIND "kill": SIGKILL. KIND "oom": as a runtime that was refused memory.
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

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
  const bool is_planned =
      fd == kEventsFd && plan != nullptr && std::sscanf(plan, "%7s %d %127[^\n]", kind, &count, text) == 3 &&
      std::string_view(static_cast<const char*>(data), size).find(text) != std::string_view::npos;
  if (is_planned && ++seen == count) {
    if (std::string_view(kind) == "kill") ::kill(::getpid(), SIGKILL);
    constexpr std::string_view kLine = "std::bad_alloc\n";
    real(STDERR_FILENO, kLine.data(), kLine.size());
    std::abort();
  }
  return real(fd, data, size);
}
