// The addresses whose allocation was recorded in default mode, so that their release is recorded too. Asked
// at every free, by all threads, without a lock.
//
// Nearly all frees are of addresses that are not in it. They are told apart by a filter of 65536 one-byte
// counters, which stays in the second-level cache; only where the counter is not 0 is the set looked at:
// 131072 buckets of eight addresses, a cache line each. A bucket that is full spills into its neighbour; when
// both are full the address is not taken, and its allocation must be counted instead of recorded.
#pragma once

#include <atomic>
#include <cstdint>

#include "tracer/memory.h"

namespace headroom::tracer {

class AddressSet {
 public:
  // False when there is no memory.
  bool create() {
    if (buckets_ == nullptr) buckets_ = reserve_array<Bucket>(kBuckets);
    if (filter_ == nullptr) filter_ = reserve_array<std::atomic<std::uint8_t>>(kFilterBytes);
    return buckets_ != nullptr && filter_ != nullptr;
  }

  bool may_hold(std::uint64_t address) const {
    return filter_[hash_of(address) >> (64 - kFilterBits)].load(std::memory_order_relaxed) != 0;
  }

  bool insert(std::uint64_t address) {
    const std::uint64_t hash = hash_of(address);
    for (Bucket* bucket : {bucket_of(hash), neighbour_of(hash)})
      for (auto& slot : bucket->slots) {
        std::uint64_t empty = 0;
        if (slot.load(std::memory_order_relaxed) != 0 || !slot.compare_exchange_strong(empty, address))
          continue;
        count(hash, 1);
        return true;
      }
    return false;
  }

  // Whether it was there.
  bool remove(std::uint64_t address) {
    const std::uint64_t hash = hash_of(address);
    for (Bucket* bucket : {bucket_of(hash), neighbour_of(hash)})
      for (auto& slot : bucket->slots) {
        std::uint64_t expected = address;
        if (slot.load(std::memory_order_relaxed) != address || !slot.compare_exchange_strong(expected, 0))
          continue;
        count(hash, -1);
        return true;
      }
    return false;
  }

 private:
  static constexpr unsigned kBucketBits = 17, kFilterBits = 16;
  static constexpr std::size_t kBuckets = std::size_t{1} << kBucketBits,
                               kFilterBytes = std::size_t{1} << kFilterBits;
  struct alignas(64) Bucket {
    std::atomic<std::uint64_t> slots[8];
  };

  static std::uint64_t hash_of(std::uint64_t address) { return (address >> 4) * 0x9e3779b97f4a7c15; }
  // Bits that the filter does not use, so that what shares a counter does not share a bucket.
  Bucket* bucket_of(std::uint64_t hash) const {
    return buckets_ + (hash >> (64 - kFilterBits - kBucketBits)) % kBuckets;
  }
  Bucket* neighbour_of(std::uint64_t hash) const {
    return buckets_ + ((hash >> (64 - kFilterBits - kBucketBits)) % kBuckets ^ 1);
  }
  // A counter that reached its top stays there: then the set is asked, which is slower but right.
  void count(std::uint64_t hash, int change) {
    auto& counter = filter_[hash >> (64 - kFilterBits)];
    std::uint8_t value = counter.load(std::memory_order_relaxed);
    do {
      if (value == 0xff) return;
    } while (!counter.compare_exchange_weak(value, static_cast<std::uint8_t>(value + change)));
  }

  Bucket* buckets_ = nullptr;
  std::atomic<std::uint8_t>* filter_ = nullptr;
};

}  // namespace headroom::tracer
