#include "attribution/layer_tree.h"

#include <fmt/format.h>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace headroom::attribution {

namespace {

// A damaged record may contain any id. All ids from this one on are one layer.
constexpr std::uint32_t kMostScopes = 1 << 20;

// The name "a/b" as one element of a path: "a\\/b".
std::string escaped(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c == '/' || c == '\\') text += '\\';
    text += c;
  }
  return text;
}

}  // namespace

LayerTree::LayerTree(const recording::Recording& recording) {
  const auto& scopes = recording.info().scopes;
  layers_.emplace_back();
  by_scope_.assign(std::max<std::size_t>(scopes.size(), 1), kUnknown);
  by_scope_[0] = 0;
  std::map<std::pair<LayerIndex, std::string_view>, LayerIndex> known_layers;  // by parent and name
  // Parents have smaller ids than their children.
  for (std::uint32_t id = 1; id < scopes.size(); ++id) {
    if (scopes[id].name.empty()) continue;  // an id that no record named
    const LayerIndex known_parent = by_scope_[scopes[id].parent.index];
    const LayerIndex parent = known_parent == kUnknown ? 0 : known_parent;
    Layer layer;
    layer.name = scopes[id].name;
    layer.path = parent == 0 ? layer.name : layers_[parent].path + "/" + layer.name;
    layer.key = parent == 0 ? escaped(layer.name) : layers_[parent].key + "/" + escaped(layer.name);
    layer.parent = parent;
    layer.depth = layers_[parent].depth + 1;
    layer.source = scopes[id].source;
    const auto [known, is_new] = known_layers.emplace(std::pair(parent, std::string_view(scopes[id].name)),
                                                      static_cast<LayerIndex>(layers_.size()));
    by_scope_[id] = known->second;
    if (is_new) layers_.push_back(std::move(layer));
  }
  // Names may contain slashes, as those of ONNX do, and stay unchanged. Only if two layers would have the
  // same path (a scope "a/b", and a scope "b" in "a"), all paths have them escaped.
  std::set<std::string_view> paths;
  for (const Layer& layer : layers_) paths.insert(layer.path);
  if (paths.size() == layers_.size()) return;
  for (Layer& layer : layers_) layer.path = layer.key;
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
  layer.key = layer.path;
  layer.depth = 1;
  layers_.push_back(std::move(layer));
  return index;
}

using recording::ScopeSource;

SessionLayers::SessionLayers(const LayerTree& tree, const recording::RecordingInfo& info) {
  std::unordered_map<std::string_view, std::uint32_t> names;
  for (const recording::RuntimeProfile& profile : info.profiles) {
    const std::uint32_t scope = profile.session.index;
    const std::string_view name = scope < info.scopes.size() ? info.scopes[scope].name : std::string_view();
    of_profile_.push_back(names.emplace(name, static_cast<std::uint32_t>(names.size())).first->second);
  }
  names_ = names.size();
  layers_.resize(tree.size());
  for (LayerIndex i = 1; i < tree.size(); ++i) {
    const Layer& layer = tree[i];
    const Layer& parent = tree[layer.parent];
    layers_[i] = layers_[layer.parent];
    if (layers_[i]) layers_[i]->is_whole = false;
    const bool is_run = layer.source == ScopeSource::run;
    if ((!is_run && layer.source != ScopeSource::load) || parent.source != ScopeSource::session) continue;
    const auto known = names.find(parent.name);
    layers_[i] =
        known != names.end() ? std::optional(SessionLayer{known->second, is_run, true}) : std::nullopt;
  }
}

}  // namespace headroom::attribution
