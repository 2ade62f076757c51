#include "serve/httplib/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <climits>

namespace headroom::serve {
namespace {

constexpr Nanoseconds kShutdownPatience{1'000'000'000};  // for a response in progress at shutdown
constexpr Nanoseconds kDrainTime{500'000'000};           // for the client to read its response

int length_for_tls(std::size_t size) { return static_cast<int>(std::min<std::size_t>(size, INT_MAX)); }

}  // namespace

Connection::Connection(int socket, int shutdown_fd) : socket_(socket), shutdown_fd_(shutdown_fd) {
  ::fcntl(socket_, F_SETFL, ::fcntl(socket_, F_GETFL) | O_NONBLOCK);
  ::fcntl(socket_, F_SETFD, FD_CLOEXEC);  // commands that alerts start must not inherit it
}

Connection::~Connection() {
  if (tls_) SSL_shutdown(tls_.get());
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

// Returns the poll event (POLLIN or POLLOUT) that the TLS operation waits for; 0 if the operation failed.
short Connection::wanted_by_tls(int result) const {
  const int error = SSL_get_error(tls_.get(), result);
  if (error == SSL_ERROR_WANT_READ) return POLLIN;
  if (error == SSL_ERROR_WANT_WRITE) return POLLOUT;
  return 0;
}

bool Connection::start_tls(SSL_CTX* context) {
  tls_.reset(SSL_new(context));
  if (!tls_ || SSL_set_fd(tls_.get(), socket_) != 1) return false;
  SSL_set_mode(tls_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  const Nanoseconds deadline = monotonic_now() + kPatience;
  for (;;) {
    ERR_clear_error();
    const int result = SSL_accept(tls_.get());
    if (result == 1) return true;
    const short wanted = wanted_by_tls(result);
    if (wanted == 0 || !wait(wanted, deadline)) return false;
  }
}

// Returns the number of bytes, 0 at the end of the client's data, or -1 on error, timeout or shutdown.
ssize_t Connection::fill(Nanoseconds deadline) {
  for (;;) {
    short wanted = POLLIN;
    ssize_t got = 0;
    if (tls_) {
      ERR_clear_error();
      got = SSL_read(tls_.get(), buffer_.data(), length_for_tls(buffer_.size()));
      if (got <= 0) wanted = wanted_by_tls(static_cast<int>(got));
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
      ERR_clear_error();
      sent = SSL_write(tls_.get(), data, length_for_tls(size));
      if (sent <= 0) wanted = wanted_by_tls(static_cast<int>(sent));
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
