#include "doctor/inputs/readers.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include "report/input/input_kind.h"

namespace headroom::doctor {
namespace {

// Copies the first bytes of a pipe, which keeps them. Waits until there are any.
ssize_t copy_of_pipe(int pipe, std::string& begin) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return 0;
  const UniqueFd out(ends[0]), in(ends[1]);
  return ::tee(pipe, in.get(), begin.size(), 0) > 0 ? ::read(out.get(), begin.data(), begin.size()) : 0;
}

// The first bytes of standard input, without consuming them. Empty if it is neither a file nor a pipe.
std::string begin_of_input() {
  std::string begin(4096, '\0');
  struct stat info {};
  if (::fstat(STDIN_FILENO, &info) != 0) return {};
  ssize_t got = 0;
  if (S_ISREG(info.st_mode)) {
    got = ::pread(STDIN_FILENO, begin.data(), begin.size(), ::lseek(STDIN_FILENO, 0, SEEK_CUR));
  } else if (S_ISFIFO(info.st_mode)) {
    // The first write may have less than a line.
    constexpr int kMostTries = 100;
    constexpr std::chrono::milliseconds kBetween{10};
    for (int tries = 0; tries < kMostTries; ++tries) {
      const ssize_t before = got;
      got = copy_of_pipe(STDIN_FILENO, begin);
      const bool is_line =
          std::string_view(begin.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))).find('\n') !=
          std::string_view::npos;
      pollfd writer{STDIN_FILENO, 0, 0};
      const bool has_ended = ::poll(&writer, 1, 0) > 0 && (writer.revents & POLLHUP) != 0;
      if (got <= 0 || is_line || got == std::ssize(begin) || (has_ended && got == before)) break;
      std::this_thread::sleep_for(kBetween);
    }
  }
  begin.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return begin;
}

}  // namespace

Result<std::optional<UniqueFd>> watch_log_on_input() {
  constexpr std::size_t kMost = std::size_t{256} << 20;
  const auto refuse = [](std::string why) {
    return input_error("cannot read the log of headroom watch on standard input", std::move(why),
                       "use a file: headroom doctor LOG.jsonl");
  };
  const std::string begin = begin_of_input();
  if (!report::begins_as_watch_log(begin)) return std::nullopt;
  UniqueFd copy(::memfd_create("watch.jsonl", MFD_CLOEXEC));
  if (!copy) return refuse(errno_text(errno));
  std::string buffer(1 << 16, '\0');
  for (std::size_t taken = 0;;) {
    const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse(errno_text(errno));
    if (got == 0) return copy;
    taken += static_cast<std::size_t>(got);
    if (taken > kMost) return refuse("it is larger than 256 MiB");
    if (auto written = write_all(copy.get(), {buffer.data(), static_cast<std::size_t>(got)}); !written)
      return refuse(written.error().why);
  }
}

}  // namespace headroom::doctor
