#include "serve/httplib/connection_counts.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace headroom::serve {

std::optional<Address> remote_address(int socket) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return std::nullopt;
  Address address{};
  if (peer.ss_family == AF_INET) {
    address[10] = address[11] = 0xff;
    std::memcpy(&address[12], &reinterpret_cast<const sockaddr_in&>(peer).sin_addr, 4);
  } else if (peer.ss_family == AF_INET6) {
    const in6_addr& ipv6 = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
    if (IN6_IS_ADDR_LOOPBACK(&ipv6)) return std::nullopt;
    std::memcpy(address.data(), ipv6.s6_addr, address.size());
  } else {
    return std::nullopt;
  }
  const bool is_ipv4 = address[10] == 0xff && std::all_of(address.begin(), address.begin() + 10,
                                                          [](std::uint8_t byte) { return byte == 0; });
  if (is_ipv4 && address[12] == 127) return std::nullopt;
  return address;
}

int ConnectionCounts::add(const Address& address) {
  const std::lock_guard lock(mutex_);
  return ++counts_[address];
}

void ConnectionCounts::remove(const Address& address) {
  const std::lock_guard lock(mutex_);
  const auto found = counts_.find(address);
  if (found != counts_.end() && --found->second == 0) counts_.erase(found);
}

int ConnectionCounts::count(const Address& address) {
  const std::lock_guard lock(mutex_);
  const auto found = counts_.find(address);
  return found == counts_.end() ? 0 : found->second;
}

CountedConnection::CountedConnection(ConnectionCounts& counts, int socket)
    : all_counts_(counts), address_(remote_address(socket)) {
  if (address_) count_ = all_counts_.add(*address_);
}

CountedConnection::~CountedConnection() {
  if (address_) all_counts_.remove(*address_);
}

bool CountedConnection::may_keep_alive() const {
  return !address_ || all_counts_.count(*address_) <= kMaxKeptAlive;
}

}  // namespace headroom::serve
