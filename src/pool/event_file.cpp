#include "pool/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace headroom::pool {

Result<EventFile> EventFile::open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644));
  if (fd) return EventFile(std::move(fd));
  const int error = errno;
  return input_error("cannot write the pool's events to " + path,
                     error == ENXIO ? "nobody reads this pipe" : errno_text(error),
                     error == ENXIO ? "start its reader first" : "check the path");
}

// One call a line, so that lines of several threads do not mix; pipes take up to 4 KiB whole or not at all.
void EventFile::write(const std::string& line) {
  const std::string whole = line + "\n";
  if (::write(fd_.get(), whole.data(), whole.size()) != static_cast<ssize_t>(whole.size())) ++lost_;
}

}  // namespace headroom::pool
