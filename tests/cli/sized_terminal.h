// A pseudo-terminal of a given width as the standard output of a command.
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/text.h"
#include "base/utf8.h"
#include "cli/command.h"

namespace headroom::test {

class SizedTerminal {
 public:
  explicit SizedTerminal(int columns) : screen_(::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK)) {
    const winsize size{24, static_cast<unsigned short>(columns), 0, 0};
    if (!screen_ || ::grantpt(screen_.get()) != 0 || ::unlockpt(screen_.get()) != 0) return;
    terminal_.reset(::open(::ptsname(screen_.get()), O_RDWR | O_NOCTTY));
    is_there_ = terminal_ && ::ioctl(terminal_.get(), TIOCSWINSZ, &size) == 0;
  }
  bool is_there() const { return is_there_; }

  // The command's output on this terminal, without colours. It is read while the command runs, because a
  // terminal buffers little.
  std::string output_of(const std::vector<std::string>& arguments, CommandOptions options = {}) {
    std::string text;
    options.stdout_fd = terminal_.get();
    options.environment.emplace_back("NO_COLOR", "1");
    options.while_running = [&](int) {
      read_into(text);
      return true;
    };
    run_headroom(arguments, options);
    read_into(text);
    std::erase(text, '\r');
    return text;
  }

 private:
  void read_into(std::string& text) {
    std::array<char, 4096> piece;
    for (ssize_t got = 0; (got = ::read(screen_.get(), piece.data(), piece.size())) > 0;)
      text.append(piece.data(), static_cast<std::size_t>(got));
  }

  UniqueFd screen_, terminal_;
  bool is_there_ = false;
};

inline int widest_line(const std::string& text) {
  int widest = 0;
  for (const std::string_view line : split(text, '\n')) widest = std::max(widest, display_width(line));
  return widest;
}

}  // namespace headroom::test
