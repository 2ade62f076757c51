#include "watch/console.h"

#include <unistd.h>

#include "base/files.h"
#include "base/log.h"
#include "base/terminal.h"

namespace headroom::watch {
namespace {

constexpr Nanoseconds kSlice{100'000'000};  // how soon a signal is seen while a reader is waited for

// Left out where there is no room: a write that failed would be tried again with the next message.
ssize_t say_through(void* writer, const char* text, std::size_t size) {
  static_cast<BackgroundWriter*>(writer)->offer({text, size});
  return static_cast<ssize_t>(size);
}

}  // namespace

Console::Console()
    : output_(print_output), errors_([](std::string_view text) {
        [[maybe_unused]] const auto said = write_all(STDERR_FILENO, text);
      }) {
  cookie_io_functions_t functions{};
  functions.write = say_through;
  log_ = ::fopencookie(&errors_, "w", functions);
  if (log_ != nullptr) log::set_console_file(log_);
}

Console::~Console() {
  if (!gave_up_) errors_.flush(kLastWords);
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
    if (interrupt.requested() && !writer->flush(gave_up_ ? Nanoseconds{} : kLastWords)) gave_up_ = true;
  }
}

}  // namespace headroom::watch
