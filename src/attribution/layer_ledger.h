// Accounts of the layers: what each holds and held, how often and how long threads were in it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "attribution/glibc_chunk.h"
#include "attribution/layer_tree.h"
#include "attribution/live_counter.h"
#include "attribution/live_map.h"

namespace headroom::attribution {

// A sum by both halves of the samples, and its peak: the moment when it was highest by half A, as half B
// tells it. Where nothing was sampled the halves are the same, and it is the largest sum.
struct PeakOfHalves {
  std::int64_t a = 0,
               b_over_a = 0;  // the second changes with samples only, and so costs an exact event nothing
  std::int64_t most_a = 0, at_most = 0;

  std::int64_t b() const {
    std::int64_t sum = a;
    add_wrapping(sum, b_over_a);
    return sum;
  }
  void change(std::int64_t by_a, std::int64_t by_b) {
    add_wrapping(a, by_a);
    if (by_b != by_a) add_wrapping(b_over_a, by_b - by_a);
  }
  void note() {
    if (a > most_a) note(a, b());
  }
  void note(std::int64_t of_a, std::int64_t of_b) {
    if (of_a <= most_a) return;
    most_a = of_a;
    at_most = of_b;
  }
  void join(const PeakOfHalves& other) { note(other.most_a, other.at_most); }
};

struct LayerAccount {
  LiveCounter self;  // at the peak of the heap
  double self_peak_variance = 0, self_end_variance = 0;
  LiveCounter self_in_bucket;  // at the fullest moment of the timeline's point, by half B
  // With the layers inside it.
  PeakOfHalves held, reserved;
  double wasted_sum = 0, reserved_sum = 0;
  // Made in it alone; what the layers inside it made is added at the end.
  std::int64_t allocations = 0, releases = 0, allocated_bytes = 0;
  PeakOfHalves process;
  std::int64_t entries = 0, time_ns = 0;
  LayerIndex parent = 0;
  bool visited = false;  // a thread was in it itself, not only in a layer inside it
  bool is_tracers_own = false;
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

  // Calls use(share) with what the block stands for. In two places: where it stands for itself alone, the
  // compiler then knows that the halves are the same, and most of the sums are one.
  template <class Use>
  static void with_share(const LiveBlock& block, Use&& use) {
    const auto more = static_cast<std::int64_t>(chunk_bytes(block.size) - block.size);
    if (block.weight == 1) return use(LiveShare::of_exact(block, more));
    use(LiveShare::of_sample(block, more));
  }
  // `share`: of this block.
  void allocated(const LiveBlock& block, const LiveShare& share, Mark peak, Mark bucket) {
    const LiveBytes &bytes = share.bytes, &chunks = share.with_more;
    for (LayerIndex layer = change_self(block, bytes, share.blocks, peak, bucket);;
         layer = accounts_[layer].parent) {
      LayerAccount& account = accounts_[layer];
      account.held.change(bytes.a, bytes.b);
      account.reserved.change(chunks.a, chunks.b);
      account.held.note();
      account.reserved.note();
      account.wasted_sum += static_cast<double>(account.reserved.b()) - static_cast<double>(account.held.b());
      account.reserved_sum += static_cast<double>(account.reserved.b());
      if (account.parent == 0) break;
    }
  }
  void released(const LiveBlock& block, const LiveShare& share, Mark peak, Mark bucket) {
    const LiveBytes &bytes = share.bytes, &chunks = share.with_more;
    for (LayerIndex layer = change_self(block, -bytes, -share.blocks, peak, bucket);;
         layer = accounts_[layer].parent) {
      LayerAccount& account = accounts_[layer];
      account.held.change(-bytes.a, -bytes.b);
      account.reserved.change(-chunks.a, -chunks.b);
      if (account.parent == 0) break;
    }
  }
  void begin_telling(Mark peak) {
    for (LayerAccount& account : accounts_) account.self.begin_telling(peak);
  }

 private:
  LayerIndex change_self(const LiveBlock& block, const LiveBytes& bytes, std::int64_t blocks, Mark peak,
                         Mark bucket) {
    accounts_[block.layer].self.change(bytes.all, blocks, peak);
    accounts_[block.layer].self_in_bucket.change(bytes.b, blocks, bucket);
    return block.layer;
  }
  void adopt_new_layers() {
    for (std::size_t i = accounts_.size(); i < tree_.size(); ++i) {
      const Layer& layer = tree_[static_cast<LayerIndex>(i)];
      LayerAccount& account = accounts_.emplace_back();
      account.parent = layer.parent;
      account.is_tracers_own = layer.name == recording::kTracerScope;
    }
  }

  LayerTree tree_;
  std::vector<LayerAccount> accounts_;
};

}  // namespace headroom::attribution
