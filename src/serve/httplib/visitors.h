// How many connections each address of elsewhere has, so that one machine cannot take all there are.
//
// This machine's own are not counted: a proxy here speaks for many, and who is here can do worse. Of IPv6 the
// first 64 bits are an address: a machine has all of the others.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace headroom::serve {

// Nothing for this machine's own (loopback), and what is no address of the internet's.
std::optional<std::uint64_t> remote_address(int socket);

class Visitors {
 public:
  // The count of its connections with this one.
  int come(std::uint64_t address);
  void go(std::uint64_t address);
  int count(std::uint64_t address);

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, int> counts_;
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
  std::optional<std::uint64_t> address_;
  int count_ = 0;  // when it came
};

}  // namespace headroom::serve
