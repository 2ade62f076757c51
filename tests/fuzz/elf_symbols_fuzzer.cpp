// A damaged or hostile module file: it is opened like a module of a recording, and many addresses are looked
// up in it.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "symbols/symbolizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int fd = ::memfd_create("module", MFD_CLOEXEC);
  if (fd < 0 || ::write(fd, data, size) != static_cast<ssize_t>(size)) return 0;
  headroom::recording::Module module;
  module.path = "/proc/self/fd/" + std::to_string(fd);  // no build id, so any file is accepted
  module.end = 0x40000;
  headroom::symbols::Symbolizer symbolizer({module});
  for (std::uint64_t address = 0; address < module.end; address += address < 0x2000 ? 5 : 997)
    for (const auto& frame : symbolizer.frames_of(address, false)) (void)one_line(frame);
  (void)symbolizer.problems();
  ::close(fd);
  return 0;
}
