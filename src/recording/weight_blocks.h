// Which allocations are weights. They are made before any module is called, and only then is it known whose
// they are: the tracer names their addresses (ExtensionKind::weight) when it sees the module for the first
// time. A pass over the events finds the allocations that these were; in all later passes they have the
// layer's scope from their beginning, as if the program had made them in it.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "model/memory_event.h"

namespace headroom::recording {

class WeightBlocks {
 public:
  // Of the first pass, each event in the order of time.
  void look_at(const MemoryEvent& event) {
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
        if (found == live_.end()) return;  // counted only, or mapped, or of a device
        // The first module that has it: tied weights are one block.
        scopes_.try_emplace({event.address, found->second}, ScopeId{static_cast<std::uint32_t>(event.count)});
        return;
      }
      default:
        return;
    }
  }
  void end_of_pass() { live_ = {}; }

  bool empty() const { return scopes_.empty(); }
  // The event, with its layer's scope where it is the allocation of a weight.
  MemoryEvent settled(const MemoryEvent& event) const {
    MemoryEvent settled = event;
    if (event.kind == MemoryEventKind::allocate || event.kind == MemoryEventKind::sampled_allocate)
      if (const auto found = scopes_.find({event.address, event.time}); found != scopes_.end())
        settled.scope = found->second, settled.is_weight = true;
    return settled;
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
