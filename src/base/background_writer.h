// Writes to an output that may block (a terminal after Ctrl-S, `| less`, ssh without a network), without
// blocking the caller.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "base/units.h"

namespace headroom {

// A separate thread writes, because O_NONBLOCK is not always possible: it needs a pipe, terminal or socket,
// and every other process that shares the output would get it too. A text is accepted whole or rejected
// whole.
class BackgroundWriter {
 public:
  using Write = std::function<void(std::string_view text)>;
  // The bytes that may wait. A longer text is accepted if the queue is empty.
  static constexpr std::size_t kCapacity = 256 << 10;

  // `write` may block, even until the process ends.
  explicit BackgroundWriter(Write write);
  // Drops the texts that are not written yet.
  ~BackgroundWriter();
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  // Returns false if the queue stayed too full for the whole timeout.
  bool offer(std::string_view text, Nanoseconds timeout = {});
  // Waits until every text is written. Returns false if the timeout passes first.
  bool flush(Nanoseconds timeout);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace headroom
