// A connection that is safe against clients that send too much, nothing, or one byte now and then.
//
// cpp-httplib 0.11 reads a whole line before it checks the length, accepts any number of headers, and
// restarts its timeout at every byte. All of that happens before the token is checked. Therefore the library
// reads its requests from this stream instead of its own. This stream limits the size and total time of a
// request's head and requires a minimum speed for the response. It ends every wait when the server shuts
// down.
#pragma once

#include <httplib.h>

#include <array>
#include <memory>

#include "base/units.h"
#include "serve/httplib/tls.h"

namespace headroom::serve {

inline constexpr std::size_t kMostHeadBytes = 16 * 1024;
// Timeout for a connection's first byte, for a whole head from its first byte, and for a TLS handshake.
inline constexpr Nanoseconds kPatience{5'000'000'000};
// A response has the same timeout, extended by the bytes sent so far at this speed.
inline constexpr double kSlowestBytesPerSecond = 64 * 1024;

class Connection final : public httplib::Stream {
 public:
  // Takes ownership of the socket. `shutdown_fd` becomes readable when the server shuts down.
  Connection(int socket, int shutdown_fd);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool start_tls(const TlsServer& server);
  // Waits for the first byte of the request. Returns false on timeout.
  bool wait_for_request();
  // Drops the rest of the client's data, so that the client can still read its response.
  void drain_input();

  bool is_readable() const override { return read_ < filled_; }
  bool is_writable() const override { return true; }
  ssize_t read(char* data, size_t size) override;
  ssize_t write(const char* data, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_; }

 private:
  // Waits until the socket is ready for `wanted` (POLLIN or POLLOUT). Returns false on timeout or shutdown.
  bool wait(short wanted, Nanoseconds deadline);
  ssize_t fill(Nanoseconds deadline);

  int socket_, shutdown_fd_;
  std::unique_ptr<TlsSession> tls_;
  std::array<char, 4096> buffer_;
  std::size_t read_ = 0, filled_ = 0;  // positions in the buffer
  std::size_t head_left_ = kMostHeadBytes;
  Nanoseconds head_deadline_;
  Nanoseconds answer_began_;
  std::size_t answered_ = 0;  // bytes
};

}  // namespace headroom::serve
