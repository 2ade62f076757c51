// A conductor's side of `headroom bench --in-step NAME`: finds the other run of that name, agrees with it on
// the models that both have, and gives the two workers of each a pair of connected sockets (frame_turns.h).
// The two meet at an abstract Unix socket of the user and the name: nothing is left in a folder, whoever
// dies.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "base/units.h"
#include "bench/interrupt.h"

namespace headroom::bench {

// A plain name (base/plain_name.h); else usage.
Status check_step_name(const std::string& name);

class StepPartner {
 public:
  // Waits for the other run at most `timeout`. Errors: usage (nobody came), failed (interrupted), internal.
  static Result<StepPartner> meet(const std::string& name, Nanoseconds timeout, Interrupt& interrupt);

  // Says which models this run will measure, in that order, and hears which ones the other will. Those of one
  // name are measured in step; where each has one model it is that, whatever it is called. Errors: input
  // (in another order; another Headroom), failed (interrupted).
  Status agree(const std::vector<std::string>& models, Interrupt& interrupt);
  bool is_common(const std::string& model) const { return place_of(model).has_value(); }
  // Why none is, after agree(): the other run ended, or the two have no model in common. Empty: some are.
  const std::string& why_alone() const { return why_alone_; }

  // The end of the pair that this run's worker of a common model is to have. Absent: the other run is gone or
  // could not begin it, or this one is interrupted.
  std::optional<UniqueFd> begin_model(const std::string& model, Interrupt& interrupt);

  // Whether this run's worker has the first turn.
  bool is_first() const { return first_; }
  // The same in both runs, of that model, and in no others.
  std::string id_of(const std::string& model) const;

 private:
  StepPartner(UniqueFd fd, bool first, std::string name)
      : fd_(std::move(fd)), first_(first), name_(std::move(name)) {}

  // Which of the common models it is.
  std::optional<std::size_t> place_of(const std::string& model) const;

  UniqueFd fd_;
  bool first_;
  std::string name_, id_, why_alone_;
  std::vector<std::string> common_;  // by their names in this run
  // Of the second: what came of a later model than was asked for.
  std::optional<std::pair<std::size_t, UniqueFd>> next_;
};

}  // namespace headroom::bench
