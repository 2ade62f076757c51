// Implements `headroom watch`: writes samples of this machine, or of another tool's output, to the screen
// and to files.
#pragma once

#include <cstdio>
#include <string_view>

#include "base/background_writer.h"
#include "base/result.h"
#include "bench/conductor/child_process.h"
#include "watch/watch_options.h"

namespace headroom::watch {

// Standard output and standard error of `headroom watch`. A reader of them may stop reading; sampling must
// continue. While this object lives, output and log messages (log::…) are written in the background.
class Console {
 public:
  Console();
  ~Console();  // waits up to one second for unwritten messages
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  static constexpr Nanoseconds kFinalFlush{1'000'000'000};

  // Prints to standard output. Returns false if the text was dropped because the buffer is full.
  bool print(std::string_view text) { return output_.offer(text); }
  // Like print(), but waits for buffer space. After a signal, it waits at most `after_signal` longer. For
  // callers that have no other work.
  bool print_or_wait(std::string_view text, bench::Interrupt& interrupt, Nanoseconds after_signal = {});
  void print_error(std::string_view text) { errors_.offer(text); }
  // Waits until all text is written, or until one second after a signal.
  void finish(bench::Interrupt& interrupt);

 private:
  BackgroundWriter output_, errors_;
  std::FILE* log_ = nullptr;
  bool gave_up_ = false;
};

// Runs until the text ends, the duration is over or a signal comes. Returns the exit code. With a log or
// alerts, a sample is not printed if the console is blocked; skipped samples are counted.
Result<int> run_watch(const WatchOptions& options, Console& console);

}  // namespace headroom::watch
