// The layers that each thread is in, as layers to leave and to enter.
#pragma once

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "exporters/named_stacks.h"

namespace headroom::exporters {

class LayerWalk {
 public:
  explicit LayerWalk(const recording::Recording& recording) : layers_(recording) {}

  analysis::LayerTree& layers() { return layers_; }

  // The thread works for the event's scope from now on: calls leave(layer) from the inside out up to what the
  // layers before and after have in common, and then enter(layer) from there in.
  template <class Leave, class Enter>
  void go(const MemoryEvent& event, Leave&& leave, Enter&& enter) {
    if (event.is_weight) return;  // its thread was somewhere else
    analysis::LayerIndex& current = current_[event.thread.index];
    const analysis::LayerIndex next = layers_.of(event.scope);
    if (next == current) return;
    const auto from = path_to(layers_, current), to = path_to(layers_, next);
    std::size_t common = 0;
    while (common < std::min(from.size(), to.size()) && from[common] == to[common]) ++common;
    for (std::size_t i = from.size(); i-- > common;) leave(from[i]);
    for (std::size_t i = common; i < to.size(); ++i) enter(to[i]);
    current = next;
  }

 private:
  analysis::LayerTree layers_;
  std::unordered_map<std::uint32_t, analysis::LayerIndex> current_;  // by thread
};

}  // namespace headroom::exporters
