#include "attribution/session_layers.h"

#include <string_view>
#include <unordered_map>

namespace headroom::attribution {

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
