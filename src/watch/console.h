// Standard output and standard error of a watch, whose readers may stand still.
#pragma once

#include <cstdio>
#include <string_view>

#include "base/background_writer.h"
#include "bench/interrupt.h"

namespace headroom::watch {

// While it lives, what is printed and said (log::…) waits for no reader.
class Console {
 public:
  Console();
  ~Console();  // what was said last has a second to be taken
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  static constexpr Nanoseconds kLastWords{1'000'000'000};

  // To standard output. False if it was left out, as there was no room.
  bool print(std::string_view text) { return output_.offer(text); }
  // Waits for room until a signal comes, and so much longer: where nothing else is to be done meanwhile.
  bool print_or_wait(std::string_view text, bench::Interrupt& interrupt, Nanoseconds after_signal = {});
  // To standard error.
  void say(std::string_view text) { errors_.offer(text); }
  // Waits until all of it was taken, or until a second after a signal.
  void finish(bench::Interrupt& interrupt);

 private:
  BackgroundWriter output_, errors_;
  std::FILE* log_ = nullptr;
  bool gave_up_ = false;
};

}  // namespace headroom::watch
