// A connection that is safe against clients that send too much, nothing, or one byte now and then.
//
// cpp-httplib 0.11 reads a whole line before it checks the length, accepts any number of headers, and
// restarts its timeout at every byte. All of that happens before the token is checked. Therefore the library
// reads its requests from this stream instead of its own. This stream limits the size and total time of a
// request's head and requires a minimum speed for the response. It ends every wait when the server shuts
// down.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#define CPPHTTPLIB_OPENSSL_SUPPORT
#include <httplib.h>

#include <array>
#include <memory>

#include "base/units.h"

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

  bool start_tls(SSL_CTX* context);
  // Waits for the first byte of a request. Returns false on timeout, or when `high_load_fd` becomes readable.
  bool wait_for_request(int high_load_fd = -1);
  // True if the last response was a client error (400 to 499).
  bool sent_client_error() const { return sent_client_error_; }
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
  struct FreeTls {
    void operator()(SSL* tls) const { SSL_free(tls); }
  };
  // Waits until the socket is ready for `wanted` (POLLIN or POLLOUT). Returns false on timeout or shutdown.
  bool wait(short wanted, Nanoseconds deadline);
  short wanted_by_tls(int result) const;
  ssize_t fill(Nanoseconds deadline);

  int socket_, shutdown_fd_;
  int high_load_fd_ = -1;  // ends the wait for a request
  bool sent_client_error_ = false;
  std::unique_ptr<SSL, FreeTls> tls_;
  std::array<char, 4096> buffer_;
  std::size_t read_ = 0, filled_ = 0;  // positions in the buffer
  std::size_t head_left_ = 0;
  Nanoseconds head_deadline_;
  Nanoseconds answer_began_;
  std::size_t answered_ = 0;  // bytes
};

// Counts the connections of each remote address, so that one machine cannot occupy all connections.
//
// Loopback connections are not counted: a local proxy serves many clients, and a limit would not stop a
// hostile local process from doing harm. For IPv6, the whole address counts. One machine may have many
// addresses, but all machines of a local network share the first 64 bits.
using Address = std::array<std::uint8_t, 16>;  // IPv4 addresses as ::ffff:1.2.3.4

// Empty for loopback addresses and for sockets that are not IPv4 or IPv6.
std::optional<Address> remote_address(int socket);

class ConnectionCounts {
 public:
  // Returns the address's number of connections, including this one.
  int add(const Address& address);
  void remove(const Address& address);
  int count(const Address& address);

 private:
  std::mutex mutex_;
  std::map<Address, int> counts_;
};

// Counts one connection for as long as the object lives.
class CountedConnection {
 public:
  static constexpr int kMaxOpen = 16;      // further connections are closed at once
  static constexpr int kMaxKeptAlive = 8;  // further connections are closed after one response

  CountedConnection(ConnectionCounts& counts, int socket);
  ~CountedConnection();
  CountedConnection(const CountedConnection&) = delete;
  CountedConnection& operator=(const CountedConnection&) = delete;
  bool is_over_limit() const { return count_ > kMaxOpen; }
  bool may_keep_alive() const;

 private:
  ConnectionCounts& all_counts_;
  std::optional<Address> address_;
  int count_ = 0;  // connections of the address when this one was opened
};

}  // namespace headroom::serve
