// Finds the allocations that are weights. A program allocates weights before it calls any module, so their
// layer is known only later. When the tracer first sees the module, it records the addresses of its weights
// (ExtensionKind::weight). A first pass over the events finds these allocations. All later passes give them
// the layer's scope from the start, as if the program had allocated them in that scope.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "types/memory_event.h"

namespace headroom::recording {

class WeightBlocks {
 public:
  // Takes each event of the first pass, ordered by time.
  void observe(const MemoryEvent& event) {
    switch (event.kind) {
      case MemoryEventKind::allocate:
      case MemoryEventKind::sampled_allocate:
        live_[event.address] = event.time;
        return;
      case MemoryEventKind::release:
        live_.erase(event.address);
        return;
      case MemoryEventKind::weight: {
        const auto found = live_.find(event.address);
        if (found == live_.end()) return;  // only counted, or mapped, or device memory
        // The first module wins: tied weights are one block.
        scopes_.try_emplace({event.address, found->second}, ScopeId{static_cast<std::uint32_t>(event.count)});
        return;
      }
      default:
        return;
    }
  }
  void finish_pass() { live_ = {}; }

  bool empty() const { return scopes_.empty(); }
  // Returns the event; an allocation of a weight gets its layer's scope.
  MemoryEvent with_layer_scope(const MemoryEvent& event) const {
    MemoryEvent result = event;
    if (event.kind == MemoryEventKind::allocate || event.kind == MemoryEventKind::sampled_allocate)
      if (const auto found = scopes_.find({event.address, event.time}); found != scopes_.end())
        result.scope = found->second, result.is_weight = true;
    return result;
  }

 private:
  struct Key {
    std::uint64_t address;
    Nanoseconds time;  // of the allocation
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return (key.address ^ static_cast<std::uint64_t>(key.time.count) << 20) * 0x9e3779b97f4a7c15 >> 20;
    }
  };
  std::unordered_map<std::uint64_t, Nanoseconds> live_;
  std::unordered_map<Key, ScopeId, Hash> scopes_;
};

}  // namespace headroom::recording
