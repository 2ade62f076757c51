// Allocations that do not fill whole granules. Each one larger than 1 MiB counts as whole granules of 2 MiB.
// Smaller ones count 2 MiB for each granule that their addresses lie in.
#pragma once

#include <set>

#include "cli/cuda_routes.h"

namespace cuda_program {

inline bool run_granules(std::uint64_t limit, std::uint64_t) {
  constexpr std::uint64_t kGranule = kDeviceGranule;
  constexpr std::size_t kMost = 6000;
  const std::uint64_t available = left();
  bool all_sound = true;
  for (const std::uint64_t size : {std::uint64_t{1}, std::uint64_t{100'000}, std::uint64_t{700'000},
                                   kGranule / 2, kGranule / 2 + 1, kGranule + 1, 3 * kGranule - 1}) {
    std::vector<Pointer> all;
    std::set<std::uint64_t> shared;
    const bool is_small = size <= kGranule / 2;
    const std::uint64_t whole = (size + kGranule - 1) / kGranule * kGranule;
    Result end = kSuccess;
    while (end == kSuccess && all.size() < kMost) {
      Pointer pointer = 0;
      if ((end = cuMemAlloc_v2(&pointer, size)) != kSuccess) continue;
      all.push_back(pointer);
      shared.insert(pointer / kGranule);
    }
    const std::uint64_t allocated = is_small ? shared.size() * kGranule : all.size() * whole;
    const std::uint64_t found = left();
    // The last granule of small allocations may be full or not.
    const bool is_full = end == kOutOfMemory && available - allocated < whole;
    const bool sound = allocated <= available && (is_full || (end == kSuccess && all.size() == kMost)) &&
                       (found == available - allocated || (found == 0 && allocated >= available));
    std::printf("granules %lu times %lu bytes: %lu allocated, %lu left: %s\n", all.size(), size, allocated,
                found, sound ? "as it should" : "WRONG");
    all_sound = all_sound && sound;
    // Frees every second allocation first: a granule is freed only with the last allocation in it.
    for (const std::size_t from : {std::size_t{0}, std::size_t{1}})
      for (std::size_t i = from; i < all.size(); i += 2) free_pointer(all[i]);
    all_sound = all_sound && left() == available;
  }
  return report(all_sound, "granules under %lu", limit);
}

}  // namespace cuda_program
