// A connection to somebody who may send anything, or nothing, or a byte now and then.
//
// cpp-httplib 0.11 reads a line to its end before it looks how long it is, takes any number of headers, and
// waits its patience anew for every byte; all of that before a token is looked at. So its requests read from
// here instead of from its own socket streams: the head of a request has a size and a time in all, an answer
// a least pace, and the end of the server ends every wait.
#pragma once

#define CPPHTTPLIB_OPENSSL_SUPPORT
#include <httplib.h>

#include <array>
#include <memory>

#include "base/units.h"

namespace headroom::serve {

inline constexpr std::size_t kMostHeadBytes = 16 * 1024;
// For a connection's first byte, for a whole head from its first byte on, for a TLS handshake.
inline constexpr Nanoseconds kPatience{5'000'000'000};
// An answer has the same time, and more the more of it has been taken.
inline constexpr double kSlowestBytesPerSecond = 64 * 1024;

class Connection final : public httplib::Stream {
 public:
  // Takes the socket. `ending` is readable once the server is to end.
  Connection(int socket, int ending);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool start_tls(SSL_CTX* context);
  // Until the first byte of a request is there, or `crowd` is readable. False: there is none.
  bool wait_for_request(int crowd = -1);
  // What was answered last is that the request is wrong (400 to 499).
  bool has_refused() const { return has_refused_; }
  // The other side is not asked for what it still sends, but gets to read its answer.
  void refuse_the_rest();

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
  // Waits for what the call before wanted: bytes, room, or what TLS says. False: it is in vain.
  bool wait(short wanted, Nanoseconds deadline);
  short wanted_by_tls(int result) const;
  ssize_t fill(Nanoseconds deadline);

  int socket_, ending_;
  int crowd_ = -1;  // ends the wait for a request
  bool has_refused_ = false;
  std::unique_ptr<SSL, FreeTls> tls_;
  std::array<char, 4096> buffer_;
  std::size_t read_ = 0, filled_ = 0;  // of the buffer
  std::size_t head_left_ = 0;
  Nanoseconds head_deadline_;
  Nanoseconds answer_began_;
  std::size_t answered_ = 0;  // bytes
};

}  // namespace headroom::serve
