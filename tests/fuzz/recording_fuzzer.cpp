// The reader of recordings with any bytes. It opens the file or reports an error. Two passes over the events
// end and are equal, and events refer only to known stacks.
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "recording/recording.h"

namespace {

struct Walk {
  std::uint64_t events = 0, bytes = 0;
  std::int64_t last_time = 0;
  friend bool operator==(const Walk&, const Walk&) = default;
};

Walk walk(headroom::recording::Recording& recording) {
  Walk walked;
  recording.for_each_event([&](const headroom::MemoryEvent& event) {
    ++walked.events;
    walked.bytes += event.size;
    walked.last_time = event.time.count;
    if (event.stack.index >= recording.stacks().size()) std::abort();
    if (recording.stacks().frames(event.stack).size() > headroom::recording::kMaxFrames) std::abort();
    if (std::isnan(event.weight) || event.weight < 0) std::abort();
  });
  return walked;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using headroom::recording::Recording;
  const int fd = ::memfd_create("recording", MFD_CLOEXEC);
  if (fd < 0 || ::write(fd, data, size) != static_cast<ssize_t>(size)) std::abort();
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  if (auto recording = Recording::open(path)) {
    const Walk first = walk(*recording);
    const std::size_t problems = recording->problems().size();
    if (walk(*recording) != first || recording->problems().size() != problems) std::abort();
    for (std::uint32_t scope = 0; scope < recording->info().scopes.size() && scope < 100; ++scope)
      (void)recording->path_of(headroom::ScopeId{scope});
  }
  ::close(fd);
  return 0;
}
