// Which layers belong to a runtime's session: its loading, and its runs, wherever the program's own scopes
// put them. A program may load a model within one range and run it within another: then the session's layers
// are "load models/net/load" and "inference/net/run". No two open sessions have one name, so the name of the
// scope around a run says whose it is; sessions of one name that were open one after the other differ by
// time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attribution/layer_tree.h"
#include "recording/recording.h"

namespace headroom::attribution {

struct SessionLayer {
  std::uint32_t name = 0;  // the same number for the same name
  bool is_run = false;     // else it is the loading
  bool is_whole = false;   // the run or the loading itself, not a layer inside it
};

class SessionLayers {
 public:
  SessionLayers(const LayerTree& tree, const recording::RecordingInfo& info);

  // Absent for a layer that is no session's; only the sessions of info.profiles are known.
  std::optional<SessionLayer> of(LayerIndex layer) const {
    return layer < layers_.size() ? layers_[layer] : std::nullopt;
  }
  // Of each of info.profiles the number of its session's name.
  std::uint32_t name_of_profile(std::size_t profile) const { return of_profile_[profile]; }
  std::size_t names() const { return names_; }

 private:
  std::vector<std::optional<SessionLayer>> layers_;
  std::vector<std::uint32_t> of_profile_;
  std::size_t names_ = 0;
};

}  // namespace headroom::attribution
