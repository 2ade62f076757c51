// Cures that several findings propose, with figures of the machine in place of constants: as numbers where
// the evidence has them, else as a command that reads them where it is run.
#pragma once

#include <optional>
#include <string>

#include "base/units.h"
#include "model/finding.h"

namespace headroom::doctor {

// vm.min_free_kbytes at a thirtieth of the memory. The kernel frees pages until one and a half of it are free
// (the high watermark, min + 2 · min/4): a twentieth, below which page-cache-starves-nvmap is told.
Cure keep_pages_free(const std::optional<Bytes>& ram);

// A swap file of half the memory, in whole GiB. `first`: used before other swap, as zram.
Cure make_swap_file(std::string what, const std::optional<Bytes>& ram, bool first = false,
                    std::optional<Bytes> saves = std::nullopt);

// The next power of two of MiB, from a quarter above this.
std::int64_t mebibytes_above(Bytes size);

}  // namespace headroom::doctor
