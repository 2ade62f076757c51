#include "watch/console.h"

#include <unistd.h>

#include "base/files.h"
#include "base/log.h"
#include "base/terminal.h"

namespace headroom::watch {
namespace {

constexpr Nanoseconds kSlice{100'000'000};  // how quickly a signal is noticed while waiting for a reader

// Drops the text if the buffer is full. Reports success anyway, because the stream would repeat a failed
// write with the next message.
ssize_t write_in_background(void* writer, const char* text, std::size_t size) {
  static_cast<BackgroundWriter*>(writer)->offer({text, size});
  return static_cast<ssize_t>(size);
}

}  // namespace

Console::Console()
    : output_(print_output), errors_([](std::string_view text) {
        [[maybe_unused]] const auto written = write_all(STDERR_FILENO, text);
      }) {
  cookie_io_functions_t functions{};
  functions.write = write_in_background;
  log_ = ::fopencookie(&errors_, "w", functions);
  if (log_ != nullptr) log::set_console_file(log_);
}

Console::~Console() {
  if (!gave_up_) errors_.flush(kFinalFlush);
  if (log_ == nullptr) return;
  log::set_console_file(nullptr);
  std::fclose(log_);
}

bool Console::print_or_wait(std::string_view text, bench::Interrupt& interrupt, Nanoseconds after_signal) {
  while (!interrupt.requested())
    if (output_.offer(text, kSlice)) return true;
  return output_.offer(text, after_signal);
}

void Console::finish(bench::Interrupt& interrupt) {
  for (BackgroundWriter* writer : {&output_, &errors_}) {
    while (!interrupt.requested() && !writer->flush(kSlice)) {
    }
    if (interrupt.requested() && !writer->flush(gave_up_ ? Nanoseconds{} : kFinalFlush)) gave_up_ = true;
  }
}

}  // namespace headroom::watch
