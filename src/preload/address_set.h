// The set of addresses whose allocations were recorded in default mode, so that their releases are recorded
// too. All threads query it at every free, without a lock.
//
// Nearly all freed addresses are not in the set. A filter of 65536 one-byte counters rejects them. Each
// counter stands for 2 KiB of addresses (a cell), and the counters of 128 KiB share a cache line. So frees in
// one part of the heap read counters that are in the first-level cache. (Counters that are spread over all
// lines were half of what tracing cost a compiler.) The filter's index takes four instructions and no
// multiplication, because every free computes it. Thread heaps begin 64 MiB apart, and the index gives each
// of them its own counters.
//
// Only where the counter is not 0, the set itself is searched: 131072 buckets of eight addresses, one cache
// line each. A full bucket spills into its neighbour. When both are full, the address is rejected, and its
// allocation must be counted instead of recorded.
//
// Samples have a second filter. A caller that knows that a block is small asks only this one. Blocks of 4 KiB
// and more lie among the small ones of a heap. ONNX Runtime's resnet50 on a GPU frees 920 blocks a run; up to
// 270 of them had a large block within 2 KiB. Searching the set for them took half a per cent of the run
// (benchmarks/results/trace_hook_cost.md). Where the sample filter counts a sample in the cell, a filter of
// single addresses distinguishes the sample from its neighbours. With a thousand live samples it errs for one
// address in a hundred. It matters because a sample may live until exit while its neighbours are freed in
// each run. That filter has 65536 counters, and the 128 addresses of a cell have adjacent ones.
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>

#include "preload/memory.h"

namespace headroom::preload {

class AddressSet {
 public:
  // Copies share the same counters.
  class SampleFilter {
   public:
    [[gnu::always_inline]] bool may_hold(std::uint64_t address) const {
      const std::uint8_t near = counters_[cell_of(address)].load(std::memory_order_relaxed);
      return __builtin_expect(near != 0, 0) && (near == kTop || at_address(address) != 0);
    }

   private:
    friend class AddressSet;
    std::uint8_t at_address(std::uint64_t address) const {
      return counters_[kFilterBytes + spot_of(address)].load(std::memory_order_relaxed);
    }
    std::atomic<std::uint8_t>* counters_ = nullptr;  // per cell, then per address
  };

  // Returns false when no memory is available.
  bool create() {
    if (buckets_ == nullptr) buckets_ = reserve_array<Bucket>(kBuckets);
    if (filter_ == nullptr) filter_ = reserve_array<std::atomic<std::uint8_t>>(kFilterBytes);
    if (samples_.counters_ == nullptr)
      samples_.counters_ = reserve_array<std::atomic<std::uint8_t>>(2 * kFilterBytes);
    return buckets_ != nullptr && filter_ != nullptr && samples_.counters_ != nullptr;
  }

  // Empties the set and releases its memory, whose addresses stay valid: the fast path may still read it.
  void clear() {
    if (buckets_ != nullptr) zero_memory(buckets_, kBuckets * sizeof(Bucket));
    if (filter_ != nullptr) zero_memory(filter_, kFilterBytes);
    if (samples_.counters_ != nullptr) zero_memory(samples_.counters_, 2 * kFilterBytes);
  }

  bool may_hold(std::uint64_t address) const {
    return filter_[cell_of(address)].load(std::memory_order_relaxed) != 0;
  }
  const SampleFilter& samples() const { return samples_; }
  // From now on samples() reports a possible match for all these addresses, so its callers need no separate
  // check.
  void always_match(std::uint64_t first, std::uint64_t bytes) {
    const std::uint64_t last = first + bytes - 1;
    for (std::uint64_t cell = first >> kCellBits; cell <= last >> kCellBits; ++cell)
      samples_.counters_[cell_of(cell << kCellBits)].store(kTop, std::memory_order_relaxed);
  }

  // Prefetches the cache lines that insert() will write. They leave the caches between two recorded blocks.
  void fetch(std::uint64_t address) const {
    __builtin_prefetch(bucket_of(hash_of(address)), 1);
    __builtin_prefetch(filter_ + cell_of(address), 1);
  }
  // Addresses are multiples of 16. Returns false when both buckets are full.
  bool insert(std::uint64_t address, bool is_sample = false) {
    const std::uint64_t hash = hash_of(address);
    for (Bucket* bucket : {bucket_of(hash), neighbour_of(hash)})
      for (auto& slot : bucket->slots) {
        std::uint64_t empty = 0;
        if (slot.load(std::memory_order_relaxed) != 0 ||
            !slot.compare_exchange_strong(empty, address | (is_sample ? kSample : 0)))
          continue;
        count(filter_[cell_of(address)], 1);
        if (is_sample) count_sample(address, 1);
        return true;
      }
    return false;
  }

  // Returns whether the address was in the set.
  bool remove(std::uint64_t address) {
    const std::uint64_t hash = hash_of(address);
    for (Bucket* bucket : {bucket_of(hash), neighbour_of(hash)})
      for (auto& slot : bucket->slots) {
        std::uint64_t found = slot.load(std::memory_order_relaxed);
        if ((found & ~kSample) != address || !slot.compare_exchange_strong(found, 0)) continue;
        count(filter_[cell_of(address)], -1);
        if ((found & kSample) != 0) count_sample(address, -1);
        return true;
      }
    return false;
  }

 private:
  static constexpr unsigned kBucketBits = 17, kFilterBits = 16;
  static constexpr unsigned kCellBits = 11, kFoldBits = 5;
  static constexpr std::uint8_t kTop = 0xff;
  static constexpr std::uint64_t kSample = 1;
  static constexpr std::size_t kBuckets = std::size_t{1} << kBucketBits,
                               kFilterBytes = std::size_t{1} << kFilterBits;
  struct alignas(64) Bucket {
    std::atomic<std::uint64_t> slots[8];
  };

  static constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15;
  static std::uint64_t hash_of(std::uint64_t address) { return (address >> 4) * kSpread; }
  // Bits 11 to 26 of the address, XORed with bits 16 to 31.
  static std::size_t cell_of(std::uint64_t address) {
    return static_cast<std::uint16_t>((address ^ address >> kFoldBits) >> kCellBits);
  }
  static std::size_t spot_of(std::uint64_t address) {
    constexpr unsigned kWithinBits = kCellBits - 4;
    const std::uint64_t within = address >> 4 & ((1 << kWithinBits) - 1);
    return (address >> kCellBits) * kSpread >> (64 - kFilterBits + kWithinBits) << kWithinBits | within;
  }
  Bucket* bucket_of(std::uint64_t hash) const { return buckets_ + (hash >> (64 - kBucketBits)); }
  Bucket* neighbour_of(std::uint64_t hash) const { return buckets_ + (hash >> (64 - kBucketBits) ^ 1); }
  // A counter that reached its maximum stays there: then the set is always searched, which is slower but
  // correct.
  static void count(std::atomic<std::uint8_t>& counter, int change) {
    std::uint8_t value = counter.load(std::memory_order_relaxed);
    do {
      if (value == kTop) return;
    } while (!counter.compare_exchange_weak(value, static_cast<std::uint8_t>(value + change)));
  }

  void count_sample(std::uint64_t address, int change) {
    count(samples_.counters_[cell_of(address)], change);
    count(samples_.counters_[kFilterBytes + spot_of(address)], change);
  }

  Bucket* buckets_ = nullptr;
  std::atomic<std::uint8_t>* filter_ = nullptr;
  SampleFilter samples_;
};

}  // namespace headroom::preload
