// Builds a snapshot from a pickle, and checks what the analysis relies on. Sizes are not negative and below
// 2^46 (64 TiB), and so is the sum of all segments of a device. Segments do not overlap. The blocks of a
// segment fill it in order. The sizes in a trace add up to less than 2^60.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "snapshot/pickle_input.h"
#include "snapshot/snapshot.h"

namespace headroom::snapshot {

// True if the file starts like a pickle (plain or gzip), or has a pickle's name (.pickle, .pkl, with or
// without .gz). For such a file, this reader reports the errors.
bool is_snapshot_file(const std::filesystem::path& file);

Result<Snapshot> open_snapshot(const std::filesystem::path& file);

// The error has no `what` yet.
Result<Snapshot> read_snapshot(PickleInput& input);

}  // namespace headroom::snapshot
