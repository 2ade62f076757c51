// How many connections each address of elsewhere has, so that one machine cannot take all there are.
//
// This machine's own are not counted: a proxy here speaks for many, and who is here can do worse. Of IPv6 it
// is the whole address, though a machine may have many: the first 64 bits are those of all in a local
// network.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace headroom::serve {

using Address = std::array<std::uint8_t, 16>;  // of IPv4 as IPv6 maps it: ::ffff:1.2.3.4

// Nothing for this machine's own (loopback), and what is no address of the internet's.
std::optional<Address> remote_address(int socket);

class Visitors {
 public:
  // The count of its connections with this one.
  int come(const Address& address);
  void go(const Address& address);
  int count(const Address& address);

 private:
  std::mutex mutex_;
  std::map<Address, int> counts_;
};

// A connection, as long as it lasts.
class Visit {
 public:
  static constexpr int kMost = 16;  // more are hung up on at once
  static constexpr int kKept = 8;   // more are answered, and not kept for another request

  Visit(Visitors& visitors, int socket);
  ~Visit();
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  bool is_one_too_many() const { return count_ > kMost; }
  bool may_be_kept() const;

 private:
  Visitors& visitors_;
  std::optional<Address> address_;
  int count_ = 0;  // when it came
};

}  // namespace headroom::serve
