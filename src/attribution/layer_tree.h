// The layers of a recording: its scopes, identified by their own name and the names of their parents. Scopes
// with equal names (pushed again after a dlclose, or by two threads) are one layer. Parents come before their
// children.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recording/recording.h"
#include "types/memory_event.h"

namespace headroom::attribution {

using LayerIndex = std::uint32_t;  // 0: outside all layers

struct Layer {
  std::string path;  // the names joined by "/"; unique
  std::string key;   // the same with the slashes in names escaped; identifies the layer in every recording
  std::string name;
  LayerIndex parent = 0;
  std::uint32_t depth = 0;  // 0: outside all layers; 1: directly below
  recording::ScopeSource source = recording::ScopeSource::program;
};

class LayerTree {
 public:
  explicit LayerTree(const recording::Recording& recording);

  const std::vector<Layer>& layers() const { return layers_; }
  const Layer& operator[](LayerIndex index) const { return layers_[index]; }
  std::size_t size() const { return layers_.size(); }

  // The layer of a scope. A scope without a recorded name gets its own layer, "scope 17".
  LayerIndex of(ScopeId scope) {
    if (scope.index < by_scope_.size() && by_scope_[scope.index] != kUnknown) return by_scope_[scope.index];
    return add_nameless(scope);
  }

 private:
  static constexpr LayerIndex kUnknown = ~LayerIndex{0};
  LayerIndex add_nameless(ScopeId scope);

  std::vector<Layer> layers_;
  std::vector<LayerIndex> by_scope_;
};

// A layer of a runtime's session: its load, its runs, and the layers inside them.
struct SessionLayer {
  std::uint32_t name = 0;  // the same number for the same name
  bool is_run = false;     // false: the load
  bool is_whole = false;   // the run or the load itself, not a layer inside it
};

// Finds the layers of sessions, wherever the program's own scopes put them. A program may load a model in one
// range and run it in another; then the layers are "load models/net/load" and "inference/net/run". Sessions
// that are open at the same time have different names, so the name of the scope around a run identifies the
// session. Sessions of one name follow each other, so time distinguishes them.

class SessionLayers {
 public:
  SessionLayers(const LayerTree& tree, const recording::RecordingInfo& info);

  // Nothing for a layer outside the sessions of info.profiles.
  std::optional<SessionLayer> of(LayerIndex layer) const {
    return layer < layers_.size() ? layers_[layer] : std::nullopt;
  }
  // The number of the session's name for info.profiles[profile].
  std::uint32_t name_of_profile(std::size_t profile) const { return of_profile_[profile]; }
  std::size_t names() const { return names_; }

 private:
  std::vector<std::optional<SessionLayer>> layers_;
  std::vector<std::uint32_t> of_profile_;
  std::size_t names_ = 0;
};

}  // namespace headroom::attribution
