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
                     error == ENXIO ? "no process reads this pipe" : errno_text(error),
                     error == ENXIO ? "start its reader first" : "check the path");
}

namespace {

// Blocks SIGPIPE during a write: a pipe without a reader would end the program, which did not ask for this
// write. A SIGPIPE that was pending before stays pending.
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

// One write() per line, so that lines of several threads do not mix. A pipe accepts up to 4 KiB completely
// or not at all.
void EventFile::write(const std::string& line) {
  const std::string whole = line + "\n";
  const WithoutSigpipe guard;
  if (::write(fd_.get(), whole.data(), whole.size()) != static_cast<ssize_t>(whole.size())) ++lost_;
}

}  // namespace headroom::pool
