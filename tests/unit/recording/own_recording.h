// A recording that a test builds in a folder of its own.
#pragma once

#include "recording/recording.h"
#include "support/recording_builder.h"
#include "support/test_support.h"

namespace headroom::test {

struct OwnFolder {
  TemporaryFolder folder;
};

// Functions without a thread and a time record an event of thread 0, one nanosecond after the last.
class OwnRecording : public OwnFolder, public RecordingBuilder {
 public:
  explicit OwnRecording(const RecordingOptions& options = {})
      : RecordingBuilder(folder / "a.hrec", options) {}

  using RecordingBuilder::allocate;
  using RecordingBuilder::enter_scope;
  using RecordingBuilder::release;
  using RecordingBuilder::sample;
  void allocate(std::uint64_t address, std::uint64_t size, const Frames& stack = {}) {
    allocate(0, ++time_, address, size, stack);
  }
  void sample(std::uint64_t address, std::uint64_t size, const Frames& stack) {
    sample(0, ++time_, address, size, stack);
  }
  void release(std::uint64_t address) { release(0, ++time_, address); }
  void enter_scope(std::uint32_t scope) { enter_scope(0, ++time_, scope); }
  recording::Recording open() { return recording::Recording::open(finish()).value(); }
  // Of an event that a test records with a time.
  std::uint64_t now() { return ++time_; }

 private:
  std::uint64_t time_ = 0;
};

}  // namespace headroom::test
