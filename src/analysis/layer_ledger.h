// Accounts of the layers: what each holds and held, how often and how long threads were in it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "analysis/glibc_chunk.h"
#include "analysis/layer_tree.h"
#include "analysis/live_counter.h"
#include "analysis/live_map.h"

namespace headroom::analysis {

struct LayerAccount {
  LiveCounter self;            // at the peak of the heap
  LiveCounter self_in_bucket;  // at the fullest moment of the timeline's point
  // With the layers inside it.
  std::int64_t held = 0, most_held = 0, reserved = 0, most_reserved = 0;
  double wasted_sum = 0, reserved_sum = 0;
  // Made in it alone; what the layers inside it made is added at the end.
  std::int64_t allocations = 0, releases = 0, allocated_bytes = 0;
  std::int64_t process_peak = 0, entries = 0, time_ns = 0;
  LayerIndex parent = 0;
  bool visited = false;  // a thread was in it itself, not only in a layer inside it
};

class LayerLedger {
 public:
  explicit LayerLedger(const recording::Recording& recording) : tree_(recording) { adopt_new_layers(); }

  LayerIndex layer_of(ScopeId scope) {
    const LayerIndex layer = tree_.of(scope);
    if (layer >= accounts_.size()) adopt_new_layers();
    return layer;
  }
  LayerAccount& operator[](LayerIndex layer) { return accounts_[layer]; }
  const LayerAccount& operator[](LayerIndex layer) const { return accounts_[layer]; }
  const LayerTree& tree() const { return tree_; }
  std::size_t size() const { return accounts_.size(); }

  void allocated(const LiveBlock& block, std::int64_t bytes, std::int64_t blocks, Mark peak, Mark bucket) {
    const std::int64_t chunks = reserved_for(block, bytes);
    for (LayerIndex layer = change_self(block, bytes, blocks, peak, bucket);;
         layer = accounts_[layer].parent) {
      LayerAccount& account = accounts_[layer];
      add_wrapping(account.held, bytes);
      add_wrapping(account.reserved, chunks);
      account.most_held = std::max(account.most_held, account.held);
      account.most_reserved = std::max(account.most_reserved, account.reserved);
      account.wasted_sum += static_cast<double>(account.reserved) - static_cast<double>(account.held);
      account.reserved_sum += static_cast<double>(account.reserved);
      if (account.parent == 0) break;
    }
  }
  void released(const LiveBlock& block, std::int64_t bytes, std::int64_t blocks, Mark peak, Mark bucket) {
    const std::int64_t chunks = reserved_for(block, bytes);
    for (LayerIndex layer = change_self(block, -bytes, -blocks, peak, bucket);;
         layer = accounts_[layer].parent) {
      LayerAccount& account = accounts_[layer];
      add_wrapping(account.held, -bytes);
      add_wrapping(account.reserved, -chunks);
      if (account.parent == 0) break;
    }
  }

 private:
  LayerIndex change_self(const LiveBlock& block, std::int64_t bytes, std::int64_t blocks, Mark peak,
                         Mark bucket) {
    accounts_[block.layer].self.change(bytes, blocks, peak);
    accounts_[block.layer].self_in_bucket.change(bytes, blocks, bucket);
    return block.layer;
  }
  static std::int64_t reserved_for(const LiveBlock& block, std::int64_t bytes) {
    const auto chunk = static_cast<std::int64_t>(chunk_bytes(block.size));
    return block.weight == 1 ? chunk
                             : bytes + (chunk - static_cast<std::int64_t>(block.size)) * block.blocks();
  }
  void adopt_new_layers() {
    for (std::size_t i = accounts_.size(); i < tree_.size(); ++i)
      accounts_.emplace_back().parent = tree_[static_cast<LayerIndex>(i)].parent;
  }

  LayerTree tree_;
  std::vector<LayerAccount> accounts_;
};

}  // namespace headroom::analysis
