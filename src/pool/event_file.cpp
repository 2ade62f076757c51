#include "pool/event_file.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace headroom::pool {

Result<EventFile> EventFile::open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644));
  if (fd) return EventFile(std::move(fd));
  const int error = errno;
  return input_error("cannot write the pool's events to " + path,
                     error == ENXIO ? "nobody reads this pipe" : errno_text(error),
                     error == ENXIO ? "start its reader first" : "check the path");
}

namespace {

// A pipe whose reader has gone ends whoever writes to it, unless the signal is blocked: it is this library's
// doing, and not the program's. One that was pending before stays.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigset_t pending;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    ::sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  ~WithoutSigpipe() {
    const timespec at_once{};
    if (!was_pending_)
      while (::sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) {
      }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

}  // namespace

// One call a line, so that lines of several threads do not mix; pipes take up to 4 KiB whole or not at all.
void EventFile::write(const std::string& line) {
  const std::string whole = line + "\n";
  const WithoutSigpipe guard;
  if (::write(fd_.get(), whole.data(), whole.size()) != static_cast<ssize_t>(whole.size())) ++lost_;
}

}  // namespace headroom::pool
