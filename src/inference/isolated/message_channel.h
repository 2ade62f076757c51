// Sends and receives JSON documents over a connected stream socket. Each document is preceded by its length
// in bytes (32 bits, the machine's byte order).
#pragma once

#include <optional>

#include "base/files.h"
#include "base/json.h"
#include "base/result.h"
#include "base/units.h"

namespace headroom::inference {

class MessageChannel {
 public:
  MessageChannel() = default;
  explicit MessageChannel(UniqueFd socket) : socket_(std::move(socket)) {}
  int fd() const { return socket_.get(); }
  Status send(const Json& message);
  // Waits for the next document, without limit if `timeout` is absent. Returns nothing if the timeout
  // expires.
  Result<std::optional<Json>> receive(std::optional<Nanoseconds> timeout = std::nullopt);
  void close() { socket_.reset(); }

 private:
  // Returns false if the deadline passes.
  Result<bool> read_all(char* to, std::size_t bytes, std::optional<Nanoseconds> deadline);
  UniqueFd socket_;
};

}  // namespace headroom::inference
