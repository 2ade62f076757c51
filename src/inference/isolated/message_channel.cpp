#include "inference/isolated/message_channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

namespace headroom::inference {
namespace {

// The largest accepted document, in bytes. Real documents are far smaller: a description with thousands of
// class names has tens of kilobytes.
constexpr std::uint32_t kLongestMessage = 64 << 20;
constexpr const char* kWhat = "cannot communicate with a model process";

}  // namespace

Status MessageChannel::send(const Json& message) {
  std::string text = to_line(message);
  const auto length = static_cast<std::uint32_t>(text.size());
  char header[sizeof length];
  std::memcpy(header, &length, sizeof length);
  text.insert(0, header, sizeof header);
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t done = ::send(socket_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return internal_error(kWhat, errno_text(errno));
    sent += static_cast<std::size_t>(done);
  }
  return {};
}

Result<bool> MessageChannel::read_all(char* to, std::size_t bytes, std::optional<Nanoseconds> deadline) {
  while (bytes > 0) {
    pollfd waiting{socket_.get(), POLLIN, 0};
    int milliseconds = -1;
    if (deadline) {
      const std::int64_t left = (*deadline - monotonic_now()).count;
      milliseconds = static_cast<int>(std::clamp<std::int64_t>(left / 1'000'000 + 1, 0, 1'000'000'000));
    }
    const int ready = ::poll(&waiting, 1, milliseconds);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return false;
    const ssize_t got = ::recv(socket_.get(), to, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return internal_error(kWhat, got == 0 ? "it closed the connection" : errno_text(errno));
    to += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

Result<std::optional<Json>> MessageChannel::receive(std::optional<Nanoseconds> timeout) {
  std::optional<Nanoseconds> deadline;
  if (timeout) deadline = monotonic_now() + *timeout;
  std::uint32_t length = 0;
  char header[sizeof length];
  auto whole = read_all(header, sizeof header, deadline);
  if (!whole) return forward_error(whole);
  if (!*whole) return std::optional<Json>();
  std::memcpy(&length, header, sizeof length);
  if (length > kLongestMessage) return internal_error(kWhat, "it sent an invalid message length");
  std::string text(length, '\0');
  whole = read_all(text.data(), text.size(), deadline);
  if (!whole) return forward_error(whole);
  if (!*whole) return std::optional<Json>();
  auto message = parse_json(text, "the message of a model process");
  if (!message) return forward_error(message);
  return std::optional<Json>(std::move(*message));
}

}  // namespace headroom::inference
