// Converts scope changes of each thread into layers that the thread leaves and enters.
#pragma once

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "exporters/named_stacks.h"

namespace headroom::exporters {

class LayerWalk {
 public:
  explicit LayerWalk(const recording::Recording& recording) : layers_(recording) {}

  attribution::LayerTree& layers() { return layers_; }

  // Moves the thread to the event's scope: calls leave(layer) from the innermost layer outwards up to the
  // common ancestor, then enter(layer) inwards.
  template <class Leave, class Enter>
  void go(const MemoryEvent& event, Leave&& leave, Enter&& enter) {
    if (event.is_weight) return;  // a weight's scope is not its thread's scope
    attribution::LayerIndex& current = current_[event.thread.index];
    const attribution::LayerIndex next = layers_.of(event.scope);
    if (next == current) return;
    const auto from = path_to(layers_, current), to = path_to(layers_, next);
    std::size_t common = 0;
    while (common < std::min(from.size(), to.size()) && from[common] == to[common]) ++common;
    for (std::size_t i = from.size(); i-- > common;) leave(from[i]);
    for (std::size_t i = common; i < to.size(); ++i) enter(to[i]);
    current = next;
  }

 private:
  attribution::LayerTree layers_;
  std::unordered_map<std::uint32_t, attribution::LayerIndex> current_;  // by thread
};

}  // namespace headroom::exporters
