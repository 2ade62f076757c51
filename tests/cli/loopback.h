// Sockets on the loopback interface.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/files.h"

namespace headroom::test {

// A socket and an address: 127.0.0.HOST.
struct Loopback {
  UniqueFd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};
  socklen_t length = sizeof address;
  explicit Loopback(int port = 0, std::size_t host = 1) {
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl((INADDR_LOOPBACK & 0xffffff00U) + static_cast<std::uint32_t>(host));
    address.sin_port = htons(static_cast<std::uint16_t>(port));
  }
  sockaddr* data() { return reinterpret_cast<sockaddr*>(&address); }
};

// Connects from 127.0.0.CLIENT. Unset if nothing listens.
inline UniqueFd connect_to(int port, std::size_t client = 1) {
  Loopback from(0, client), to(port);
  if (::bind(from.fd.get(), from.data(), from.length) != 0 ||
      ::connect(from.fd.get(), to.data(), to.length) != 0)
    return UniqueFd();
  return std::move(from.fd);
}

inline int free_port() {
  Loopback socket;
  ::bind(socket.fd.get(), socket.data(), socket.length);
  ::getsockname(socket.fd.get(), socket.data(), &socket.length);
  return ntohs(socket.address.sin_port);
}

}  // namespace headroom::test
