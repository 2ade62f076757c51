// Counts the connections of each remote address, so that one machine cannot occupy all connections.
//
// Loopback connections are not counted: a local proxy serves many clients, and a limit would not stop a
// hostile local process from doing harm. For IPv6, the whole address counts. One machine may have many
// addresses, but all machines of a local network share the first 64 bits.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace headroom::serve {

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
