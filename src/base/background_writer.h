// Writes to where a reader may stand still (a terminal on Ctrl-S, `| less`, ssh without a network), so that
// whoever has something to say does not stand still with it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "base/units.h"

namespace headroom {

// A thread of its own writes, since what blocks differs: only pipes, terminals and sockets that nobody else
// uses could be told not to. Texts are taken whole or not at all.
class BackgroundWriter {
 public:
  using Write = std::function<void(std::string_view text)>;
  static constexpr std::size_t kRoom = 256 << 10;  // that waits; a longer text is taken when nothing does

  // `write` may block; it may be under way until the process ends.
  explicit BackgroundWriter(Write write);
  // Leaves out what has not been written.
  ~BackgroundWriter();
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  // False if there was no room for it within the timeout.
  bool offer(std::string_view text, Nanoseconds timeout = {});
  // Waits until all is written; false if it was not within the timeout.
  bool flush(Nanoseconds timeout);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace headroom
