// The reader of recordings with any bytes. It opens the file or reports an error. Two passes over the events
// end and are equal, and events refer only to known stacks.
#include <unistd.h>

#include <cmath>

#include "fuzz.h"
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

void fuzz(std::string_view text) {
  using headroom::recording::Recording;
  const InputFile file(text);
  if (auto recording = Recording::open(file.path)) {
    const Walk first = walk(*recording);
    const std::size_t problems = recording->problems().size();
    if (walk(*recording) != first || recording->problems().size() != problems) std::abort();
    for (std::uint32_t scope = 0; scope < recording->info().scopes.size() && scope < 100; ++scope)
      (void)recording->path_of(headroom::ScopeId{scope});
  }
}
