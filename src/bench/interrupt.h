// Ctrl-C, termination and hang-up as a descriptor to poll, so that an interrupted run ends in order: children
// are stopped, what was measured is written.
#pragma once

#include "base/files.h"
#include "base/result.h"

namespace headroom::bench {

class Interrupt {
 public:
  // Blocks SIGINT, SIGTERM and SIGHUP for this process (children get them back) and ignores SIGPIPE.
  static Result<Interrupt> listen();
  int fd() const { return fd_.get(); }
  // True once a signal came. Reads the descriptor.
  bool requested();
  // The signal that came, or 0.
  int signal_number() const { return signal_; }

 private:
  explicit Interrupt(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
  int signal_ = 0;
};

}  // namespace headroom::bench
