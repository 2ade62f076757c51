// Cures that several findings propose, with figures of the machine in place of constants: as numbers where
// the evidence has them, else as a command that reads them where it is run.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"
#include "types/finding.h"

namespace headroom::doctor {

// vm.min_free_kbytes at a thirtieth of the memory. The kernel frees pages until one and a half of it are free
// (the high watermark, min + 2 · min/4): a twentieth, below which page-cache-starves-nvmap is told.
Cure keep_pages_free(const std::optional<Bytes>& ram);

// A swap file of half the memory, in whole GiB. Where there is swap already, /swapfile may be it.
enum class SwapFile { the_first, another, before_others };  // the last is used before other swap, as zram
Cure make_swap_file(std::string what, const std::optional<Bytes>& ram, SwapFile which = SwapFile::the_first,
                    std::optional<Bytes> saves = std::nullopt);

// What a step asks for grows with its batch.
Cure half_of_batch(const std::optional<Bytes>& requested);

// A container's limit. `now`: memory and swap together as they are, where that is known: `docker update`
// refuses more memory than that, and less would be a cure that does harm.
struct ContainerLimit {
  std::int64_t mib = 0;  // the new one of its memory
  Bytes memory;          // the one it has
  std::optional<Bytes> memory_and_swap;
};
std::string docker_update(const ContainerLimit& limit, std::string_view container);

// The next power of two of MiB, from a quarter above this.
std::int64_t mebibytes_above(Bytes size);

}  // namespace headroom::doctor
