// The addresses whose allocation was recorded in default mode, so that their release is recorded too. Asked
// at every free, by all threads, without a lock.
//
// Nearly all frees are of addresses that are not in it. They are told apart by a filter of 65536 one-byte
// counters, each of 2 KiB of addresses; those of 128 KiB lie in one cache line, so that what a program frees
// in one part of its heap asks lines that are in the first-level cache (counters that are spread over all
// lines were half of what tracing cost a compiler). The index is four instructions, and no multiplication,
// because they stand in every free; with it the heaps of threads, which begin 64 MiB apart, have counters of
// their own. Only where the counter is not 0 is the set looked at: 131072 buckets of eight addresses, a cache
// line each. A bucket that is full spills into its neighbour; when both are full the address is not taken,
// and its allocation must be counted instead of recorded.
//
// Samples have a filter of their own besides: who knows that a block is a small one asks for no others.
// Blocks of 4 KiB and more lie among the small ones of a heap, and of ONNX Runtime's resnet50 on a GPU, which
// frees 920 blocks a run, up to 270 had one within 2 KiB: looking at the set for them was half a per cent of
// the run (bench/results/trace_hook_cost.md). Where that filter has counted a sample, a second one of single
// addresses tells its neighbours from it, but for one in a hundred where a thousand samples live: a sample
// may stay for good, and its neighbours be freed in each run. It has 65536 counters, and those of the 128
// addresses of a cell lie side by side.
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>

#include "tracer/memory.h"

namespace headroom::tracer {

class AddressSet {
 public:
  // May be copied: all copies are of the same counters.
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
    std::atomic<std::uint8_t>* counters_ = nullptr;  // of cells, then of single addresses
  };

  // False when there is no memory.
  bool create() {
    if (buckets_ == nullptr) buckets_ = reserve_array<Bucket>(kBuckets);
    if (filter_ == nullptr) filter_ = reserve_array<std::atomic<std::uint8_t>>(kFilterBytes);
    if (samples_.counters_ == nullptr)
      samples_.counters_ = reserve_array<std::atomic<std::uint8_t>>(2 * kFilterBytes);
    return buckets_ != nullptr && filter_ != nullptr && samples_.counters_ != nullptr;
  }

  bool may_hold(std::uint64_t address) const {
    return filter_[cell_of(address)].load(std::memory_order_relaxed) != 0;
  }
  const SampleFilter& samples() const { return samples_; }
  // From now on samples() say yes for all these addresses, so that who asks them needs no check of its own.
  void always_ask(std::uint64_t first, std::uint64_t bytes) {
    const std::uint64_t last = first + bytes - 1;
    for (std::uint64_t cell = first >> kCellBits; cell <= last >> kCellBits; ++cell)
      samples_.counters_[cell_of(cell << kCellBits)].store(kTop, std::memory_order_relaxed);
  }

  // For who inserts in a while: between two recorded blocks the caches have lost the places.
  void fetch(std::uint64_t address) const {
    __builtin_prefetch(bucket_of(hash_of(address)), 1);
    __builtin_prefetch(filter_ + cell_of(address), 1);
  }
  // Addresses are multiples of 16.
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

  // Whether it was there.
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
  // Bits 11 to 26 of the address, with bits 16 to 31 folded in.
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
  // A counter that reached its top stays there: then the set is asked, which is slower but right.
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

}  // namespace headroom::tracer
