// Ctrl-C, SIGTERM and SIGHUP as a descriptor to poll, so that an interrupted run ends in order: it stops its
// children and writes its results.
#pragma once

#include "base/files.h"
#include "base/result.h"

namespace headroom::bench {

class Interrupt {
 public:
  // Blocks SIGINT, SIGTERM and SIGHUP for this process (children get them unblocked) and ignores SIGPIPE.
  static Result<Interrupt> listen();
  int fd() const { return fd_.get(); }
  // True once a signal has arrived. Reads the descriptor.
  bool requested();
  // The signal that arrived, or 0.
  int signal_number() const { return signal_; }

 private:
  explicit Interrupt(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
  int signal_ = 0;
};

}  // namespace headroom::bench
