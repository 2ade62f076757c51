#include "analysis/layer_tree.h"

#include <fmt/format.h>

#include <unordered_map>

namespace headroom::analysis {
namespace {

// Damaged records name any id; past this many names they all are one layer.
constexpr std::uint32_t kMostScopes = 1 << 20;

}  // namespace

LayerTree::LayerTree(const recording::Recording& recording) {
  const auto& scopes = recording.info().scopes;
  layers_.emplace_back();
  by_scope_.assign(std::max<std::size_t>(scopes.size(), 1), kUnknown);
  by_scope_[0] = 0;
  std::unordered_map<std::string, LayerIndex> by_path{{std::string(), 0}};
  // A parent's id is below its children's, so it is known when they come.
  for (std::uint32_t id = 1; id < scopes.size(); ++id) {
    if (scopes[id].name.empty()) continue;  // an id that no record named
    const LayerIndex known_parent = by_scope_[scopes[id].parent.index];
    const LayerIndex parent = known_parent == kUnknown ? 0 : known_parent;
    Layer layer;
    layer.name = scopes[id].name;
    layer.path = parent == 0 ? layer.name : layers_[parent].path + "/" + layer.name;
    layer.parent = parent;
    layer.depth = layers_[parent].depth + 1;
    layer.source = scopes[id].source;
    const auto [known, is_new] = by_path.emplace(layer.path, static_cast<LayerIndex>(layers_.size()));
    by_scope_[id] = known->second;
    if (is_new) layers_.push_back(std::move(layer));
  }
}

LayerIndex LayerTree::add_nameless(ScopeId scope) {
  if (scope.index >= kMostScopes) scope.index = kMostScopes;
  if (scope.index >= by_scope_.size()) by_scope_.resize(scope.index + 1, kUnknown);
  LayerIndex& index = by_scope_[scope.index];
  if (index != kUnknown) return index;
  index = static_cast<LayerIndex>(layers_.size());
  Layer layer;
  layer.name = layer.path =
      scope.index == kMostScopes ? "scopes without a name" : fmt::format("scope {}", scope.index);
  layer.depth = 1;
  layers_.push_back(std::move(layer));
  return index;
}

}  // namespace headroom::analysis
