// The layers of a recording: its scopes by the names of them and their parents. Two scopes with the same of
// those (a name pushed again after a dlclose, or by two threads at once) are one layer. Parents come before
// their children.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recording/recording.h"
#include "types/memory_event.h"

namespace headroom::attribution {

using LayerIndex = std::uint32_t;  // 0 is outside of any layer

struct Layer {
  std::string path;  // the names joined by "/"; no other layer's
  std::string key;   // the same with each name's own slashes escaped: one layer's in every recording
  std::string name;
  LayerIndex parent = 0;
  std::uint32_t depth = 0;  // 0 for "outside", 1 for those directly below
  recording::ScopeSource source = recording::ScopeSource::program;
};

class LayerTree {
 public:
  explicit LayerTree(const recording::Recording& recording);

  const std::vector<Layer>& layers() const { return layers_; }
  const Layer& operator[](LayerIndex index) const { return layers_[index]; }
  std::size_t size() const { return layers_.size(); }

  // The layer of a scope. One whose name was lost gets a layer of its own, "scope 17".
  LayerIndex of(ScopeId scope) {
    if (scope.index < by_scope_.size() && by_scope_[scope.index] != kUnknown) return by_scope_[scope.index];
    return add_nameless(scope);
  }

 private:
  static constexpr LayerIndex kUnknown = ~LayerIndex{0};
  LayerIndex add_nameless(ScopeId scope);
  void tell_paths_apart();

  std::vector<Layer> layers_;
  std::vector<LayerIndex> by_scope_;
};

}  // namespace headroom::attribution
