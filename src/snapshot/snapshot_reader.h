// From a pickle to a snapshot. What the analysis relies on is checked here: sizes are not negative and below
// 2^46 (64 TiB), so are all segments of a device together, they do not overlap, the blocks of a segment fill
// it in order, and the sizes in a trace add up to less than 2^60.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "snapshot/pickle_input.h"
#include "snapshot/snapshot.h"

namespace headroom::snapshot {

// True if the file begins as a pickle does, plain or gzip, or is named as one (.pickle, .pkl, with or without
// .gz): then it is this reader that says what is wrong with it.
bool is_snapshot_file(const std::filesystem::path& file);

Result<Snapshot> open_snapshot(const std::filesystem::path& file);

// The error has no `what` yet.
Result<Snapshot> read_snapshot(PickleInput& input);

}  // namespace headroom::snapshot
