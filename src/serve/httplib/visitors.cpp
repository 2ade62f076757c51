#include "serve/httplib/visitors.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

namespace headroom::serve {

std::optional<std::uint64_t> remote_address(int socket) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return std::nullopt;
  std::uint32_t ipv4 = 0;
  if (peer.ss_family == AF_INET) {
    ipv4 = ntohl(reinterpret_cast<const sockaddr_in&>(peer).sin_addr.s_addr);
  } else if (peer.ss_family == AF_INET6) {
    const in6_addr& ipv6 = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
    if (IN6_IS_ADDR_LOOPBACK(&ipv6)) return std::nullopt;
    if (!IN6_IS_ADDR_V4MAPPED(&ipv6)) {
      std::uint64_t network = 0;
      for (int i = 0; i < 8; ++i) network = network << 8 | ipv6.s6_addr[i];
      return network;
    }
    std::memcpy(&ipv4, ipv6.s6_addr + 12, sizeof ipv4);
    ipv4 = ntohl(ipv4);
  } else {
    return std::nullopt;
  }
  if (ipv4 >> 24 == 127) return std::nullopt;
  return ipv4;
}

int Visitors::come(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  return ++counts_[address];
}

void Visitors::go(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = counts_.find(address);
  if (found != counts_.end() && --found->second == 0) counts_.erase(found);
}

int Visitors::count(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = counts_.find(address);
  return found == counts_.end() ? 0 : found->second;
}

Visit::Visit(Visitors& visitors, int socket) : visitors_(visitors), address_(remote_address(socket)) {
  if (address_) count_ = visitors_.come(*address_);
}

Visit::~Visit() {
  if (address_) visitors_.go(*address_);
}

bool Visit::may_be_kept() const { return !address_ || visitors_.count(*address_) <= kKept; }

}  // namespace headroom::serve
