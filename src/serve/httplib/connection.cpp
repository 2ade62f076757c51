#include "serve/httplib/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>

namespace headroom::serve {
namespace {

constexpr Nanoseconds kShutdownPatience{1'000'000'000};  // for a response in progress at shutdown
constexpr Nanoseconds kDrainTime{500'000'000};           // for the client to read its response

}  // namespace

Connection::Connection(int socket, int shutdown_fd) : socket_(socket), shutdown_fd_(shutdown_fd) {
  ::fcntl(socket_, F_SETFL, ::fcntl(socket_, F_GETFL) | O_NONBLOCK);
  ::fcntl(socket_, F_SETFD, FD_CLOEXEC);  // commands that alerts start must not inherit it
}

Connection::~Connection() {
  tls_.reset();  // sends the end of the session
  ::shutdown(socket_, SHUT_RDWR);
  ::close(socket_);
}

bool Connection::wait(short wanted, Nanoseconds deadline) {
  bool watches_shutdown = true;
  for (;;) {
    const Nanoseconds left = deadline - monotonic_now();
    if (left.count <= 0) return false;
    const timespec timeout{left.count / 1'000'000'000, left.count % 1'000'000'000};
    pollfd polled[]{{socket_, wanted, 0}, {shutdown_fd_, POLLIN, 0}};
    if (::ppoll(polled, watches_shutdown ? 2 : 1, &timeout, nullptr) < 0 && errno != EINTR) return false;
    if (watches_shutdown && (polled[1].revents & POLLIN) != 0) {
      if (wanted == POLLIN) return false;
      watches_shutdown = false;
      deadline = std::min(deadline, monotonic_now() + kShutdownPatience);
    }
    if (polled[0].revents != 0) return true;
  }
}

bool Connection::start_tls(const TlsServer& server) {
  tls_ = server.new_session(socket_);
  const Nanoseconds deadline = monotonic_now() + kPatience;
  for (;;) {
    const auto [result, wanted] = tls_->accept();
    if (result == 1) return true;
    if (wanted == 0 || !wait(wanted, deadline)) return false;
  }
}

// Returns the number of bytes, 0 at the end of the client's data, or -1 on error, timeout or shutdown.
ssize_t Connection::fill(Nanoseconds deadline) {
  for (;;) {
    short wanted = POLLIN;
    ssize_t got = 0;
    if (tls_) {
      const TlsSession::Outcome outcome = tls_->read(buffer_);
      got = outcome.result;
      wanted = outcome.wanted;
      if (got <= 0 && wanted == 0) return -1;
    } else {
      got = ::recv(socket_, buffer_.data(), buffer_.size(), 0);
      if (got == 0) return 0;
      if (got < 0 && errno != EAGAIN && errno != EINTR) return -1;
    }
    if (got > 0) {
      read_ = 0;
      filled_ = static_cast<std::size_t>(got);
      return got;
    }
    if (!wait(wanted, deadline)) return -1;
  }
}

bool Connection::wait_for_request() {
  if (fill(monotonic_now() + kPatience) <= 0) return false;
  head_deadline_ = monotonic_now() + kPatience;
  return true;
}

ssize_t Connection::read(char* data, size_t size) {
  if (head_left_ == 0) return -1;
  if (read_ == filled_)
    if (const ssize_t got = fill(head_deadline_); got <= 0) return got;
  const std::size_t taken = std::min({size, filled_ - read_, head_left_});
  std::copy_n(buffer_.data() + read_, taken, data);
  read_ += taken;
  head_left_ -= taken;
  return static_cast<ssize_t>(taken);
}

ssize_t Connection::write(const char* data, size_t size) {
  if (size == 0) return 0;
  if (answered_ == 0) answer_began_ = monotonic_now();
  for (;;) {
    short wanted = POLLOUT;
    ssize_t sent = 0;
    if (tls_) {
      const TlsSession::Outcome outcome = tls_->write({data, size});
      sent = outcome.result;
      wanted = outcome.wanted;
      if (sent <= 0 && wanted == 0) return -1;
    } else {
      sent = ::send(socket_, data, size, MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN && errno != EINTR) return -1;
    }
    if (sent > 0) {
      answered_ += static_cast<std::size_t>(sent);
      return sent;
    }
    const double more = static_cast<double>(answered_) / kSlowestBytesPerSecond;
    const Nanoseconds deadline =
        answer_began_ + kPatience + Nanoseconds{static_cast<std::int64_t>(more * 1e9)};
    if (!wait(wanted, deadline)) return -1;
  }
}

void Connection::drain_input() {
  // If the socket is closed with unread bytes, the kernel resets the connection, and the client may lose the
  // response.
  if (!tls_) ::shutdown(socket_, SHUT_WR);
  const Nanoseconds deadline = monotonic_now() + kDrainTime;
  for (int pieces = 16; pieces > 0 && fill(deadline) > 0; --pieces) {
  }
}

void Connection::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip.clear();  // unused
  port = 0;
}

void Connection::get_local_ip_and_port(std::string& ip, int& port) const { get_remote_ip_and_port(ip, port); }

}  // namespace headroom::serve
