// A conductor's side of `headroom bench --in-step NAME`. Finds the other run with the same name, and agrees
// with it on the models that both have. For each of these models, it gives the two workers a pair of
// connected sockets (bench/worker/frames.h). The two conductors meet at an abstract Unix socket named after
// the user and NAME. An abstract socket leaves no file behind when a process dies.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "base/units.h"
#include "bench/conductor/child_process.h"

namespace headroom::bench {

// Accepts a plain name (base/text.h); otherwise a usage error.
Status check_step_name(const std::string& name);

class StepPartner {
 public:
  // Waits for the other run, at most `timeout`. Errors: usage (no other run started), failed (interrupted),
  // internal.
  static Result<StepPartner> meet(const std::string& name, Nanoseconds timeout, Interrupt& interrupt);

  // Sends the models that this run will measure, in order, and receives those of the other run. Models with
  // the same name are measured in step. If each run has one model, these two are paired whatever their names.
  // Errors: input (different order; another version of Headroom), failed (interrupted).
  Status agree(const std::vector<std::string>& models, Interrupt& interrupt);
  bool is_common(const std::string& model) const { return place_of(model).has_value(); }
  // After agree(): why no model is common. The other run ended, or the runs share no model. Empty if some
  // are.
  const std::string& why_alone() const { return why_alone_; }

  // This run's socket for the worker of a common model. Absent if the other run is gone or could not start
  // the model, or if this run is interrupted.
  std::optional<UniqueFd> begin_model(const std::string& model, Interrupt& interrupt);

  // Whether this run's worker has the first turn.
  bool is_first() const { return first_; }
  // An id of the pair of models: equal in both runs, and different from all others.
  std::string id_of(const std::string& model) const;

 private:
  StepPartner(UniqueFd fd, bool first, std::string name)
      : fd_(std::move(fd)), first_(first), name_(std::move(name)) {}

  // The index of the model among the common ones.
  std::optional<std::size_t> place_of(const std::string& model) const;

  UniqueFd fd_;
  bool first_;
  std::string name_, id_, why_alone_;
  std::vector<std::string> common_;  // names in this run
  // Second run only: a socket received early, for a later model than requested.
  std::optional<std::pair<std::size_t, UniqueFd>> next_;
};

}  // namespace headroom::bench
